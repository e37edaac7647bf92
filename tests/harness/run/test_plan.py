from dataclasses import replace

import pytest
from support.builders import cases

from edit_harness import Case, Request, UsageError
from edit_harness.interfaces import Regime
from edit_harness.run.plan import checkpoints, conflicting, conflicts, sample, steps


def ids(group) -> str:
    return "".join(case.id for case in group)


@pytest.mark.parametrize(
    ("count", "regime", "expected"),
    [
        (3, {}, [("0", "0", True, 0), ("1", "1", True, 0), ("2", "2", True, 0)]),
        (
            5,
            {"mode": "batch", "size": 2},
            [("01", "01", True, 1), ("23", "23", True, 2), ("4", "4", True, 3)],
        ),
        (3, {"mode": "batch", "size": 0}, [("012", "012", True, 1)]),
        (
            3,
            {"mode": "sequential"},
            [("0", "", True, 1), ("1", "", False, 2), ("2", "012", False, 3)],
        ),
        (
            5,
            {"mode": "sequential", "size": 2, "checkpoints": (2, 3)},
            [("01", "01", True, 2), ("23", "0123", False, 4), ("4", "01234", False, 5)],
        ),
        (
            3,
            {"mode": "sequential", "immediate": True, "checkpoints": (2,)},
            [("0", "0", True, 1), ("1", "01", False, 2), ("2", "012", False, 3)],
        ),
        (0, {}, []),
        (0, {"mode": "batch"}, []),
        (0, {"mode": "sequential"}, []),
    ],
)
def test_steps_are_what_a_regime_says(count, regime, expected):
    """What each step edits and measures, whether it starts from the unedited model, and its state."""
    made = list(steps(cases(count), Regime(**regime)))
    assert [(ids(s.edit), ids(s.measure), s.fresh, s.state) for s in made] == expected
    assert all(len(s.requests) == len(s.edit) for s in made)


def pair_of(case) -> Case:
    """A case of two requests."""
    return Case("pair", (*case.requests, Request("{} works in", "Ada", "Oslo")), case.probes)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("points", [(), (2, 5), (3, 100)])
def test_checkpoints_are_where_all_cases_so_far_are_measured(size, points):
    regime = Regime("sequential", size, immediate=True, checkpoints=points)
    for count in range(1, 8):
        expected = checkpoints(count, regime)
        whole = [s.state for s in steps(cases(count), regime) if len(s.measure) == s.state]
        # The first group is all cases so far whenever it is measured.
        assert [s for s in whole if s > size or s in expected] == expected
        few = [
            s for s in steps(cases(count), replace(regime, immediate=False, sample=2)) if s.measure
        ]
        assert [len(s.measure) for s in few[:-1]] == [min(2, s.state) for s in few[:-1]]
        assert len(few[-1].measure) == count
    assert checkpoints(7, Regime("batch", 2)) == []
    assert checkpoints(7, Regime("sequential", 2, checkpoints=(2, 5))) == [2, 6, 7]


def test_requests_in_turn_are_steps_on_top_of_each_other():
    """The case is measured once, when all its requests are in; of a batch they go in by their number."""
    (one, other) = cases(2)
    pair, control = pair_of(one), Case("control", (), one.probes)
    found = [
        (ids(s.edit), [r.target_new for r in s.requests], ids(s.measure), s.fresh)
        for s in steps([pair, other], Regime(in_turn=True))
    ]
    assert found == [
        ("pair", ["Paris"], "", True),
        ("pair", ["Oslo"], "pair", False),
        ("1", ["Paris"], "1", True),
    ]
    made = list(steps([pair, other], Regime("batch", 0, in_turn=True)))
    assert [len(s.requests) for s in made] == [2, 1]
    assert [ids(s.measure) for s in made] == ["", "pair1"]
    made = list(steps([pair], Regime(in_turn=True), [control], [1]))[2:]
    assert [(s.fresh, s.visits) for s in made] == [(True, []), (False, [("control", 1)])]


def test_controls_are_asked_wherever_cases_are():
    """For them single edits are made again, behind all cases."""
    control = Case("control", (), cases(1)[0].probes)
    regime = Regime("sequential", immediate=False, checkpoints=(2,))
    asked = [[c.id for c in s.measure] for s in steps(cases(3), regime, [control])]
    assert asked == [[], ["0", "1", "control"], ["0", "1", "2", "control"]]
    plain = list(steps(cases(4), Regime()))
    made = list(steps(cases(4), Regime(), [control], [2, 4]))
    assert made[:4] == plain
    assert [(s.again, s.state, s.requests, s.visits) for s in made[4:]] == [
        (True, 2, plain[1].requests, [("control", 2)]),
        (True, 4, plain[3].requests, [("control", 4)]),
    ]
    assert list(steps(cases(4), Regime(), [], [2, 4])) == plain


def test_a_sample_is_the_same_every_time_and_of_distinct_edits():
    chosen = sample(100, 10, seed=0)
    assert chosen == sample(100, 10, seed=0) == sorted(set(chosen))
    assert len(chosen) == 10
    assert chosen != sample(100, 10, seed=1)
    assert sample(3, 10, seed=0) == [1, 2, 3]


def test_a_tag_keeps_cases_apart():
    tagged = [
        Case(str(i), (Request("{} is", f"S{i}", "x"),), (), {"set": name})
        for i, name in enumerate("abab")
    ]
    plan = list(steps(tagged, Regime("batch", 0, apart="set")))
    assert [[case.id for case in step.edit] for step in plan] == [["0", "2"], ["1", "3"]]
    assert [(step.state, step.fresh) for step in plan] == [(1, True), (2, True)]
    plan = list(steps(tagged, Regime("batch", 1, apart="set")))
    assert [step.edit[0].id for step in plan] == ["0", "2", "1", "3"]
    with pytest.raises(UsageError, match="cases are kept apart in batches"):
        Regime("single", apart="set")


def writing(number, new, subject="Istanbul", prompt="{} lies in", **tags):
    return Case(str(number), (Request(prompt, subject, new),), (), tags)


def test_conflicts_are_of_one_subject_and_one_relation_and_of_edits_that_share_a_model():
    """Item 12 of issue I: as records 2580 and 17403 of CounterFact, on Istanbul."""
    related = [
        writing(0, "Asia", relation="P30"),
        writing(1, "Africa", prompt="{} belongs to the continent of", relation="P30"),
        writing(2, "Asia", prompt="{} is a part of", relation="P30"),
        writing(3, "Africa", relation="P31"),
        writing(4, "Africa", subject="Ankara", relation="P30"),
        writing(5, "Europe", relation="P30"),
    ]
    assert conflicts(related) == {"1": "0", "5": "0"}
    bare = [writing(0, "Asia"), writing(1, "Africa", prompt="{} is in"), writing(2, "Africa")]
    assert conflicts(bare) == {"2": "0"}
    assert conflicts([bare[0], Case("3", (), (), problem="none")]) == {}
    left_out = pair_of(bare[2])  # and so is what it says of Ada
    later = writing(4, "Rome", subject="Ada", prompt="{} works in")
    assert conflicts([bare[0], left_out, later]) == {"pair": "0"}
    several = [writing(0, "Asia"), writing(1, "Rome", subject="Ann"), writing(2, "Africa")]
    assert conflicting(several, Regime()) == {}
    assert conflicting(several, Regime("batch", 2)) == {}
    assert conflicting(several, Regime("batch", 0)) == {"2": "0"}
    assert conflicting(several, Regime("sequential")) == {"2": "0"}


@pytest.mark.parametrize("regime", [{"conflicts": "drop"}, {"mode": "batch", "conflicts": "x"}])
def test_conflicts_are_dropped_where_edits_share_a_model(regime):
    with pytest.raises(UsageError, match="where edits share a model"):
        Regime(**regime)
