"""What commands that load models are told by flags: which models and editors, how, and how runs go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from edit_harness.errors import UsageError
from edit_harness.interfaces import MODES, Regime
from edit_harness.run.options import flag
from edit_harness.run.spec import ModelSettings

from .preset_file import Tuned, read

MODEL_ARGUMENTS = ("dtype", "device", "device_map", "max_memory", "revision")
ON: dict[str, Any] = {"default": False, "is_flag": True}


# fmt: off
@dataclass(frozen=True, kw_only=True)
class LoadingFlags(ModelSettings):
    """How a model is loaded."""

    model_args: Mapping[str, str] = flag("--model-args", args=True,
        help="revision, dtype, device_map, max_memory.")
    device: str = flag("--device", default="auto", help="cpu, cuda, cuda:1, mps.")
    device_map: str | None = flag("--device-map", metavar="NAME",
        help="Spread over devices: auto, balanced or sequential.")
    batch_size: str = flag("-b", "--batch-size", default="auto", metavar="N",
        help="Rows of a forward pass.")
    trust_remote_code: bool = flag("--trust-remote-code", own=True, **ON,
        help="Run code that the model brings, as you; needs a full revision.")
    allow_pickle_weights: bool = flag("--allow-pickle-weights", own=True, **ON,
        help="Read weights that are not in safetensors, as tensors only.")
    # fmt: on

    @property
    def model_options(self) -> dict[str, Any]:
        """Arguments of `edit_harness_plugins.loading.load.load`; ``--model-args`` win. Raises `UsageError`."""
        if unknown := [key for key in self.model_args if key not in MODEL_ARGUMENTS]:
            raise UsageError(
                f"there is no model argument {unknown[0]!r}", f"known: {', '.join(MODEL_ARGUMENTS)}"
            )
        rows = None
        if self.batch_size != "auto":
            remedy = "--batch-size takes a number of rows, or auto"
            rows = whole_number(self.batch_size, remedy, least=1)
        return {
            "dtype": self.dtype,
            "device": self.device,
            "device_map": self.device_map,
            **self.model_args,
            "batch_rows": rows,
            "chat_template": self.chat_template,
            "trust_remote_code": self.trust_remote_code,
            "allow_pickle_weights": self.allow_pickle_weights,
        }


@dataclass(frozen=True, kw_only=True)
class EditingFlags(LoadingFlags):
    """Which editors and models, and how a model is loaded."""

    editor: Sequence[str]
    editor_args: Mapping[str, str]
    model: Sequence[str]
    preset: str | None = flag(
        "--preset", metavar="FILE", help="Fields that sweep found; --editor-args win."
    )

    @cached_property
    def tuned(self) -> Tuned | None:
        """The preset of a file, if one is named. Raises `UsageError`, and what `read` raises."""
        if self.preset is None:
            return None
        if len(self.editor) != 1:
            raise UsageError("--preset is of one editor", "name it alone: --editor")
        return read(Path(self.preset))


# fmt: off
@dataclass(frozen=True, kw_only=True)
class RegimeFlags:
    """How edits share the model, where it is not as the task says."""

    edit_mode: str | None = flag("--edit-mode", type=click.Choice(MODES),
        help="How edits share the model; by default as the task says, mostly single.")
    edit_batch_size: str | None = flag("--edit-batch-size", "--num-edits", metavar="N",
        help="Cases edited at once, or all.")
    edit_conflicts: str = flag("--edit-conflicts", default="keep",
        type=click.Choice(["keep", "drop"]),
        help="Edits that share a model: what writes another object to one subject and relation.")
    eval_at: Sequence[str] = flag("--eval-at", many=True, metavar="WHEN",
        help="Of a sequence: each, end, numbers of cases.")
    eval_sample: str | None = flag("--eval-sample", metavar="N",
        help="Of a sequence: how many of the cases so far a checkpoint measures; the end has all.")
    # fmt: on

    def over(self, default: Regime) -> Regime:
        """Return how edits share the model: the task's way, or what the flags say. Raises `UsageError`."""
        if self == RegimeFlags():
            return default
        chosen = Regime(self.edit_mode or default.mode)  # type: ignore[arg-type]
        if chosen.mode == default.mode:
            chosen = default
        elif chosen.mode == "batch":
            chosen = replace(chosen, size=0)
        elif default.in_turn:
            chosen = replace(chosen, in_turn=True)
        chosen = replace(chosen, conflicts=self.edit_conflicts)  # type: ignore[arg-type]
        if self.edit_batch_size:
            chosen = replace(chosen, size=self._size(chosen, self.edit_batch_size))
        if chosen.mode != "sequential" and (self.eval_at or self.eval_sample):
            raise UsageError(
                f"--eval-{'at' if self.eval_at else 'sample'} is for sequential edits, and this is {chosen.mode}",
                "add --edit-mode sequential",
            )
        if self.eval_sample:
            remedy = "--eval-sample takes a number of cases"
            chosen = replace(chosen, sample=whole_number(self.eval_sample, remedy, least=1))
        if not self.eval_at:
            return chosen
        remedy = "--eval-at takes each, end or numbers of cases"
        numbers = [point for point in self.eval_at if point not in ("each", "end")]
        points = sorted({whole_number(point, remedy, least=1) for point in numbers})
        return replace(chosen, immediate="each" in self.eval_at, checkpoints=tuple(points))

    def _size(self, chosen: Regime, size: str) -> int:
        remedy = "--edit-batch-size takes a number of cases, or all"
        number = 0 if size == "all" else whole_number(size, remedy, least=1)
        if chosen.mode == "single" and number != 1:
            raise UsageError(
                "single edits are of one case each, so they have no --edit-batch-size",
                "add --edit-mode batch, or --edit-mode sequential",
            )
        return number


# fmt: off
@dataclass(frozen=True, kw_only=True)
class Options:
    """How runs are carried out and shown. Nothing here changes a number."""

    executor: str = flag("--executor", default="local", metavar="NAME",
        help="Who runs the cases: local, ray.")
    executor_args: Mapping[str, str] = flag("--executor-args", args=True,
        help="address, num_workers, gpus_per_worker.")
    output: str = flag("-o", "--output", default="results", metavar="DIR",
        help="Where run folders go.")
    on_error: str = flag("--on-error", default="skip", type=click.Choice(["skip", "stop"]),
        help="When a case fails.")
    retry_failed: bool = flag("--retry-failed", **ON,
        help="Run again what failed and may not fail again.")
    new: bool = flag("--new", **ON, help="Start a sibling of the run's folder.")
    quiet: bool = flag("-q", "--quiet", **ON, help="Only the result.")
    verbose: bool = flag("-v", "--verbose", **ON, help="Every measure in the table.")
    as_json: bool = flag("--json", **ON, help="Print JSON.")
# fmt: on


def whole_number(text: str, remedy: str, least: int = 0) -> int:
    """Return a number from ``least`` to 2^31 - 1. Raises `UsageError` with the remedy."""
    if not text.isdecimal() or len(text) > 10 or not least <= int(text) < 2**31:
        raise UsageError(f"{text!r} is no whole number from {least} on", remedy)
    return int(text)
