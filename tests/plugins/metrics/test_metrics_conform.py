"""The bundled metrics pass the suite that third parties run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import question, record, stored, with_texts
from support.seesaw_cases import Invented, cells, tables

from edit_harness.registry.registry import Plugins
from edit_harness.testing import MetricTests
from edit_harness.testing.metrics import invented
from edit_harness_plugins.metrics.drift import NeighborhoodKL
from edit_harness_plugins.metrics.people.confidence import Confidence
from edit_harness_plugins.metrics.people.cross_property import CrossProperty
from edit_harness_plugins.metrics.people.flaws import Flaws
from edit_harness_plugins.metrics.preference import (
    Accuracy,
    Magnitude,
    Success,
    TokenAccuracy,
    Unchanged,
)
from edit_harness_plugins.metrics.rouge import Rouge
from edit_harness_plugins.metrics.texts import Consistency, Fluency
from edit_harness_plugins.metrics.verdicts.hops import MultiHop
from edit_harness_plugins.metrics.verdicts.judging import Judging
from edit_harness_plugins.metrics.verdicts.ripples import Ripple
from edit_harness_plugins.metrics.verdicts.rules import RuleAnswers, RuleHierarchy, RuleLocality
from edit_harness_plugins.metrics.wild import Wild
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.tasks.counterfact.counterfact import CounterFactPlus
from edit_harness_plugins.tasks.mquake import MQuAKE
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits
from edit_harness_plugins.tasks.rule_edit.task import RuleEdit, RuleEditHierarchy, RuleEditInstance
from edit_harness_plugins.tasks.unke import Unke
from edit_harness_plugins.tasks.zsre import ZsRE

METRICS = [c for c in Plugins.installed().of_kind("metric") if c.distribution == "edit-harness"]
COUNTERFACT = [record(i, subject=f"Ada {i}") for i in range(12)]
TASKS = {
    "counterfact-plus": lambda folder: CounterFactPlus(stored(folder, *COUNTERFACT)),
    "zsre": lambda folder: ZsRE(stored(folder, *[question()] * 12)),
    "both": lambda folder: ZsRE(stored(folder, *[question()] * 12), protocol="both", judged=True),
    "texts": lambda folder: with_texts(folder, count=12, generation=1),
    "rules": lambda folder: RuleEdit(),
    "instances": lambda folder: RuleEditInstance(),
    "hierarchy": lambda folder: RuleEditHierarchy(),
    "seesaw": lambda folder: Invented(),
    "mquake": lambda folder: MQuAKE(str(FILES / "mquake.json")),
    "rippleedits": lambda folder: RippleEdits(str(FILES / "rippleedits.json")),
    "unke": lambda folder: Unke(str(FILES / "unke.json")),
}
MEASURED_ON = {
    Success: ["counterfact-plus", "seesaw"],
    Magnitude: ["counterfact-plus"],
    Accuracy: ["counterfact-plus", "zsre"],
    TokenAccuracy: ["counterfact-plus", "zsre"],
    Unchanged: ["zsre"],
    NeighborhoodKL: ["counterfact-plus"],
    Fluency: ["texts"],
    Consistency: ["texts"],
    RuleAnswers: ["rules", "instances"],
    RuleLocality: ["rules"],
    RuleHierarchy: ["hierarchy"],
    Confidence: ["seesaw"],
    CrossProperty: ["seesaw"],
    Flaws: ["seesaw"],
    Judging: ["seesaw", "rules"],
    MultiHop: ["mquake"],
    Ripple: ["rippleedits"],
    Wild: ["both"],
    Rouge: ["unke"],
}
MEASURED = [(kind, task) for kind, tasks in MEASURED_ON.items() for task in tasks]


def test_every_bundled_metric_has_a_citation_and_is_measured_here():
    kinds = {component.load() for component in METRICS}
    assert [kind for kind in kinds if not kind.citation] == []
    assert kinds == MEASURED_ON.keys()


@pytest.mark.parametrize(
    "measured", MEASURED, ids=lambda it: f"{it[0].__name__} of {it[1]}", indirect=True
)
class TestMetrics(MetricTests):
    @pytest.fixture(autouse=True)
    def measured(self, request, tmp_path, monkeypatch):
        kind, task = request.param
        monkeypatch.setattr(self, "metric", kind(), raising=False)
        monkeypatch.setattr(self, "task", TASKS[task](tmp_path), raising=False)


PEOPLE = [
    (each, (invented(each, i), invented(each, ~i))) for i, each in enumerate(Invented().cases())
]


@pytest.mark.parametrize("metric", [Confidence(), CrossProperty(), Flaws()], ids=type)
@given(st.lists(st.sampled_from(PEOPLE), min_size=2, unique_by=lambda it: it[0].id))
def test_the_order_of_cases_does_not_matter_to_tables(metric, drawn):
    one, other = (tables(metric, *zip(*order, strict=True)) for order in (drawn, drawn[::-1]))
    assert one.keys() == other.keys()
    for title, rows in one.items():
        assert rows == [pytest.approx(row, nan_ok=True) for row in other[title]]
    assert metric.tables([], cells(metric, [], [])) == {}
