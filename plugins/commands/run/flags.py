"""Flags that several commands share, as they were parsed, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from edit_harness.errors import UsageError
from edit_harness.interfaces import Regime
from edit_harness.registry import fields

from .preset_file import Tuned, read

MODEL_ARGUMENTS = ("dtype", "device", "device_map", "max_memory", "revision")


@dataclass(frozen=True, kw_only=True)
class LoadingFlags:
    """How a model is loaded."""

    model_args: Sequence[str]
    device: str
    dtype: str
    device_map: str | None
    batch_size: str
    chat_template: bool
    trust_remote_code: bool
    allow_pickle_weights: bool
    debug: bool

    @property
    def model_options(self) -> dict[str, Any]:
        """Arguments of `edit_harness.loading.loading.load`; ``--model-args`` win over other flags.

        Raises `UsageError` for an argument that it does not have.
        """
        given = fields.parse(self.model_args)
        if unknown := [key for key in given if key not in MODEL_ARGUMENTS]:
            raise UsageError(
                f"there is no model argument {unknown[0]!r}", f"known: {', '.join(MODEL_ARGUMENTS)}"
            )
        options = {"dtype": self.dtype, "device": self.device, "device_map": self.device_map}
        rows = (
            None
            if self.batch_size == "auto"
            else whole_number(
                self.batch_size, "--batch-size takes a number of rows, or auto", least=1
            )
        )
        return {
            **options,
            **given,
            "batch_rows": rows,
            "chat_template": self.chat_template,
            "trust_remote_code": self.trust_remote_code,
            "allow_pickle_weights": self.allow_pickle_weights,
        }


@dataclass(frozen=True, kw_only=True)
class EditingFlags(LoadingFlags):
    """Which editors and models, and how a model is loaded."""

    editor: Sequence[str]
    editor_args: Sequence[str]
    preset: str | None
    model: Sequence[str]

    @cached_property
    def tuned(self) -> Tuned | None:
        """The preset of a file, if one is named.

        Raises `UsageError` for several editors, and what `edit_harness_plugins.commands.run.preset_file.read` raises.
        """
        if self.preset is None:
            return None
        if len(self.editor) != 1:
            raise UsageError("--preset is of one editor", "name it alone: --editor")
        return read(Path(self.preset))


def whole_number(text: str, remedy: str, least: int = 0) -> int:
    """Return a number from ``least`` to 2^31 - 1. Raises `UsageError` with the remedy."""
    if not text.isdecimal() or len(text) > 10 or not least <= int(text) < 2**31:
        raise UsageError(f"{text!r} is no whole number from {least} on", remedy)
    return int(text)


def regime(
    default: Regime,
    mode: str | None,
    size: str | None,
    at: Sequence[str],
    conflicts: str = "keep",
) -> Regime:
    """Return how edits share the model: the task's way, or what flags say.

    ``size`` is a number or ``all``; ``at`` has numbers of cases, ``each`` and ``end``. Raises
    `UsageError` for what does not fit the mode.
    """
    if not (mode or size or at or conflicts != "keep"):
        return default
    chosen = Regime(mode or default.mode)  # type: ignore[arg-type]
    if chosen.mode == default.mode:
        chosen = default
    elif chosen.mode == "batch":
        chosen = replace(chosen, size=0)
    elif default.in_turn:
        chosen = replace(chosen, in_turn=True)
    chosen = replace(chosen, conflicts=conflicts)  # type: ignore[arg-type]
    if size:
        remedy = "--edit-batch-size takes a number of cases, or all"
        number = 0 if size == "all" else whole_number(size, remedy, least=1)
        if chosen.mode == "single" and number != 1:
            raise UsageError(
                "single edits are of one case each, so they have no --edit-batch-size",
                "add --edit-mode batch, or --edit-mode sequential",
            )
        chosen = replace(chosen, size=number)
    if not at:
        return chosen
    if chosen.mode != "sequential":
        raise UsageError(
            f"--eval-at is for sequential edits, and this is {chosen.mode}",
            "add --edit-mode sequential",
        )
    numbers = [point for point in at if point not in ("each", "end")]
    remedy = "--eval-at takes each, end or numbers of cases"
    if wrong := [point for point in numbers if not point.isdecimal()]:
        raise UsageError(f"--eval-at has {wrong[0]!r}", remedy)
    points = sorted({whole_number(point, remedy, least=1) for point in numbers})
    return replace(chosen, immediate="each" in at, checkpoints=tuple(points))
