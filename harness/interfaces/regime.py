"""A regime: how edits share a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import UsageError

Mode = Literal["single", "batch", "sequential"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class Regime:
    """How edits share a model. Raises `UsageError` for what does not fit the mode."""

    mode: Mode = "single"
    """Each case on the unedited model, many cases in one edit, or each edit on top of those before."""
    size: int = 1
    """Cases edited at once; 0 is all of them."""
    in_turn: bool = False
    """Whether the requests of a case are written one after another, each on top of those before."""
    immediate: bool = False
    """In a sequence: whether every case is also measured right after its own edit."""
    checkpoints: tuple[int, ...] = ()
    """In a sequence: after how many cases to measure all cases so far; the end is always one."""
    apart: str = ""
    """In a batch: a tag; only cases with the same value share an edit. Empty: any cases do."""
    conflicts: Literal["keep", "drop"] = "keep"
    """drop: of cases that write different objects to one subject and relation the first, before any limit."""
    sample: int = 0
    """At checkpoints before the end: of how many cases so far, so that they cost the same; 0 is all."""

    def __post_init__(self) -> None:
        mode, points, alone = self.mode, self.checkpoints, self.mode == "single"
        numbers = all(type(point) is int and point > 0 for point in points)
        for wrong, cause, remedy in (
            (mode not in MODES, f"there is no mode {mode!r}", f"known: {', '.join(MODES)}"),
            (type(self.size) is not int or self.size < 0, f"the size {self.size!r} is no number", "0 is all"),
            (alone and self.size != 1, "single edits are of one case each", 'Regime("batch", N)'),
            (mode != "sequential" and (self.immediate or points or self.sample), f"{mode} edits have no checkpoints",
             'Regime("sequential", ...)'),
            (not numbers, f"{points} are no numbers of cases", "they begin at 1"),
            (self.conflicts not in ("keep", "drop") or (alone and self.conflicts == "drop"),
             "conflicts are kept or dropped, where edits share a model", "--edit-mode batch --edit-conflicts drop"),
            (self.apart and mode != "batch", "cases are kept apart in batches alone", 'Regime("batch", apart=TAG)'),
        ):  # fmt: skip
            if wrong:
                raise UsageError(cause, remedy)

    def __str__(self) -> str:
        turns = ", a case's requests in turn" if self.in_turn else ""
        if self.mode == "single":
            return f"single{turns}"
        size = f"{self.size or 'all'} at once"
        size += ", conflicts dropped" if self.conflicts == "drop" else ""
        if self.mode == "batch":
            apart = f", each {self.apart} apart" if self.apart else ""
            return f"batch, {size}{apart}{turns}"
        points = [str(point) for point in self.checkpoints]
        when = ["each"] * self.immediate + [*points, "the end"]
        of = f" ({self.sample} cases at a checkpoint)" if self.sample else ""
        return f"sequential, {size}{turns}, measured at {', '.join(when)}{of}"
