"""The edits of a group of steps: found together where they are independent, alone where that fails.

What an editor changes about the process meanwhile is put back. That the model is as it was is
checked by who measures (`edit_harness.run.runner`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ..edits import UNEDITED, Edit
from ..errors import Expired, counted
from ..files import dumps
from ..interfaces import Editor
from ..model.model import Model
from ..registry import guard as process
from ..registry.allowance import Allowance
from ..registry.guard import PASSING, said
from . import failures
from .failures import NoEditError
from .plan import Step

LOG = logging.getLogger(__name__)
Tell = Callable[[str], None]
"""Takes a line that readers of the run should know."""


@dataclass
class Setback:
    """Work on several cases at once that failed and was done in another way: told once, at the end."""

    doing: str
    instead: str
    times: int = 0
    first: str = ""

    def add(self, cases: int, error: BaseException, of: object) -> None:
        """Count one; the first says how many cases it was of, and why."""
        self.times += 1
        self.first = self.first or f"{self.doing} {cases} cases together failed: {said(error, of)}"

    def tell(self, tell: Tell) -> None:
        """Tell of it, if it came to that."""
        if self.times:
            more = f" (and {counted(self.times - 1, 'more time')})" if self.times > 1 else ""
            tell(f"{self.first}{more}; they were {self.instead}")


class MeddlingError(Exception):
    """Edits were found together under a state of the process that one of them changed for the rest."""


@dataclass(frozen=True)
class Edited:
    """A step, and the edit that the model holds after it."""

    step: Step
    edit: Edit


@dataclass
class Ledger:
    """What became of the edit of each case, by its id; a case is edited once in a run."""

    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    edits: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The editor's diagnostics."""

    def book(
        self, step: Step, seconds: float, edit: Edit, error: BaseException | None = None
    ) -> None:
        """Note what a step took, in equal parts, what the editor says of it, and that it failed."""
        for case in step.edit:
            self.edits[case.id] = edit.info
            self.seconds[case.id] = self.seconds.get(case.id, 0.0) + seconds / len(step.edit)
            if error is not None:
                self.errors.setdefault(case.id, error)


@dataclass(frozen=True)
class Maker:
    """An editor at work on a model."""

    model: Model
    editor: Editor
    allowance: Allowance
    tell: Tell
    ledger: Ledger = field(default_factory=Ledger)
    setback: Setback = field(default_factory=lambda: Setback("editing", "edited in smaller groups"))

    def edit(self, group: Sequence[Step], last: Edit) -> list[Edited]:
        """Edit together what is independent, and the rest step by step; ``last`` is the edit before.

        Raises `DeviceLostError` if the device fails.
        """
        fresh = iter(self._each([step for step in group if step.fresh]))
        edited = []
        for step in group:
            last = next(fresh) if step.fresh else self._one(step, last)
            edited.append(Edited(step, last))
        return edited

    def _each(self, group: Sequence[Step]) -> list[Edit]:
        """Return independent edits; where editing together fails, in halves to see which it was."""
        if len(group) < 2:
            return [self._one(step, UNEDITED) for step in group]
        start = perf_counter()
        try:
            requests = [step.requests for step in group]
            edits = self._called(group, lambda: self.editor.edit_each(self.model, requests))
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("editing %d steps together failed", len(group), exc_info=True)
            if not isinstance(error, MeddlingError):  # what was put back is told already
                self.setback.add(sum(len(step.edit) for step in group), error, self.editor)
            late = isinstance(error, Expired | MeddlingError)
        else:
            seconds = (perf_counter() - start) / len(group)
            for step, edit in zip(group, edits, strict=True):
                self.ledger.book(step, seconds, edit)
            return edits
        # Halves also halve the memory that it takes; what hangs or meddles would do so in one of them.
        half = len(group) // 2
        parts = [[step] for step in group] if late else [group[:half], group[half:]]
        return [edit for part in parts for edit in self._each(part)]

    def _one(self, step: Step, last: Edit) -> Edit:
        """Return one edit; if it fails, a sequence goes on from the edit before."""
        start = perf_counter()
        try:
            (edit,) = self._frugally(step, lambda: [self._wanted(step, last)])
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("an edit failed", exc_info=True)
            self.ledger.book(step, perf_counter() - start, UNEDITED, error)
            return UNEDITED if step.fresh else last
        self.ledger.book(step, perf_counter() - start, edit)
        return edit

    def _wanted(self, step: Step, last: Edit) -> Edit:
        if step.fresh:
            return self.editor.edit(self.model, step.requests)
        return self.editor.extend(self.model, last, step.requests)

    def _frugally(self, step: Step, make: Callable[[], list[Edit]]) -> list[Edit]:
        """Call once more, after what nobody needs was freed, if memory does not suffice."""
        try:
            return self._called([step], make)
        except BaseException as error:
            if not failures.out_of_memory(error):
                raise
        failures.free_memory()
        return self._called([step], make)

    def _called(self, group: Sequence[Step], make: Callable[[], list[Edit]]) -> list[Edit]:
        """Let the editor work, within its time, and see to it that it returns edits."""
        cases = sum(len(step.edit) for step in group)
        changed: list[str] = []

        def note(names: Sequence[str]) -> None:
            changed.extend(names)
            for name in names:
                self.tell(f"the editor changed {name}, which was put back")

        with self.allowance.spent_on(cases), process.restored(note):
            edits = make()
        if len(group) > 1 and not process.NUMERIC.isdisjoint(changed):
            raise MeddlingError(f"{changed[0]} was changed between the edits")
        _check(edits, len(group))
        return edits


def _check(edits: Sequence[Edit], count: int) -> None:
    """Raise `NoEditError` if an editor returned something else than so many edits to be stored."""
    try:
        wrong = [type(edit).__name__ for edit in edits if not isinstance(edit, Edit)]
        found = len(edits)
    except TypeError:
        wrong, found = [type(edits).__name__], 0
    if wrong or found != count:
        raise NoEditError(f"the editor returned {wrong[0] if wrong else found}, not an Edit")
    for edit in edits:
        if not isinstance(edit.info, Mapping):
            raise NoEditError(f"the editor's info is a {type(edit.info).__name__}, not a mapping")
        for key, value in edit.info.items():
            if not (isinstance(key, str) and _storable(value)):
                raise NoEditError(f"the editor's info is no JSON: key {key!s:.60}")


def _storable(value: Any) -> bool:
    try:
        dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
