"""The suite for editors; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ..data import Choose, is_finite
from ..edits import Edit
from ..errors import PluginError
from ..folder.record import OK
from ..interfaces import Regime
from ..model.model import Model
from ..registry.settings import build, settings
from ..run import measure, plan
from .fixtures import (
    FACTS,
    ODD,
    EditorSuite,
    Interrupted,
    after,
    as_cases,
    assert_close,
    assert_same_answers,
    assert_written,
    forward_counter,
    gain,
    left_alone,
    questions,
    same_weights,
    tensors_of,
)  # fmt: skip


class StateChecks(EditorSuite):
    """An edit is data: nothing else may change, and nothing else may matter."""

    def test_leaves_the_model_and_the_process_as_they_were(self, model: Model) -> None:
        """Weights, hooks, modes, the tokenizer and global states stay when an editor prepares and writes."""
        assert model.architecture.blocks
        with left_alone(model):
            editor = self.ready(model)
        with left_alone(model):
            first = editor.edit(model, FACTS[:1])
        with left_alone(model):
            editor.extend(model, first, FACTS[1:])
        with left_alone(model):
            editor.edit_each(model, [[fact] for fact in FACTS])

    def test_leaves_the_model_as_it_was_when_interrupted(
        self, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An exception at any forward pass leaves nothing behind."""
        self.ready(model).edit(model, FACTS)
        editor = self.ready(model)
        with monkeypatch.context() as patch:
            passes = forward_counter(model, patch)
            editor.edit(model, FACTS)
        total = passes()
        if not total:
            pytest.skip("this editor runs no forward pass")
        for fail_at in sorted({1, (total + 1) // 2, total}):
            editor = self.ready(model)
            with left_alone(model), monkeypatch.context() as patch:
                forward_counter(model, patch, fail_at)
                with pytest.raises(Interrupted):
                    editor.edit(model, FACTS)

    def test_is_deterministic(self, model: Model) -> None:
        """The same requests give the same edit, whatever the global random states."""
        edits = []
        for seed in (1, 2):
            for draw in (torch.manual_seed, random.seed, np.random.seed):
                draw(seed)
            edits.append(self.ready(model).edit(model, FACTS))
        first, second = edits
        how = "draw random numbers from a generator of your own, seeded by a field"
        assert first.prefix == second.prefix, how
        assert same_weights(first, second), f"two edits of the same requests differ: {how}"
        assert_same_answers(model, first, second, rtol=1e-6, atol=1e-6)

    def test_earlier_edits_leave_no_trace_in_the_editor(self, model: Model) -> None:
        """What an edit depends on is the model and its requests, not what was written before."""
        fresh = self.ready(model).edit(model, FACTS[1:])
        used = self.ready(model)
        used.edit(model, FACTS[:1])
        again = used.edit(model, FACTS[1:])
        how = "an editor keeps nothing of its requests; what `extend` needs goes into Edit.state"
        assert again.prefix == fresh.prefix, how
        assert_same_answers(model, fresh, again, rtol=1e-3, atol=1e-3, how=how)


class EffectChecks(EditorSuite):
    """An edit writes what was asked, alone and among others."""

    def test_edits_fit_the_model(self, model: Model) -> None:
        """Every way of editing returns an `Edit` of finite numbers, whose changes and adaptors fit the model."""
        editor = self.ready(model)
        ways: dict[str, Callable[[], Edit]] = {
            "edit() of one request": lambda: editor.edit(model, FACTS[:1]),
            "edit() of several requests": lambda: editor.edit(model, FACTS),
            "extend()": lambda: editor.extend(model, editor.edit(model, FACTS[:1]), FACTS[1:]),
            "edit_each()": lambda: editor.edit_each(model, [FACTS[:1], FACTS])[1],
        }
        for way, make in ways.items():
            edit = make()
            kind = type(edit).__name__
            assert isinstance(edit, Edit), f"{way} returned a {kind}: return an Edit"
            try:
                model.check(edit)
            except PluginError as error:
                pytest.fail(f"{way}: {error}")
            for name, tensor in tensors_of(edit):
                good = torch.isfinite(tensor).all()
                assert good, f"{way}: {name} has NaN or infinity; divide by no norm that may be 0"

    def test_makes_the_target_likelier(self, model: Model) -> None:
        """An edit does what was asked."""
        self.skip_unless_trains()
        editor = self.ready(model)
        for fact in FACTS:
            assert_written(model, editor.edit(model, [fact]), fact)

    def test_takes_several_requests_at_once(self, model: Model) -> None:
        """One edit writes every request."""
        editor = self.ready(model)
        edit = editor.edit(model, FACTS)
        self.skip_unless_trains()
        for fact, other in zip(FACTS, FACTS[::-1], strict=True):
            assert_written(model, edit, fact)
            differs = gain(model, edit, fact) != gain(model, editor.edit(model, [other]), fact)
            assert differs, f"{fact.statement!r} was left out: edit() writes all its requests"

    def test_accumulates(self, model: Model) -> None:
        """What was written before stays when more is written."""
        editor = self.ready(model)
        edit = editor.extend(model, editor.edit(model, FACTS[:1]), FACTS[1:])
        self.skip_unless_trains()
        for fact in FACTS:
            assert_written(model, edit, fact)
        last_alone = editor.edit(model, FACTS[1:])
        kept = gain(model, edit, FACTS[0]) != gain(model, last_alone, FACTS[0])
        assert kept, "extend() forgot the request before: return `previous` enlarged"

    def test_edits_each_as_if_one_by_one(self, model: Model) -> None:
        """Finding many edits together gives what finding them one by one gives."""
        editor = self.ready(model)
        batches = [[fact] for fact in FACTS] + [list(FACTS)]
        together = editor.edit_each(model, batches)
        assert len(together) == len(batches), "edit_each() returns an edit for each batch"
        assert editor.edit_each(model, []) == []
        for batch, edit in zip(batches, together, strict=True):
            alone = editor.edit(model, batch)
            assert alone.prefix == edit.prefix
            assert_same_answers(model, alone, edit, rtol=1e-3, atol=1e-3)

    def test_many_edits_share_a_batch(self, model: Model) -> None:
        """A row's answer depends neither on the other rows nor on how its edit is applied."""
        editor = self.ready(model)
        edits = [Edit(), *(editor.edit(model, [fact]) for fact in FACTS), editor.edit(model, FACTS)]
        asked = [(edit, query) for query in questions() for edit in edits]
        for (edit, query), answer in zip(asked, model.answer(asked), strict=True):
            with model.applied(edit):
                (alone,) = model.answer([(edit.without_weights(), query)])
            assert_close(answer, alone, 1e-4, 2e-5)

    def test_padding_changes_no_answer(self, model: Model) -> None:
        """A text is answered beside a longer one as it is alone, on whichever side the padding is."""
        edit = self.ready(model).edit(model, FACTS)
        prompts = FACTS[0].text, " ".join(fact.statement for fact in FACTS)
        texts = [model.tokens.encode(edit.prefix + prompt).ids for prompt in prompts]
        for left in (True, False) if model.takes_positions else (model.padding == "left",):
            alone, beside = (after(model, edit, texts[:n], left=left) for n in (1, 2))
            apart = float((beside - alone).abs().max())
            assert not apart > 1e-3, (
                f"padding on the {'left' if left else 'right'} moved a log-probability by {apart:.2g} "
                "nats: where an adaptor looks at whole rows, leave out what rows.mask leaves out"
            )

    def test_bears_odd_texts(self, model: Model) -> None:
        """Braces, accents, other scripts, a long target, no true object: data have them all."""
        editor = self.ready(model)
        together = editor.edit_each(model, [[request] for request in ODD])
        for edit, request in [*zip(together, ODD, strict=True), (editor.edit(model, ODD), ODD[0])]:
            query = Choose(request.text, (request.target_new,))
            (answer,) = model.answer([(edit, query)])
            assert is_finite(answer), f"{request} is answered with NaN or infinity"


class RecordChecks(EditorSuite):
    """An edit is a file of numbers, and an editor a row of fields."""

    def test_keeps_no_gradients(self, model: Model) -> None:
        """An edit holds numbers, not the graph that led to them, nor the model's own tensors."""
        edit = self.ready(model).edit(model, FACTS[:1])
        own = {t.data_ptr() for t in model.module.state_dict().values()}
        for name, tensor in tensors_of(edit):
            assert not tensor.requires_grad, f"{name} holds the graph: detach() it"
            assert tensor.data_ptr() not in own, f"{name} is the model's own tensor: clone() it"

    def test_is_saved_and_loaded(self, model: Model, tmp_path: Path) -> None:
        """An edit survives being stored, with its adaptors; only a patch, which is code, cannot."""
        edit = self.ready(model).edit(model, FACTS)
        path = tmp_path / "edit.safetensors"
        if edit.patch:
            with pytest.raises(PluginError):
                edit.save(path)
            return
        edit.save(path, model.digest)
        loaded = Edit.load(path, model.digest)
        assert same_weights(edit, loaded)
        assert loaded.prefix == edit.prefix
        assert loaded.info == json.loads(json.dumps(dict(edit.info)))
        assert_same_answers(model, edit, loaded, rtol=1e-4, atol=2e-5)

    def test_extends_what_was_loaded(self, model: Model, tmp_path: Path) -> None:
        """A stored edit has all that is needed to accumulate further ones."""
        editor = self.ready(model)
        first = editor.edit(model, FACTS[:1])
        if first.patch:
            pytest.skip("a patch is code, which cannot be stored")
        first.save(tmp_path / "edit.safetensors")
        loaded = Edit.load(tmp_path / "edit.safetensors")
        edits = [editor.extend(model, each, FACTS[1:]) for each in (first, loaded)]
        assert_same_answers(model, *edits, rtol=1e-3, atol=1e-3)

    def test_hyperparameters_and_diagnostics_are_recordable(self, model: Model) -> None:
        """Fields, provenance and info go into the record of a run, which is strict JSON."""
        editor = self.ready(model)
        recorded = {
            "the fields": settings(editor),
            "`provenance`": dict(editor.provenance),
            "`found`": dict(editor.found),
            "`variant`": editor.variant,
            "Edit.info": dict(editor.edit(model, FACTS[:1]).info),
        }
        for what, data in recorded.items():
            try:
                json.dumps(data, allow_nan=False)
            except (TypeError, ValueError) as error:
                pytest.fail(
                    f"{what}: {error}; use texts, finite numbers, lists and dicts: {data!r}"
                )

    def test_is_built_from_its_fields(self) -> None:
        """The record of a run is enough to make the editor again."""
        again = build(type(self.editor), settings(self.editor), "editor")
        assert again == self.editor, "make the editor a dataclass, its settings fields"


class RunChecks(EditorSuite):
    """A run asks for statuses: none of its cases may be lost, or take others with it."""

    @pytest.mark.parametrize(
        "regime",
        [Regime(), Regime("batch", 2), Regime("sequential", immediate=True)],
        ids=lambda regime: regime.mode,
    )
    def test_every_case_of_a_run_is_ok(self, model: Model, regime: Regime) -> None:
        """Each case is edited, asked and recorded, in every regime."""
        requests = (*FACTS, ODD[0])
        steps = plan.steps(as_cases(requests), regime)
        chunk = 1 if regime.mode == "single" else None
        records = list(measure.run(model, self.ready(model), steps, {}, size=chunk))
        assert {record.case for record in records} == {c.id for c in as_cases(requests)}
        for record in records:
            assert record.status == OK, f"{record.case} is {record.status}: {record.message}"
            json.dumps([record.edit, record.after], allow_nan=False)


class EditorTests(StateChecks, EffectChecks, RecordChecks, RunChecks):
    """What every editor must do.

    It leaves the model's bits, hooks and modes, the tokenizer and the process's global state as before, also after an
    interruption at any forward pass; its edits are deterministic and depend on no earlier ones. Edits are of the right
    shapes, and finite; they make targets likelier, write several requests, accumulate, are the same together as one
    by one and in a mixed batch as alone, and bear odd texts. They hold no graph, and are saved, loaded and extended
    from there. In a run every case is edited, asked and recorded.
    """
