"""Which part of a plan a shard makes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import cases

from edit_harness import Case, UsageError
from edit_harness.interfaces import Regime
from edit_harness.run.plan import grouped, steps
from edit_harness_plugins.commands.run.shards import Share, units

CONTROL = Case("control", (), ())
REGIMES = st.one_of(
    st.builds(Regime, in_turn=st.booleans()),
    st.builds(
        Regime, mode=st.just("batch"), size=st.integers(1, 7), in_turn=st.booleans(),
        apart=st.sampled_from(["", "kind"]),
    ),
)  # fmt: skip


def mixed(count):
    """Return cases of one to three requests, of three kinds."""
    return [
        Case(each.id, each.requests * (1 + n % 3), each.probes, {"kind": "abc"[n % 3]})
        for n, each in enumerate(cases(count))
    ]


def planned(count, regime):
    return list(steps(mixed(count), regime, () if regime.mode == "single" else [CONTROL]))


def in_units(plan, *sizes):
    return units([list(grouped(plan, size)) for size in sizes])


@given(st.integers(0, 60), REGIMES, st.integers(1, 9), st.integers(0, 3), st.integers(1, 8))
def test_shards_are_disjoint_and_cover_the_plan(count, regime, size, unusable, of):
    plan = planned(count, regime)
    visits = unusable + sum(len(step.visits) for step in plan)
    parts = in_units(plan, size)
    if of > max(len(parts), 1):
        with pytest.raises(UsageError):
            Share(1, of).among(parts, unusable)
        return
    spans = [span for n in range(of) for span in Share(n + 1, of).among(parts, unusable)]
    places = [place for start, stop in spans for place in range(start, stop)]
    assert sorted(places) == list(range(visits))
    if parts:
        assert all(Share(n + 1, of).among(parts, unusable) for n in range(of))


@given(st.integers(1, 60), REGIMES, st.integers(1, 9), st.integers(1, 9))
def test_units_split_no_chunk_of_any_device_and_no_edit(count, regime, size, other):
    plan = planned(count, regime)
    found = in_units(plan, size, other)
    assert [step for unit in found for step in unit] == plan
    assert all(unit[0].fresh for unit in found)
    for each in (size, other):
        chunks = [chunk for unit in found for chunk in grouped(unit, each)]
        assert chunks == list(grouped(plan, each))


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/0", "1", "-1/4", "", "١/٢"])
def test_a_text_that_is_no_shard_is_told(text):
    with pytest.raises(UsageError, match=r"the second of four: --shard 2/4"):
        Share.parse(text)


def test_how_many_shards_there_can_be_is_told():
    parts = in_units(planned(10, Regime()), 4)
    with pytest.raises(UsageError, match=r"3 parts, too few for 4 shards\nmake 3 shards at most"):
        Share(1, 4).among(parts, 0)
    with pytest.raises(UsageError, match=r"1 part, too few for 2 shards\nleave --shard out"):
        Share(1, 2).among(parts[:1], 0)
    # A sequence is one unit.
    assert len(in_units(planned(20, Regime("sequential")), 4)) == 1
