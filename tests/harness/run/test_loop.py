"""The loop on a tiny random model: editors that go wrong in every way, clean answers that they share."""

import re
from dataclasses import dataclass

import pytest
import torch
from msgspec import structs
from support.loops import CASES, PEOPLE, SINGLE, Push, case, ran, worked

from edit_harness import Case, DataError, Metric, PluginError
from edit_harness.edits import Edit, LowRank
from edit_harness.interfaces import Regime
from edit_harness.model.reuse import start_of_edit
from edit_harness.run.clean import CleanPass
from edit_harness.run.measure import Work
from edit_harness.run.plan import chunks, steps


def run(model, editor, metrics, regime=SINGLE, cases=CASES):
    work = Work(CleanPass(model), editor, metrics)
    return [work.records(chunk) for chunk in chunks(steps(cases, regime), 64)]


@pytest.mark.parametrize("chunk", [1, 2])
def test_the_chunk_changes_no_number(model, chunk):
    records = ran(model, Push())
    assert [r.case for r in records] == list(PEOPLE)
    for one, other in zip(ran(model, Push(), size=chunk), records, strict=True):
        for name, value in one.values["probability"].items():
            assert value == pytest.approx(other.values["probability"][name], abs=1e-5)


def raising(error):
    def does(model, edit):
        raise error

    return does


def adapting(error):
    def fail(inputs, outputs, rows):
        raise error

    def does(model, edit):
        return Edit(edit.weights, {model.architecture.projection(1).name: fail})

    return does


def widened(model, edit):
    (name,) = edit.weights
    return Edit({name: LowRank(torch.ones(3, 1), torch.ones(1, 3))})


def with_nan(model, edit):
    ((name, delta),) = edit.weights.items()
    return Edit({name: LowRank(delta.left * float("nan"), delta.right)})


@pytest.mark.parametrize(
    ("does", "status", "told"),
    [
        (raising(ValueError("no key")), "edit_failed", "ValueError: no key (test_loop.py:"),
        (raising(SystemExit(9)), "edit_failed", "SystemExit: 9"),
        (raising(BaseExceptionGroup("g", [SystemExit(0)])), "edit_failed", "BaseExceptionGroup: "),
        (lambda model, edit: None, "plugin_error", "not an Edit"),
        (widened, "plugin_error", "has the shape (3, 3)"),
        (adapting(ValueError("no key")), "plugin_error", "ValueError: no key (test_loop.py:"),
        (with_nan, "nonfinite", ""),
    ],
)
def test_what_goes_wrong_with_one_case_stops_nobody(model, does, status, told):
    class Odd(Push):
        def edit(self, model, requests):
            edit = super().edit(model, requests)
            return does(model, edit) if requests[0].subject == "Bob" else edit

    records = ran(model, Odd())
    assert [r.status for r in records] == ["ok", status, "ok", "ok", "ok"]
    assert told in records[1].message
    assert records[1].values == {"probability": {"post_p": 0.0}}
    clean = ran(model, Push())
    for i in (0, 2, 3, 4):
        expected = pytest.approx(clean[i].values["probability"], rel=1e-4)
        assert records[i].values["probability"] == expected


def test_searches_that_memory_does_not_hold_are_halved(model):
    """Down to the one that fails by itself; the others are still made together."""
    sizes = []

    @dataclass
    class Greedy(Push):
        def edit_each(self, model, batches):
            sizes.append(len(batches))
            if len(batches) > 2:
                raise torch.OutOfMemoryError
            return super().edit_each(model, batches)

    records = ran(model, Greedy(fails=("Ann",)))
    assert sizes == [5, 2, 3, 2]
    assert [r.status for r in records] == ["ok", "ok", "edit_failed", "ok", "ok"]
    clean = ran(model, Push())
    for i in (0, 1, 3, 4):
        assert records[i].values == clean[i].values


def test_a_case_that_memory_does_not_hold_is_a_failure_and_stops_nobody(model, monkeypatch):
    expected = ran(model, Push())
    plain, longest = model.logits, 20

    def small(batch, *args, **kwargs):
        if batch.ids.shape[1] >= longest:
            raise torch.OutOfMemoryError
        return plain(batch, *args, **kwargs)

    cases = [case(name) for name in PEOPLE[:3]] + [case("long", "Ada " * 20)]
    monkeypatch.setattr(model, "logits", small)
    records = ran(model, Push(), cases)
    assert [r.status for r in records] == ["ok", "ok", "ok", "oom"]
    assert records[3].values == {"probability": {"post_p": 0.0}}
    assert "memory" in records[3].message
    assert records[0].values["probability"] == pytest.approx(expected[0].values["probability"])


def test_nan_before_an_edit_ends_the_run(model):
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(DataError, match="unedited model answers case Ada with NaN"):
        ran(model, Push())


def test_a_prompt_that_is_too_long_is_a_failure_and_stops_nobody(model):
    """What only the edit makes too long has its answers before; what the model has no room for counts nowhere."""

    class Verbose(Push):
        def edit(self, model, requests):
            edit = super().edit(model, requests)
            return Edit(prefix="Ada " * 1000) if requests[0].subject == "Ada" else edit

    cases = [*CASES[:2], case("Long", "Bob lives in " * 1000), *CASES[2:]]
    records = ran(model, Verbose(), cases)
    assert [r.status for r in records] == ["too_long", "ok", "invalid_case", "ok", "ok", "ok"]
    assert "tokens are more than" in records[2].message
    assert (records[2].values, bool(records[0].values)) == ({}, True)
    (expected,) = ran(model, Push(), CASES[:1])
    scored, drifted = records[0].before
    assert (scored["tokens"], drifted, records[0].after) == (
        expected.before[0]["tokens"], expected.before[1], [],
    )  # fmt: skip
    assert scored["logprobs"] == [pytest.approx(part) for part in expected.before[0]["logprobs"]]


@dataclass
class Says(Metric):
    value: object

    def measure(self, case, before, after):
        return {"post_x": self.value}


@pytest.mark.parametrize("value", ["1", None, 1j, 10**400, float("nan"), float("-inf"), [1.0]])
def test_a_metric_that_returns_no_numbers_is_named(model, value):
    told = f"metric mine gives case Ada a post_x of {value!r}"[:60]
    with pytest.raises(PluginError, match=re.escape(told)):
        run(model, Push(), {"mine": Says(value)})


@pytest.mark.parametrize("done", [("Ada", "Bob"), ("Ada",)])
def test_what_is_done_is_not_done_again(model, done):
    """The rest of a chunk is computed in the same chunk."""
    editor = Push()
    records = ran(model, editor, done={(name, 0) for name in done}, size=2)
    assert [r.case for r in records] == list(PEOPLE[len(done) :])
    assert editor.edited == list(PEOPLE if len(done) == 1 else PEOPLE[2:])


SEQUENCE = Regime("sequential", immediate=True, checkpoints=(2, 4))
VISITS = [
    ("Ada", 1), ("Ada", 2), ("Bob", 2), ("Ann", 3), ("Ada", 4), ("Bob", 4), ("Ann", 4),
    ("Danielle", 4), *((name, 5) for name in PEOPLE),
]  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 3])
def test_a_sequence_is_the_sum_of_its_edits_at_every_point(model, chunk):
    """By hand: add up the edits of the first cases, and ask each case in a pass of its own.

    The tolerance is that of adding deltas in another order and of shared passes, in float32.
    """
    records = ran(model, Push(), regime=SEQUENCE, size=chunk)
    assert [r.visit for r in records] == VISITS
    by_id = {case.id: case for case in CASES}
    for r in records:
        total = Edit()
        for made in CASES[: r.state]:
            total = total + Push().edit(model, made.requests)
        asked = [(total, probe.query) for probe in by_id[r.case].probes]
        choice, drift = model.answer(asked)
        assert r.values["probability"]["post_p"] == pytest.approx(choice.prob(0), rel=1e-4)
        assert r.values["probability"]["kl"] == pytest.approx(drift.forward, rel=1e-4)


@pytest.mark.parametrize("kept", [1, 4, len(VISITS) - 1, len(VISITS)])
def test_a_sequence_goes_on_where_it_stopped(model, kept):
    whole, editor = ran(model, Push(), regime=SEQUENCE, size=2), Push()
    rest = ran(model, editor, regime=SEQUENCE, size=2, done=set(VISITS[:kept]))
    assert [r.visit for r in rest] == VISITS[kept:]
    for one, other in zip(rest, whole[kept:], strict=True):
        assert (one.before, one.after, one.values) == (other.before, other.after, other.values)
    assert rest or not editor.edited


def test_a_failed_edit_of_a_sequence_is_a_failure_at_every_later_point(model):
    """The others are measured on the model without it."""
    records = ran(model, Push(fails=("Ada",)), regime=SEQUENCE)
    failed = {r.visit for r in records if r.status != "ok"}
    assert failed == {visit for visit in VISITS if visit[0] == "Ada"}
    without = ran(model, Push(), CASES[1:], regime=Regime("sequential"))
    final = [r for r in records if r.state == 5][1:]
    for one, other in zip(final, without, strict=True):
        assert one.values["probability"] == pytest.approx(other.values["probability"], rel=1e-4)


class Halved(Push):
    """Is measured at half its strength, but where it is told to fail."""

    def finish(self, model, edit):
        if len(self.edited) in self.infinite:
            raise ValueError("no end")
        return Edit({name: LowRank(d.left / 2, d.right) for name, d in edit.weights.items()})


def test_each_state_that_is_measured_is_finished_as_if_it_were_the_last(model):
    """And the sequence goes on from what it was; where an editor cannot finish, what is measured fails."""
    records = ran(model, Halved(), regime=SEQUENCE)
    for end in (2, 4, 5):
        alone = ran(model, Halved(), CASES[:end], regime=Regime("sequential"))
        measured = [record for record in records if record.state == end]
        for one, other in zip(measured, alone, strict=True):
            assert one.values["probability"] == pytest.approx(other.values["probability"], rel=1e-4)
    failing = ran(model, Halved(infinite=(4,)), regime=SEQUENCE)
    assert {r.visit for r in failing if r.status == "ok"} == {v for v in VISITS if v[1] != 4}
    half, whole = (ran(model, editor, regime=SINGLE)[0] for editor in (Halved(), Push()))
    assert half.values["probability"]["kl"] < whole.values["probability"]["kl"]


def test_requests_in_turn_are_edited_on_top_of_each_other(model):
    """Two turns of a case, beside another case; nothing goes from one case into the next."""
    (ada,), (bob,), (ann,) = (each.requests for each in CASES[:3])
    pair, other = (
        Case("pair", (ada, bob), CASES[0].probes),
        Case("other", (ann, bob), CASES[2].probes),
    )
    editor = Push()
    records = ran(model, editor, [pair, CASES[2], other], regime=Regime(in_turn=True))
    assert [r.case for r in records] == ["pair", "Ann", "other"]
    assert editor.edited == ["Ada", "Ann", "Ann", "Bob", "Bob"], "the first turns together"
    total = Push().edit(model, [ada, bob])
    expected = model.answer([(total, pair.probes[0].query)])[0].prob(0)
    assert records[0].values["probability"]["post_p"] == pytest.approx(expected, rel=1e-4)
    (alone,) = ran(model, Push(), [CASES[2]])
    assert records[1].values["probability"] == pytest.approx(alone.values["probability"], rel=1e-4)


def test_editors_share_one_clean_pass(model, monkeypatch):
    """Counted positions of the first block: those of the second editor are not among them."""
    editors = [Push(), Push(fails=("Bob",))]
    assert all(start_of_edit(model, editors[0].edit(model, c.requests)) for c in CASES)
    run = []
    model.architecture.block(0).register_forward_hook(
        lambda module, args, output: run.append(args[0].shape[:2].numel())
    )
    before, plan = CleanPass(model), list(steps(CASES, Regime()))
    # Which asks its own texts after each chunk.
    monkeypatch.setattr(before.guard, "verify", lambda *_, **__: None)
    streams = [worked(model, e, plan, before, size=3) for e in editors]
    next(streams[0])
    first = sum(run)
    next(streams[1])
    assert sum(run) == first > 0


def test_sharing_changes_no_record(model):
    plan = list(steps([*CASES, case("Fiat", "Ada " * 600)], Regime()))
    editors = [Push(), Push(fails=("Bob",), infinite=("Ann",))]
    alone = [list(worked(model, e, plan, size=2)) for e in editors]
    before = CleanPass(model)
    streams = [worked(model, e, plan, before, size=2) for e in editors]
    together = list(zip(*streams, strict=True))
    for number, (first, second) in enumerate(together):
        for mine, theirs in ((first, alone[0][number]), (second, alone[1][number])):
            assert [timeless(r) for r in mine] == [timeless(r) for r in theirs]


def timeless(record):
    return {**structs.asdict(record), "seconds": None, "values": repr(record.values)}
