"""D and D_d of Seesaw-CF, against naive versions and by hand."""

import math
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import scores
from support.seesaw_cases import CLOSE, case, person, sure, tables

from edit_harness.folder.record import Record
from edit_harness.folder.table import RunTable
from edit_harness_plugins.metrics.people.confidence import Confidence
from edit_harness_plugins.significance import benjamini_hochberg, one_sample

METRIC = Confidence()
GROUPS = ["gender=female", "gender=male", "race=Black", "race=Jewish", "geo=Africa", "geo=Oceania"]
TAGS = [
    {},
    {"gender": "male"},
    {"gender": "female", "race": "Black"},
    {"gender": "female", "race": "Black|Jewish", "geo": "Africa"},
    {"race": "Jewish", "geo": "Africa|Oceania"},
]


def groups_of(tags):
    return [f"{kind}={value}" for kind, values in tags.items() for value in values.split("|")]


# A case


def test_d_is_a_difference_of_geometric_means_over_tokens():
    """Raising the probability of the value that is true of the other person raises D."""
    before, after = scores([0.5, 0.5, 0.125], [0.9, 0.4]), scores([0.9], [0.9, 0.4])
    pre = 0.5 ** (5 / 3) - 0.6
    assert METRIC.measure(case(person()), [before], [after]) == pytest.approx(
        {"pre_D": pre, "post_D": 0.3, "post_D_d": 0.3 - pre, "prompts": 1}, abs=CLOSE
    )
    nan = METRIC.measure(case(person()), [before], [scores([math.nan], [0.5])])
    assert nan == pytest.approx({"pre_D": pre, "prompts": 1}, abs=CLOSE)


# Many cases

tagged = st.lists(
    st.tuples(st.sampled_from(TAGS), st.floats(-0.9, 0.9), st.floats(-0.9, 0.9)), max_size=6
)
runs = st.lists(st.tuples(st.sampled_from(["P101", "P21_P101"]), tagged), min_size=1, max_size=8)


def made(run):
    """Return the cases of a run and their answers."""
    cases = [
        case(*(person(**tags) for tags, _, _ in asked), name=str(i), set=of)
        for i, (of, asked) in enumerate(run)
    ]
    answers = [([sure(b) for _, b, _ in asked], [sure(a) for _, _, a in asked]) for _, asked in run]
    return cases, answers


@given(runs)
def test_groups_are_means_over_the_cases_that_have_them(run):
    cases, answers = made(run)
    found = tables(METRIC, cases, answers)
    for name in {of for of, _ in run}:
        rows = {row["group"]: row for row in found.get(f"D by group, {name}", ())}
        tests = {row["group"]: row for row in found.get(f"tests of D_d by group, {name}", ())}
        for group in ["all", *GROUPS]:
            sides = [
                [(b, a) for tags, b, a in asked if group in ("all", *groups_of(tags))]
                for of, asked in run
                if of == name
            ]
            sides = [each for each in sides if each]
            assert (group in rows) == (group in tests) == bool(sides)
            if sides:
                before, after = ([mean(pair[i] for pair in each) for each in sides] for i in (0, 1))
                row = rows[group]
                assert (row["cases"], row["prompts"]) == (len(sides), sum(map(len, sides)))
                assert row["before"] == pytest.approx(mean(before), abs=1e-9)
                assert row["after"] == pytest.approx(mean(after), abs=1e-9)
                assert row["D_d"] == pytest.approx(mean(after) - mean(before), abs=1e-9)
                if len(sides) == 1:
                    assert tests[group]["p"] is tests[group]["t"] is tests[group]["low 95%"] is None


def test_the_tests_are_of_paired_differences():
    rng = np.random.default_rng(0)
    run = [
        ("P101", [(tags, rng.uniform(-0.5, 0.5), rng.uniform(-0.8, 0.3)) for tags in TAGS])
        for _ in range(12)
    ]
    found = tables(METRIC, *made(run))["tests of D_d by group, P101"]
    rows = {row["group"]: row for row in found}
    assert [*rows] == ["all", *GROUPS]
    for group in ["all", *GROUPS]:
        changes = [
            mean(a - b for tags, b, a in asked if group in ("all", *groups_of(tags)))
            for _, asked in run
        ]
        test = one_sample(changes)
        found = [rows[group][name] for name in ("t", "p", "low 95%", "high 95%")]
        assert found == pytest.approx([test.t, test.p, test.low, test.high], rel=1e-9)
    corrected = benjamini_hochberg([rows[group]["p"] for group in GROUPS])
    assert [row["p BH"] for row in rows.values()] == [None, *corrected]


def falling(name, group, changes):
    """Cases of a set with one person each, and by how much the model gets surer."""
    tags = dict([group.split("=")])
    return [(name, [(tags, 0.0, change)]) for change in changes]


FALLS = [-0.3, -0.31, -0.29, -0.32]
RISES = [0.3, 0.31, 0.29, 0.32]


def test_falls_are_starred_by_set_and_by_group():
    """One is taken back by the correction, and what never varies is not tested."""
    run = [
        *falling("P101", "race=Black", FALLS),
        *falling("P101", "race=Jewish", RISES),
        *falling("P101", "geo=Africa", [0.1, -0.1, 0.2]),
        *falling("P101", "gender=male", [-0.5]),
        *falling("P27_P101", "race=Black", [-0.1, -0.3, -0.05, -0.25, -0.02, -0.1]),
        *falling("P27_P101", "race=Jewish", [0.2, -0.1, 0.1]),
        *falling("P27_P101", "geo=Africa", [-0.25] * 5),
    ]
    found = tables(METRIC, *made(run))
    title, *_ = found
    assert title == "D_d by group and set; * falls, p < 0.05, ** BH too (all: p alone)"
    assert {row["group"]: (row["P101"], row["P27_P101"]) for row in found[title]} == {
        "all": ("-0.025", "-0.134*"), "gender=male": ("-0.5", "–"),
        "race=Black": ("-0.305**", "-0.137*"), "race=Jewish": ("0.305", "0.0667"),
        "geo=Africa": ("0.0667", "-0.25"),
    }  # fmt: skip


def test_an_edit_that_failed_is_in_no_table():
    cases = [case(person(), name=str(i), set="P101") for i in range(3)]
    values = [METRIC.measure(cases[0], [sure(0.5)], [sure(d)]) for d in (0.25, 0.75)]
    values.append(METRIC.failed(cases[2], [sure(-0.5)]))
    records = [Record(c.id, "ok", {"it": v}) for c, v in zip(cases, values, strict=True)]
    (row,) = METRIC.tables(cases, RunTable.of(records).columns("it"))["D by group, P101"]
    assert row == {
        "group": "all", "cases": 2, "prompts": 2, "before": pytest.approx(0.5),
        "after": pytest.approx(0.5), "D_d": pytest.approx(0.0, abs=CLOSE),
    }  # fmt: skip
    alone = RunTable.of(records[2:]).columns("it")
    assert METRIC.tables(cases[2:], alone) == {}
    assert METRIC.summarize(alone) == {"pre_D": pytest.approx(-0.5)}
    assert METRIC.failed(cases[2], []) == {}
