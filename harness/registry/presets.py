"""Which family a model is of, and the hyperparameters that an editor takes from its preset.

A family is recognised by the configuration's type, depth, width and vocabulary, never by the name
of a folder: a fine-tuned or renamed copy finds its preset too, as a chat model that of its base.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from ..errors import UsageError
from ..interfaces import FROM_PRESET, Editor, ModelShape
from .fields import check

FAMILIES = {
    ("gpt2", 12, 768): "gpt2",
    ("gpt2", 24, 1024): "gpt2-medium",
    ("gpt2", 36, 1280): "gpt2-large",
    ("gpt2", 48, 1600): "gpt2-xl",
    ("gptj", 28, 4096): "gpt-j-6b",
    ("gpt_neox", 44, 6144): "gpt-neox-20b",
    ("llama", 32, 4096, 32000): "llama-2-7b",
    ("llama", 32, 4096, 128256): "llama-3-8b",
    ("mistral", 32, 4096): "mistral-7b",
}
QWEN_7B = ("qwen2", 28, 3584)
"""Qwen2 and Qwen2.5 of 7 billion parameters differ in nothing that the configuration tells but
the number of positions; their presets are equal, so one family name serves both."""


def shape_of(config: Any, family: str = "") -> ModelShape:
    """Return the shape of a model from its configuration; ``family`` overrides recognition."""
    text = config.get_text_config()
    kind, size = text.model_type, (text.num_hidden_layers, text.hidden_size)
    found = FAMILIES.get((kind, *size, text.vocab_size)) or FAMILIES.get((kind, *size))
    if (kind, *size) == QWEN_7B:
        found = "qwen2.5-7b"
    return ModelShape(family or found or "", kind, *size)


@dataclass(frozen=True)
class Configured:
    """An editor with all its fields set, and where those of the preset come from."""

    editor: Editor
    source: str
    """Provenance of the preset; empty if nothing was taken from one."""


def configure(editor: Editor, shape: ModelShape, name: str) -> Configured:
    """Fill the fields that depend on the model.

    Raises `UsageError` that says which fields to give, where neither a preset nor a guess has them.
    """
    dependent = [f.name for f in _fields(editor) if f.default is FROM_PRESET]
    missing = [f for f in dependent if getattr(editor, f) is None]
    if not missing:
        check(editor, name)
        return Configured(editor, "")
    preset = editor.presets.get(shape.family) or editor.guess(shape)
    values: Mapping[str, Any] = preset.values if preset else {}
    if unknown := [field for field in missing if field not in values]:
        example = ",".join(f"{field}=..." for field in unknown)
        raise UsageError(
            f"editor {name} has no preset of {', '.join(unknown)} for this model "
            f"({shape.type}, {shape.layers} layers of width {shape.hidden})",
            f"give them: --editor-args {example}",
        )
    filled: Any = editor
    configured = replace(filled, **{f: values[f] for f in missing})
    check(configured, name)
    given = [f for f in dependent if f in values and values[f] != getattr(configured, f)]
    return Configured(configured, f"{preset} but for {', '.join(given)}" if given else str(preset))


def _fields(editor: Editor) -> list[Any]:
    return [f for f in fields(editor) if f.init] if is_dataclass(editor) else []
