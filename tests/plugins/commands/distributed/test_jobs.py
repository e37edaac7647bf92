"""A plan in jobs for workers: whole chunks, each once."""

import pytest
from support.local_workers import Some
from support.saboteurs import Honest

from edit_harness.interfaces import ModelSource, Regime
from edit_harness.registry.registry import Plugins
from edit_harness.run import plan
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.evaluation import assemble
from edit_harness.run.spec import RunSpec
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.distributed.pool import jobs

PLUGINS = Plugins.installed()
MODEL = tiny_model()
SINGLE = Regime()


def planned(regime=SINGLE, task=None, count=40):
    benchmark = make_benchmark(PLUGINS, task or Some(count, broken=-1), {}, ModelSource(""))
    return assemble(PLUGINS, MODEL, benchmark, RunSpec(Honest(), "", regime=regime))


def visits(job):
    return sorted(job.left.get(0, ()))


@pytest.mark.parametrize("done", [0, 1, 7])
def test_jobs_are_whole_chunks_and_cover_what_is_left_once(done):
    made = planned()
    left = made.visits[done:]
    found = jobs({made: set(made.visits[:done])}, 3)
    assert sorted(visit for job in found for visit in visits(job)) == sorted(left)
    assert jobs({made: set(made.visits)}, 3) == [], "what is done makes no job"
    groups = [{v for s in group for v in s.visits} for group in plan.grouped(made.steps, 3)]
    assert [job.left[0] for job in found] == [
        group & set(left) for group in groups if group & set(left)
    ]


def test_a_job_begins_with_an_unedited_model():
    """Requests that are written in turn may be of two chunks."""
    made = planned(Regime(in_turn=True), Some(12, broken=-1, requests=2))
    assert len(list(plan.grouped(made.steps, 3))) == 8
    assert len(jobs({made: set()}, 3)) == 4


def test_editors_beside_each_other_share_a_job():
    one, other = planned(), planned()
    job, *_ = jobs({one: set(one.visits[:2]), other: set()}, 4)
    assert [len(job.left[place]) for place in (0, 1)] == [2, 4]
    first = one.visits[2]
    assert job.came(0, first)
    assert not job.came(0, first)
    alone = job.apart()
    assert [sum(map(len, each.left.values())) for each in alone] == [1] * 5
    assert all(each.alone for each in alone)
