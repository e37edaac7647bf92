"""Runs on workers, beside the same run in one process: what dies, disagrees or fails, and what is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pytest
from support.builders import IDENTITY, with_entries
from support.commands import stored
from support.local_workers import (
    CHUNK,
    INVALID,
    PLUGINS,
    Bench,
    Leaking,
    Mortal,
    Some,
    Together,
    rows,
    statuses,
)
from support.saboteurs import Honest

from edit_harness import errors
from edit_harness.interfaces import Regime
from edit_harness.registry.registry import Plugins
from edit_harness.run import plan
from edit_harness_plugins.commands.distributed.pool import check_identity


@dataclass
class Other(Honest):
    """The same under another name, to run beside it."""

    variant = "other"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNKS", ((10**9, CHUNK),))
        patch.setattr(Plugins, "installed", lambda: PLUGINS)  # reading them takes longest
        yield


@pytest.fixture
def bench(folder, tmp_path):
    return Bench(folder, tmp_path)


def together(size, dies=lambda *_: False):
    return partial(Together, size=size, dies=dies)


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    """The rows of the same run in one process."""
    (made,) = Bench(folder, tmp_path_factory.mktemp("alone")).run()
    return rows(made)


@pytest.mark.parametrize("size", [1, 3])
def test_workers_make_the_rows_that_one_process_makes(bench, alone, size):
    (folder,) = bench.run(together(size))
    assert rows(folder) == alone
    assert (len(bench.workers.sent), bench.workers.started) == (6, size)
    assert bench.workers.closed
    (segment,) = folder.manifest().segments
    assert segment.environment["workers"] == str(size)


def test_editors_run_beside_each_other_on_workers_too(bench):
    editors = Mortal(), Other()
    expected = [rows(folder) for folder in bench.run(editors=editors, where="alone")]
    assert [rows(folder) for folder in bench.run(together(2), editors)] == expected
    assert all(set(batch.visits) == {0, 1} for batch in bench.workers.sent)


@pytest.mark.parametrize(
    ("regime", "sent"),
    [
        (Regime("sequential", 3, checkpoints=(6,)), 1),
        (Regime("batch", 4), 3),
        (Regime(in_turn=True), 6),
    ],
)
def test_edits_that_share_a_model_stay_together(bench, regime, sent):
    """Requests that are written in turn may be of two chunks, and are of one job."""
    bench.task = Some(requests=3 if regime.in_turn else 1)
    (expected,) = bench.run(where="alone", regime=regime)
    (folder,) = bench.run(together(2), regime=regime)
    assert rows(folder) == rows(expected)
    assert len(bench.workers.sent) == sent


def test_a_run_goes_on_with_another_number_of_workers(bench, alone):
    with pytest.raises(KeyboardInterrupt):
        bench.run(together(4, interrupts(KeyboardInterrupt, 5)))
    assert bench.workers.closed
    (folder,) = bench.last.values()
    assert len(folder.records()) == 1 + 4
    with pytest.raises(errors.Terminated):
        bench.run(together(1, interrupts(errors.Terminated, 3)))
    assert len(folder.records()) > 6
    bench.run(together(2))
    assert rows(folder) == alone
    bench.workers = None
    bench.run(together(2))
    assert bench.workers is None, "what is finished needs no workers"


def interrupts(error, at):
    """Let a signal come to the driver after so many rows."""
    seen = []

    def dies(worker, unit, count):
        seen.append(count > 0)
        if sum(seen) == at:
            raise error
        return False

    return dies


@pytest.mark.parametrize(
    ("size", "at", "died"), [(1, 0, "1 worker"), (2, 1, "2 workers"), (2, 3, "")]
)
def test_the_work_of_the_dead_returns_whole(bench, alone, size, at, died):
    """Each of the first workers dies once, before a row, in the middle of a chunk, or behind one."""
    (folder,) = bench.run(together(size, lambda w, n, count: w <= size and count == at and n >= 0))
    assert rows(folder) == alone
    if died:
        assert set(bench.workers.killed) == set(range(1, size + 1)), "their device may have failed"
        assert bench.workers.started >= 2 * size
        assert f"{died} died, the last of them: killed; others did their work" in folder.notes


def test_who_dies_again_and_again_but_gets_further_costs_nothing(bench):
    """A sequence is one job, whose deaths are counted since its last row."""
    regime = Regime("sequential", 3)
    (expected,) = bench.run(where="alone", regime=regime)
    (folder,) = bench.run(together(2, lambda worker, unit, count: count == 1), regime=regime)
    assert rows(folder) == rows(expected)
    assert bench.workers.started > 10


@pytest.fixture
def deadly(monkeypatch):
    """Return the numbers of the cases that kill whoever edits them."""
    monkeypatch.setattr(Mortal, "deadly", set())
    return Mortal.deadly


def test_only_the_case_fails_that_takes_workers_down(bench, alone, deadly):
    deadly.add(7)
    (folder,) = bench.run(together(2))
    assert statuses(folder) == INVALID | {"case 7": "device_error"}
    (record,) = (record for record in folder.records() if record.case == "case 7")
    assert record.message == "2 workers died of it, the last of them: killed"
    found, near = rows(folder), {(f"case {n}", 0) for n in (6, 7, 8)}
    assert {v for v in alone if found[v] != alone[v]} <= near
    assert [batch.alone for batch in bench.workers.sent].count(True) == 3
    deadly.clear()
    bench.run(together(1), retry=True)
    assert statuses(folder) == INVALID
    assert {record.attempt for record in folder.records() if record.case == "case 7"} == {2}


def test_several_such_cases_end_the_run(bench, deadly):
    deadly.update((1, 5, 9))
    with pytest.raises(errors.ResourceError, match="3 cases took down each worker that ran them"):
        bench.run(together(2))
    (folder,) = bench.last.values()
    assert list(statuses(folder).values()).count("device_error") == 3
    assert bench.workers.closed


def test_a_sequence_that_takes_workers_down_is_given_up_where_it_stands(bench):
    regime = Regime("sequential", 3, checkpoints=(6,))

    def dies(worker, unit, count):
        return count == (8 if worker == 1 else 0) and unit >= 0

    (folder,) = bench.run(together(1, dies), regime=regime)
    found = {record.visit: record.status for record in folder.records()}
    assert list(found.values()).count("ok") == 8, "what came stays"
    assert set(found.values()) == {"ok", "device_error", "invalid_case"}


def test_workers_that_do_not_start_end_the_run(bench):
    dead = r"3 workers in a row died before .* no memory"
    with pytest.raises(errors.ResourceError, match=dead) as error:
        bench.run(together(2, lambda worker, unit, count: unit < 0))
    assert error.value.remedy == "install the same on every worker"
    (folder,) = bench.last.values()
    assert set(statuses(folder)) == {"case 3"}


def test_a_worker_that_does_not_start_is_replaced(bench, alone):
    (folder,) = bench.run(together(2, lambda worker, unit, count: unit < 0 and worker == 1))
    assert rows(folder) == alone
    assert bench.workers.started == 3


def of_another_code(card):
    return {**card, "identities": [with_entries(each, code=[]) for each in card["identities"]]}


def on_another_device(card):
    return {**card, "environment": {**card["environment"], "processor": "H200"}}


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        (of_another_code, errors.PluginError, "the worker on .* has another edit-harness"),
        (on_another_device, errors.DataError, "has processor H200, not cpu as that on "),
    ],
)
def test_a_worker_that_has_something_else_ends_the_run_before_any_row(bench, change, error, told):
    def workers(order):
        made = Together(order, 2)
        start = made._start

        def second(worker):
            for event in start(worker):
                yield replace(event, card=change(event.card)) if worker == 2 else event

        made._start = second
        return made

    with pytest.raises(error, match=told):
        bench.run(workers)
    (folder,) = bench.last.values()
    assert set(statuses(folder)) == {"case 3"}
    assert len(folder.records()) == 1
    assert bench.workers.closed


def test_a_leak_on_a_worker_ends_the_run_as_in_one_process(bench):
    with pytest.raises(errors.LeakError) as expected:
        bench.run(editors=(Leaking(),), where="alone")
    (one,) = bench.last.values()
    with pytest.raises(errors.LeakError) as error:
        bench.run(together(1), editors=(Leaking(),))
    (other,) = bench.last.values()
    assert str(error.value) == str(expected.value)
    assert rows(one) == rows(other)


def test_a_run_may_end_at_the_first_failure_of_a_worker(bench, deadly):
    deadly.add(7)
    bench.task = Some(broken=-1)
    with pytest.raises(errors.CaseError):
        bench.run(together(2), stop=True)
    assert bench.workers.closed


def test_what_a_worker_has_assembled_otherwise_is_told():
    wanted = with_entries(IDENTITY, code=[["edit-harness", "0"]])
    check_identity(wanted, wanted, "n1")
    for change, error, told in (
        ({"model": {"digest": "2"}}, errors.DataError, "model.digest: 2, not "),
        ({"together": "x"}, errors.DataError, "together: x, not "),
        ({"seed": 7}, errors.PluginError, "seed: 7, not 0"),
        ({"code": [["edit-harness", "1"]]}, errors.PluginError, "edit-harness"),
    ):
        with pytest.raises(error, match=f"the worker on n1 has another {told}"):
            check_identity(wanted, with_entries(wanted, **change), "n1")
