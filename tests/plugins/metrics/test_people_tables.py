"""What holds for the tables of all metrics on people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.seesaw_cases import Invented, case, cells, same, tables

from edit_harness.testing.metrics import invented
from edit_harness_plugins.commands.report import formats
from edit_harness_plugins.commands.report.formats import listed
from edit_harness_plugins.metrics.people.confidence import Confidence
from edit_harness_plugins.metrics.people.cross_property import CrossProperty
from edit_harness_plugins.metrics.people.flaws import Flaws

CASES = [
    (each, (invented(each, i), invented(each, ~i))) for i, each in enumerate(Invented().cases())
]
METRICS = pytest.mark.parametrize("metric", [Confidence(), CrossProperty(), Flaws()], ids=type)


@METRICS
@given(st.lists(st.sampled_from(CASES), min_size=2, unique_by=lambda it: it[0].id))
def test_the_order_of_cases_does_not_matter(metric, drawn):
    one, other = (tables(metric, *zip(*order, strict=True)) for order in (drawn, drawn[::-1]))
    assert same(one, other)


@pytest.mark.parametrize("metric", [Confidence(), CrossProperty()], ids=type)
def test_they_fit_a_terminal(metric):
    found = tables(metric, *zip(*CASES * 3, strict=True))
    assert len(found) > 2
    for title, rows in found.items():
        text = formats.render(listed(title, rows))
        # A cell that is too long for its column goes on below.
        assert len(text.splitlines()) == len(rows) + 2, text


@METRICS
def test_without_cases_of_its_own_there_is_nothing(metric):
    assert metric.tables([], {}) == {}
    bare = case(set="P21_P101", edited="P21", effect="P101")
    assert tables(metric, [bare], [([], [])]) == {}
    assert metric.summarize(cells(metric, [bare], [([], [])])) == {}
