"""A regime: how edits share a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

from ..errors import UsageError

Mode = Literal["single", "batch", "sequential"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class Regime:
    """How edits share a model; `edit_harness.run.plan` carries it out, and plugins do not see it.

    Raises `UsageError` for what does not fit the mode.
    """

    mode: Mode = "single"
    """single: each case on the unedited model; batch: many cases in one edit; sequential: each edit on top of
    those before."""
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
    """drop: keep only the first of cases that write different objects to one subject and relation, before any
    limit, as MEMIT's authors filter CounterFact."""

    def __post_init__(self) -> None:
        def refuse(cause: str, remedy: str) -> NoReturn:
            raise UsageError(cause, remedy)

        mode, alone = self.mode, self.mode == "single"
        if mode not in MODES:
            refuse(f"there is no mode {mode!r}", f"known: {', '.join(MODES)}")
        if type(self.size) is not int or self.size < 0:
            refuse(f"a size of {self.size!r} is no number of cases", "0 is all of them")
        if alone and self.size != 1:
            refuse("single edits are of one case each", 'Regime("batch", N)')
        if mode != "sequential" and (self.immediate or self.checkpoints):
            refuse(
                f"checkpoints are for sequential edits, and this is {mode}",
                'Regime("sequential", ...)',
            )
        if any(type(point) is not int or point < 1 for point in self.checkpoints):
            refuse(f"{self.checkpoints} are no numbers of cases", "they begin at 1")
        if self.conflicts not in ("keep", "drop") or (self.conflicts == "drop" and alone):
            refuse(
                f"conflicts are kept or dropped where edits share a model, not {self.conflicts!r} here",
                'Regime("batch", N, conflicts="drop"), or --edit-mode batch --edit-conflicts drop',
            )
        if self.apart and mode != "batch":
            refuse(
                f"cases are kept apart in batches, and this is {mode}",
                'Regime("batch", 0, apart=TAG)',
            )

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
        return f"sequential, {size}{turns}, measured at {', '.join(when)}"
