"""The loop on a tiny random model, with editors that go wrong in every way."""

import re
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from support.loops import CASES, METRICS, PEOPLE, Push, case, ran, worked

from edit_harness import Case, DataError, Editor, Metric, PluginError
from edit_harness.edits import Edit, LowRank
from edit_harness.errors import LeakError
from edit_harness.folder.encoding import decode_answer
from edit_harness.interfaces import Regime
from edit_harness.run.clean import CleanPass
from edit_harness.run.measure import Work
from edit_harness.run.plan import steps


def run(model, editor, steps, metrics, *, size=None):
    return Work(CleanPass(model), editor, metrics).run(steps, size)


def test_every_case_has_a_record_in_order(model):
    assert [r.case for r in ran(model, Push())] == list(PEOPLE)


@pytest.mark.parametrize("chunk", [1, 2, 16])
def test_the_chunk_changes_no_number(model, chunk):
    for one, other in zip(ran(model, Push(), size=chunk), ran(model, Push()), strict=True):
        for name, value in one.values["probability"].items():
            assert value == pytest.approx(other.values["probability"][name], abs=1e-5)


def test_values_follow_from_the_stored_answers(model):
    for each, record in zip(CASES, ran(model, Push()), strict=True):
        before, after = ([decode_answer(a) for a in side] for side in (record.before, record.after))
        assert METRICS["probability"].measure(each, before, after) == record.values["probability"]


def test_a_failed_edit_is_a_failure_and_stops_nobody(model):
    records = ran(model, Push(fails=("Bob", "Ann")))
    assert [r.status for r in records] == ["ok", "edit_failed", "edit_failed", "ok", "ok"]
    line = Push.edit.__code__.co_firstlineno + 6
    assert records[1].message == f"ValueError: no edit of Bob (loops.py:{line})"
    assert records[1].values == {"probability": {"post_p": 0.0}}
    clean = ran(model, Push())
    assert records[3].values["probability"] == pytest.approx(clean[3].values["probability"])


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


@dataclass
class Leaky(Push):
    """Leaves something behind where its edit is evaluated, or where it is made."""

    leaves: str = "weight"

    def edit(self, model, requests):
        edit = super().edit(model, requests)

        @contextmanager
        def patch(module):
            if self.leaves == "weight":
                with torch.no_grad():
                    next(module.parameters())[0, 0] += 1
            elif self.leaves == "hook":
                module.register_forward_hook(lambda *args: None)
            else:
                module.register_buffer("left", torch.ones(2))
            yield

        return Edit(edit.weights, patch=patch)


@pytest.mark.parametrize("leaves", ["weight", "hook", "buffer"])
def test_what_an_evaluation_leaves_behind_ends_the_run_of_all_editors(model, leaves):
    before, plan = CleanPass(model), list(steps(CASES, Regime()))
    leaky, honest = (worked(model, e, plan, before, size=2) for e in (Leaky(leaves=leaves), Push()))
    with pytest.raises(LeakError, match="changed the model itself"):
        next(leaky)
    with pytest.raises(LeakError):
        next(honest)


def test_an_edit_of_the_wrong_shape_is_a_failure_and_stops_nobody(model):
    class Wide(Push):
        def edit(self, model, requests):
            edit = super().edit(model, requests)
            if requests[0].subject != "Bob":
                return edit
            (name,) = edit.weights
            return Edit({name: LowRank(torch.ones(3, 1), torch.ones(1, 3))})

    records = ran(model, Wide())
    assert [r.status for r in records] == ["ok", "plugin_error", "ok", "ok", "ok"]
    assert "has the shape (3, 3)" in records[1].message


def test_an_adaptor_that_fails_is_a_failure_and_stops_nobody(model):
    class Broken(Push):
        def edit(self, model, requests):
            def fail(inputs, outputs, rows):
                raise ValueError("no key is near")

            edit = super().edit(model, requests)
            name = model.architecture.projection(1).name
            return Edit(edit.weights, {name: fail} if requests[0].subject == "Ann" else {})

    records = ran(model, Broken())
    assert [r.status for r in records] == ["ok", "ok", "plugin_error", "ok", "ok"]
    assert records[2].message.startswith("PluginError: adaptor function failed at transformer.h.1")
    assert "ValueError: no key is near (test_loop.py:" in records[2].message


@pytest.mark.parametrize("chunk", [1, 2, 16])
def test_the_first_edit_of_a_sequence_is_made_whatever_the_chunk(model, chunk):
    plan = list(steps(CASES[:3], Regime("sequential")))
    found = list(run(model, Push(), plan, METRICS, size=chunk))
    whole = Push().edit(model, [c.requests[0] for c in CASES[:3]])
    expected = [model.answer([(whole, c.probes[0].query)])[0].prob(0) for c in CASES[:3]]
    assert [r.values["probability"]["post_p"] for r in found] == pytest.approx(expected, rel=1e-4)


def test_nan_after_an_edit_is_a_failure_and_reaches_no_other_row(model):
    records = ran(model, Push(infinite=("Bob",)))
    assert [r.status for r in records] == ["ok", "nonfinite", "ok", "ok", "ok"]
    clean = ran(model, Push())
    for i in (0, 2, 3, 4):
        assert records[i].values["probability"] == pytest.approx(clean[i].values["probability"])


def test_nan_before_an_edit_ends_the_run(model):
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(DataError, match="unedited model answers case Ada with NaN"):
        ran(model, Push())


def test_a_prompt_that_is_too_long_is_a_failure_and_stops_nobody(model):
    cases = [*CASES[:2], case("Long", "Bob lives in " * 1000), *CASES[2:]]
    records = ran(model, Push(), cases)
    assert [r.status for r in records] == ["ok", "ok", "too_long", "ok", "ok", "ok"]
    assert "tokens are more than" in records[2].message


def test_what_only_the_edit_makes_too_long_has_its_answers_before(model):
    class Verbose(Editor):
        def edit(self, model, requests):
            return Edit(prefix="Ada " * 1000)

    (record,) = ran(model, Verbose(), CASES[:1])
    (expected,) = ran(model, Push(), CASES[:1])
    assert (record.status, record.after) == ("too_long", [])
    assert record.before == expected.before


def test_a_metric_that_fails_is_named(model):
    class Broken(Metric):
        def measure(self, case, before, after):
            raise KeyError("x")

    with pytest.raises(PluginError, match="metric mine failed on case Ada: KeyError"):
        list(run(model, Push(), steps(CASES, Regime()), {"mine": Broken()}))


def test_what_is_done_is_not_done_again(model):
    editor = Push()
    records = ran(model, editor, done={("Ada", 0), ("Bob", 0)}, size=2)
    assert [r.case for r in records] == ["Ann", "Danielle", "Paris"]
    assert editor.edited == ["Ann", "Danielle", "Paris"]


def test_the_rest_of_a_chunk_is_computed_in_the_same_chunk(model):
    editor = Push()
    records = ran(model, editor, done={("Ada", 0)}, size=2)
    assert editor.edited == list(PEOPLE)
    assert [r.case for r in records] == list(PEOPLE[1:])


def test_an_editor_that_changes_the_model_itself_ends_the_run(model):
    class Vandal(Push):
        def edit(self, model, requests):
            made = super().edit(model, requests)
            if requests[0].subject == "Danielle":
                with torch.no_grad():
                    next(model.module.parameters())[3, 5] += 1e-3
            return made

    found = []
    with pytest.raises(PluginError, match=r"not as before: weights \(transformer\.wte"):
        found.extend(r.case for r in run(model, Vandal(), steps(CASES, Regime()), METRICS, size=2))
    assert found == ["Ada", "Bob"]
    assert PluginError.code == 3


@pytest.mark.parametrize("returned", [None, 3, "edit"])
def test_an_editor_that_returns_no_edit_fails_its_case(model, returned):
    class Wrong(Push):
        def edit(self, model, requests):
            return returned if requests[0].subject == "Bob" else super().edit(model, requests)

    records = ran(model, Wrong())
    assert [r.status for r in records] == ["ok", "plugin_error", "ok", "ok", "ok"]
    assert "not an Edit" in records[1].message


def test_an_editor_that_exits_fails_its_case(model):
    class Exits(Push):
        def edit(self, model, requests):
            raise SystemExit(9)

    assert {r.status for r in ran(model, Exits())} == {"edit_failed"}


@pytest.mark.parametrize("error", [BaseExceptionGroup("g", [SystemExit(0)])])
def test_whatever_an_editor_raises_fails_its_case(model, error):
    class Raises(Push):
        def edit(self, model, requests):
            if requests[0].subject == "Bob":
                raise error
            return super().edit(model, requests)

    records = ran(model, Raises())
    assert [r.status for r in records] == ["ok", "edit_failed", "ok", "ok", "ok"]
    assert records[1].message.startswith(f"{type(error).__name__}: ")


def test_an_adaptor_that_exits_fails_its_case(model):
    class Exits(Push):
        def edit(self, model, requests):
            def leave(inputs, outputs, rows):
                raise SystemExit(0)

            return Edit({}, {model.architecture.projection(1).name: leave})

    assert {r.status for r in ran(model, Exits())} == {"plugin_error"}


def test_ctrl_c_in_an_edit_ends_the_run(model):
    class Stopped(Push):
        def edit(self, model, requests):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(model, Stopped())


@pytest.mark.parametrize("value", ["1", None, 1j, 10**400, float("nan"), float("-inf"), [1.0]])
def test_a_metric_that_returns_no_numbers_is_named(model, value):
    class Odd(Metric):
        def measure(self, case, before, after):
            return {"post_x": value}

    told = f"metric mine gives case Ada a post_x of {value!r}"[:60]
    with pytest.raises(PluginError, match=re.escape(told)):
        list(run(model, Push(), steps(CASES, Regime()), {"mine": Odd()}))


@pytest.mark.parametrize("value", [1, True, np.float32(1), np.int64(1), np.bool_(True)])
def test_a_metric_may_return_numbers_of_any_kind(model, value):
    class Odd(Metric):
        def measure(self, case, before, after):
            return {"post_x": value}

    (record,) = run(model, Push(), steps(CASES[:1], Regime()), {"mine": Odd()})
    assert repr(record.values["mine"]["post_x"]) == "1.0"


def test_an_edit_that_changes_nothing_is_flagged(model):
    class Nothing(Editor):
        def edit(self, model, requests):
            return Edit()

    assert all(r.noop for r in ran(model, Nothing()))
    assert not any(r.noop for r in ran(model, Push()))


def test_batches_and_sequences_need_no_change_in_a_plugin(model):
    """A mass edit holds all requests; so does the end of a sequence of single ones."""
    batch = list(run(model, Push(), steps(CASES, Regime("batch", 5)), METRICS))
    sequence = list(run(model, Push(), steps(CASES, Regime("sequential")), METRICS))
    assert [r.case for r in sequence] == [r.case for r in batch] == list(PEOPLE)
    for one, other in zip(batch, sequence, strict=True):
        assert one.values["probability"] == pytest.approx(other.values["probability"], abs=1e-4)
    single = ran(model, Push())
    assert single[0].values["probability"]["kl"] != pytest.approx(
        batch[0].values["probability"]["kl"], abs=1e-3
    )


SEQUENCE = Regime("sequential", immediate=True, checkpoints=(2, 4))
VISITS = [
    ("Ada", 1), ("Ada", 2), ("Bob", 2), ("Ann", 3), ("Ada", 4), ("Bob", 4), ("Ann", 4),
    ("Danielle", 4), *((name, 5) for name in PEOPLE),
]  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 2, 3, 16])
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


@pytest.mark.parametrize("kept", [1, 4, 8, len(VISITS) - 1])
def test_a_sequence_goes_on_where_it_stopped(model, kept):
    whole = ran(model, Push(), regime=SEQUENCE, size=2)
    rest = ran(model, Push(), regime=SEQUENCE, size=2, done=set(VISITS[:kept]))
    assert [r.visit for r in rest] == VISITS[kept:]
    for one, other in zip(rest, whole[kept:], strict=True):
        assert (one.before, one.after, one.values) == (other.before, other.after, other.values)


def test_a_sequence_that_is_done_is_not_edited_again(model):
    editor = Push()
    assert ran(model, editor, regime=SEQUENCE, done=set(VISITS), size=2) == []
    assert editor.edited == []


def test_a_failed_edit_of_a_sequence_is_a_failure_at_every_later_point(model):
    """The others are measured on the model without it."""
    records = ran(model, Push(fails=("Ada",)), regime=SEQUENCE)
    failed = {r.visit for r in records if r.status != "ok"}
    assert failed == {visit for visit in VISITS if visit[0] == "Ada"}
    without = ran(model, Push(), CASES[1:], regime=Regime("sequential"))
    final = [r for r in records if r.state == 5][1:]
    for one, other in zip(final, without, strict=True):
        assert one.values["probability"] == pytest.approx(other.values["probability"], rel=1e-4)


def test_what_is_edited_alone_in_a_batch_fails_alone(model):
    records = ran(model, Push(fails=("Bob",)), regime=Regime("batch", 2))
    assert [r.visit for r in records] == [
        ("Ada", 1), ("Bob", 1), ("Ann", 2), ("Danielle", 2), ("Paris", 3),
    ]  # fmt: skip
    assert [r.status for r in records] == ["edit_failed"] * 2 + ["ok"] * 3


def test_requests_in_turn_are_edited_on_top_of_each_other(model):
    """Two turns of a case, beside another case; nothing goes from one case into the next."""
    pair = Case("pair", (CASES[0].requests[0], CASES[1].requests[0]), CASES[0].probes)
    editor = Push()
    records = ran(model, editor, [pair, CASES[2], pair_of_ann()], regime=Regime(in_turn=True))
    assert [r.case for r in records] == ["pair", "Ann", "other"]
    assert editor.edited == ["Ada", "Ann", "Ann", "Bob", "Bob"], "the first turns together"
    total = Push().edit(model, [CASES[0].requests[0], CASES[1].requests[0]])
    expected = model.answer([(total, pair.probes[0].query)])[0].prob(0)
    assert records[0].values["probability"]["post_p"] == pytest.approx(expected, rel=1e-4)
    alone = ran(model, Push(), [CASES[2]])
    assert records[1].values["probability"] == pytest.approx(
        alone[0].values["probability"], rel=1e-4
    )


def pair_of_ann() -> Case:
    return Case("other", (CASES[2].requests[0], CASES[1].requests[0]), CASES[2].probes)


def test_seconds_of_turns_and_batches_are_those_of_a_case(model, monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr("edit_harness.run.editing.perf_counter", lambda: float(next(ticks)))
    batch = ran(model, Push(), regime=Regime("batch", 5))
    assert {r.seconds["edit"] for r in batch} == {1 / 5}
    pair = Case("pair", (CASES[0].requests[0], CASES[1].requests[0]), CASES[0].probes)
    (turned,) = ran(model, Push(), [pair], regime=Regime(in_turn=True))
    assert turned.seconds["edit"] == 2.0


def test_an_interrupted_run_leaves_the_weights(model):
    class Interrupted(Push):
        def extend(self, model, previous, requests):
            with model.applied(previous):
                raise KeyboardInterrupt

    before = {n: p.clone() for n, p in model.module.named_parameters()}
    with pytest.raises(KeyboardInterrupt):
        list(run(model, Interrupted(), steps(CASES, Regime("sequential")), METRICS))
    assert all(torch.equal(p, before[n]) for n, p in model.module.named_parameters())


def test_low_rank_edits_are_what_this_file_makes(model):
    (delta,) = Push().edit(model, CASES[0].requests).weights.values()
    assert isinstance(delta, LowRank)
