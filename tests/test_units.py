"""A plan in units: whole chunks, each once, of about equal work."""

import pytest
from crews import Some
from saboteurs import Honest

from edit_harness import Case, Probe, Request
from edit_harness.cases import Drift
from edit_harness.interfaces import ModelSource, Regime, Task
from edit_harness.registry.plugins import Plugins
from edit_harness.run import plan, shares
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.evaluation import assemble
from edit_harness.run.spec import RunSpec
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.distributed import units

PLUGINS = Plugins.installed()
MODEL = tiny_model()
SINGLE = Regime()


def planned(regime=SINGLE, task=None, count=40):
    benchmark = make_benchmark(PLUGINS, task or Some(count, broken=-1), {}, ModelSource(""))
    return assemble(PLUGINS, MODEL, benchmark, RunSpec(Honest(), "", regime=regime))


def visits(unit):
    return [visit for chunk in unit for visit in sorted(chunk.visits.get("0", ()))]


@pytest.mark.parametrize("workers", [1, 2, 3, 100])
@pytest.mark.parametrize("done", [0, 1, 7])
def test_units_are_whole_chunks_and_cover_what_is_left_once(workers, done):
    made = planned()
    left = made.visits[done:]
    chunks = units.chunks({made: set(made.visits[:done])}, 3)
    found = list(units.units(chunks, workers))
    assert sorted(visit for unit in found for visit in visits(unit)) == sorted(left)
    assert len(found) <= min(8 * workers, 14)
    assert len(found) >= min(8 * workers, 13) * 3 // 4
    groups = [{v for s in group for v in s.visits} for group in plan.grouped(made.steps, 3)]
    for unit in found:
        for chunk in unit:
            assert any(set(chunk.visits["0"]) == group & set(left) for group in groups)


def test_units_are_of_about_equal_work():
    made = planned(count=160)
    found = list(units.units(units.chunks({made: set()}, 1), 2))
    work = [sum(chunk.work for chunk in unit) for unit in found]
    assert len(found) == 16
    assert max(work) <= 1.2 * min(work)


def test_what_is_done_makes_no_unit():
    made = planned()
    assert list(units.units(units.chunks({made: set(made.visits)}, 3), 2)) == []


@pytest.mark.parametrize("done", [0, 5])
def test_a_sequence_is_one_unit(done):
    made = planned(Regime("sequential", 2, checkpoints=(6, 20)))
    chunks = units.chunks({made: set(made.visits[:done])}, 3)
    (unit,) = units.units(chunks, 4)
    assert sorted(visits(unit)) == sorted(made.visits[done:])


class Twofold(Task):
    """Cases of two requests, which are written in turn."""

    metrics = ("success",)

    def cases(self):
        for number in range(12):
            requests = [Request("{} lives in", f"Case {number}", new) for new in ("Paris", "Rome")]
            yield Case(f"case {number}", tuple(requests), (Probe("efficacy", Drift("It")),))


def test_a_unit_begins_with_an_unedited_model():
    """Requests that are written in turn may be of two chunks."""
    made = planned(Regime(in_turn=True), Twofold())
    chunks = units.chunks({made: set()}, 3)
    assert [chunk.fresh for chunk in chunks] == [True, False] * 4
    found = list(units.units(chunks, 2))
    assert len(found) == 4
    assert all(unit[0].fresh for unit in found)


def test_editors_beside_each_other_share_a_chunk():
    one, other = planned(), planned()
    chunks = units.chunks({one: set(one.visits[:2]), other: set()}, 4)
    assert [len(chunks[0].visits[key]) for key in "01"] == [2, 4]
    assert [len(chunk.steps) for chunk in chunks[0].alone()] == [1] * 6
    left = chunks[0].without({"1": {other.visits[0]}})
    assert left.visits == {"1": {other.visits[0]}}


def test_what_is_generated_and_what_is_edited_count():
    made = planned(count=1)
    (step,) = made.steps
    (case,) = step.measure
    text = case.requests[0].text
    asked = 2 * len(text) + len("Paris") + len("Rome") + len(text) + 3 * shares.TOKEN
    edit = shares.EDIT * (len(text) + len("Paris"))
    assert units.chunks({made: set()}, 1)[0].work == edit + 2 * asked
