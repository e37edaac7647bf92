"""The suite for editors; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from edit_harness.cases import Choose
from edit_harness.edits import Edit
from edit_harness.errors import PluginError
from edit_harness.fields import build, settings
from edit_harness.interfaces import Editor
from edit_harness.model import Model
from edit_harness.presets import configure, shape_of
from edit_harness.testing.effects import (
    assert_close,
    assert_same_answers,
    gain,
    questions,
    same_weights,
    tensors_of,
)
from edit_harness.testing.facts import FACTS
from edit_harness.testing.state import left_alone
from edit_harness.testing.tiny import tiny_model


def forward_counter(
    model: Model, monkeypatch: pytest.MonkeyPatch, fail_at: int = 0
) -> Callable[[], int]:
    """Count the forward passes from now on; raise `Interrupted` instead of number ``fail_at``."""
    forward, count = model.module.forward, 0

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == fail_at:
            raise Interrupted
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.module, "forward", counting)
    return lambda: count


class Interrupted(Exception):
    """What a forward pass raises when a test interrupts an editor."""


class EditorTests:
    """What every editor must do."""

    editor: Editor
    family: ClassVar[str] = "gpt2"
    """The family of the tiny model: "gpt2" or "llama"."""
    trains: ClassVar[bool] = True
    """Set to False if a random model cannot show the edit's effect, as with prompting."""

    @pytest.fixture
    def model(self) -> Model:
        """Return a fresh tiny model; override it to use another."""
        torch.set_num_threads(1)
        return tiny_model(self.family)

    def ready(self, model: Model) -> Editor:
        """Return a copy of the editor that is configured for the model, checked and prepared."""
        shape = shape_of(model.module.config, model.source.family)
        editor = configure(copy.copy(self.editor), shape, type(self.editor).__name__).editor
        editor.check(model)
        editor.prepare(model)
        return editor

    def test_leaves_the_model_and_the_process_as_they_were(self, model: Model) -> None:
        """An edit is data: weights, hooks, modes and global random states stay."""
        editor = self.ready(model)
        with left_alone(model):
            first = editor.edit(model, FACTS[:1])
        with left_alone(model):
            editor.extend(model, first, FACTS[1:])

    def test_preparing_leaves_the_model_and_the_process_as_they_were(self, model: Model) -> None:
        """Nor does it do any harm to prepare."""
        assert model.architecture.blocks
        with left_alone(model):
            self.ready(model)

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
        """The same requests give the same edit, whatever the global random state."""
        edits = []
        for seed in (1, 2):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                edits.append(self.ready(model).edit(model, FACTS))
        first, second = edits
        assert same_weights(first, second)
        assert first.prefix == second.prefix
        queries = [Choose(fact.text, (fact.target_new,)) for fact in FACTS]
        assert model.answer([(first, q) for q in queries]) == model.answer(
            [(second, q) for q in queries]
        )

    def test_makes_the_target_likelier(self, model: Model) -> None:
        """An edit does what was asked."""
        self.skip_unless_trains()
        editor = self.ready(model)
        for fact in FACTS:
            assert gain(model, editor.edit(model, [fact]), fact) > 0

    def test_takes_several_requests_at_once(self, model: Model) -> None:
        """One edit writes every request."""
        edit = self.ready(model).edit(model, FACTS)
        self.skip_unless_trains()
        assert all(gain(model, edit, fact) > 0 for fact in FACTS)

    def test_accumulates(self, model: Model) -> None:
        """What was written before stays when more is written."""
        editor = self.ready(model)
        edit = editor.extend(model, editor.edit(model, FACTS[:1]), FACTS[1:])
        self.skip_unless_trains()
        assert all(gain(model, edit, fact) > 0 for fact in FACTS)
        last_alone = editor.edit(model, FACTS[1:])
        assert gain(model, edit, FACTS[0]) != gain(model, last_alone, FACTS[0]), "it was forgotten"

    def test_edits_each_as_if_one_by_one(self, model: Model) -> None:
        """Finding many edits together gives what finding them one by one gives."""
        editor = self.ready(model)
        batches = [[fact] for fact in FACTS] + [list(FACTS)]
        together = editor.edit_each(model, batches)
        assert len(together) == len(batches)
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
            assert_close(answer, alone, rtol=1e-4, atol=2e-5)

    def test_keeps_no_gradients(self, model: Model) -> None:
        """An edit holds numbers, not the graph that led to them, nor the model's own tensors."""
        edit = self.ready(model).edit(model, FACTS[:1])
        own = {t.data_ptr() for t in model.module.state_dict().values()}
        for name, tensor in tensors_of(edit):
            assert not tensor.requires_grad, name
            assert torch.isfinite(tensor).all(), name
            assert tensor.data_ptr() not in own, name

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
        for data in (settings(editor), dict(editor.provenance), editor.variant):
            json.dumps(data, allow_nan=False)
        json.dumps(dict(editor.edit(model, FACTS[:1]).info), allow_nan=False)

    def test_is_built_from_its_fields(self) -> None:
        """The record of a run is enough to make the editor again."""
        assert build(type(self.editor), settings(self.editor), "editor") == self.editor

    def skip_unless_trains(self) -> None:
        """Skip what a random model cannot show."""
        if not self.trains:
            pytest.skip("a random model cannot show it")
