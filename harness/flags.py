"""Flags that several commands share, as they were parsed, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edit_harness import fields
from edit_harness.errors import UsageError

MODEL_ARGUMENTS = ("dtype", "device", "device_map", "revision")


@dataclass(frozen=True, kw_only=True)
class EditingFlags:
    """Which editors and models, and how a model is loaded."""

    editor: Sequence[str]
    editor_args: Sequence[str]
    model: Sequence[str]
    model_args: Sequence[str]
    device: str
    dtype: str
    device_map: str | None
    batch_size: str
    chat_template: bool
    debug: bool

    @property
    def model_options(self) -> dict[str, Any]:
        """Arguments of `edit_harness.loading.load`; ``--model-args`` win over other flags.

        Raises `UsageError` for an argument that it does not have.
        """
        given = fields.parse(self.model_args)
        if unknown := [key for key in given if key not in MODEL_ARGUMENTS]:
            raise UsageError(
                f"there is no model argument {unknown[0]!r}", f"known: {', '.join(MODEL_ARGUMENTS)}"
            )
        options = {"dtype": self.dtype, "device": self.device, "device_map": self.device_map}
        rows = None if self.batch_size == "auto" else whole_number(self.batch_size, least=1)
        return {**options, **given, "batch_rows": rows, "chat_template": self.chat_template}


def whole_number(text: str, least: int = 0) -> int:
    """Return a number from ``least`` to 2^31 - 1. Raises `UsageError`."""
    if not text.isdecimal() or len(text) > 10 or not least <= int(text) < 2**31:
        raise UsageError(f"{text!r} is no whole number from {least} on")
    return int(text)
