"""The suite for editors; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ..data import NextToken
from ..edits import Edit
from ..errors import PluginError
from ..folder.record import OK
from ..interfaces import Regime, whole
from ..model.model import Model
from ..registry.settings import build, settings
from ..run.plan import chunk_size
from .fixtures import (
    FACTS,
    ODD,
    UNSTRUCTURED,
    EditorSuite,
    Interrupted,
    as_cases,
    assert_close,
    assert_same_answers,
    assert_written,
    forward_counter,
    fronts,
    gain,
    left_alone,
    questions,
    recorded,
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
        total = passes()  # some editors ask the model nothing
        for fail_at in sorted({1, (total + 1) // 2, total}) if total else ():
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
        assert fronts(model, first) == fronts(model, second), how
        assert same_weights(first, second), f"two edits of the same requests differ: {how}"
        assert_same_answers(model, first, second, rtol=1e-6, atol=1e-6)

    def test_earlier_edits_leave_no_trace_in_the_editor(self, model: Model) -> None:
        """What an edit depends on is the model and its requests, not what was written before."""
        fresh = self.ready(model).edit(model, FACTS[1:])
        used = self.ready(model)
        used.edit(model, FACTS[:1])
        again = used.edit(model, FACTS[1:])
        how = "an editor keeps nothing of its requests; what `extend` needs goes into Edit.state"
        assert fronts(model, again) == fronts(model, fresh), how
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
            "finish()": lambda: editor.finish(model, editor.edit(model, FACTS)),
            "edit_each()": lambda: editor.edit_each(model, [FACTS[:1], FACTS])[1],
        }
        for way, make in ways.items():
            edit = make()
            kind = type(edit).__name__
            assert isinstance(edit, Edit), f"{way} returned a {kind}: return an Edit"
            model.check(edit)
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
            assert fronts(model, alone) == fronts(model, edit)
            assert_same_answers(model, alone, edit, rtol=1e-3, atol=1e-3)

    def test_many_edits_share_a_batch(self, model: Model) -> None:
        """A row's answer depends neither on the other rows, nor on padding, nor on how its edit is applied."""
        editor = self.ready(model)
        edits = [Edit(), *(editor.edit(model, [fact]) for fact in FACTS), editor.edit(model, FACTS)]
        whole = f"{FACTS[0].statement}, and {FACTS[1].statement}"
        longer = NextToken(whole), NextToken(f"{whole},")
        asked = [(edit, query) for query in (*questions(), *longer) for edit in edits]
        how = "where an adaptor looks at whole rows, leave out what rows.mask leaves out"
        for (edit, query), answer in zip(asked, model.answer(asked), strict=True):
            with model.applied(edit):
                (alone,) = model.answer([(edit.without_weights(), query)])
            assert_close(answer, alone, 1e-4, 2e-5, how)


class RecordChecks(EditorSuite):
    """An edit is a file of numbers, an editor a row of fields, and a run loses none of its cases."""

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
        assert fronts(model, loaded) == fronts(model, edit)
        assert loaded.info == json.loads(json.dumps(dict(edit.info)))
        assert_same_answers(model, edit, loaded, rtol=1e-4, atol=2e-5)

    def test_is_built_from_its_fields(self) -> None:
        """The record of a run is enough to make the editor again."""
        again = build(type(self.editor), settings(self.editor), "editor")
        assert again == self.editor, "make the editor a dataclass, its settings fields"

    @pytest.mark.parametrize(
        "regime",
        [Regime(), Regime("batch", 2), Regime("sequential", immediate=True)],
        ids=lambda regime: regime.mode,
    )
    def test_every_case_of_a_run_is_ok(self, model: Model, regime: Regime) -> None:
        """Each case is edited, asked and recorded in every regime: odd texts, no subject unless it is needed."""
        editor = self.ready(model)
        subjects = any("subject" in part.takes for part in whole(editor))
        cases = as_cases((*FACTS, *ODD) if subjects else (*FACTS, *ODD, UNSTRUCTURED))
        chunk = 1 if regime.mode == "single" else chunk_size(model)
        records = recorded(model, editor, cases, regime, chunk)
        assert {record.case for record in records} == {case.id for case in cases}
        for record in records:
            assert record.status == OK, f"{record.case} is {record.status}: {record.message}"
            json.dumps([record.edit, record.after], allow_nan=False)


class EditorTests(StateChecks, EffectChecks, RecordChecks):
    """What every editor must do.

    It leaves the model's bits, hooks and modes, the tokenizer and the process's global state as before, also after an
    interruption at any forward pass; its edits are deterministic and depend on no earlier ones. Edits are of the right
    shapes, and finite; they make targets likelier, write several requests, accumulate, are the same together as one
    by one and in a mixed batch as alone. They hold no graph, and are saved and loaded. In a run every case is edited,
    asked and recorded, also of odd texts.
    """
