"""Checks that an edit and its editor can be stored, and go on from what was stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..edits import Edit
from ..errors import PluginError
from ..model.model import Model
from ..registry.fields import build, settings
from .editing import EditorSuite
from .effects import assert_same_answers, same_weights, tensors_of
from .facts import FACTS


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
        assert_json("the fields", settings(editor))
        assert_json("`provenance`", dict(editor.provenance))
        assert_json("`found`", dict(editor.found))
        assert_json("`variant`", editor.variant)
        assert_json("Edit.info", dict(editor.edit(model, FACTS[:1]).info))

    def test_is_built_from_its_fields(self) -> None:
        """The record of a run is enough to make the editor again."""
        again = build(type(self.editor), settings(self.editor), "editor")
        assert again == self.editor, "make the editor a dataclass, its settings fields"


def assert_json(what: str, data: Any) -> None:
    """Fail if data are not strict JSON."""
    try:
        json.dumps(data, allow_nan=False)
    except (TypeError, ValueError) as error:
        pytest.fail(f"{what}: {error}; use texts, finite numbers, lists and dicts: {data!r}")
