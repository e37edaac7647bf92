"""An editor at work: finds independent edits together, and one by one where that fails.

What the editor changes about the process is put back; `edit_harness.run.measure` verifies the model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ..data import Visit
from ..edits import UNEDITED, Edit
from ..files import dumps
from ..interfaces import Editor
from ..model.model import Model
from ..registry import guard
from ..registry.guard import PASSING
from . import failures, sequence
from .failures import NoEditError, PastError
from .plan import Step

LOG = logging.getLogger(__name__)
Tell = Callable[[str], None]
"""Takes a line for readers of the run."""


@contextmanager
def put_back(tell: Tell, who: str, where: str = "") -> Iterator[list[str]]:
    """Put back what plugins change about the process in the block; tell it, and list it at the end."""
    changed: list[str] = []
    try:
        with guard.restored(changed.extend):
            yield changed
    finally:
        for name in changed:
            tell(f"{who} changed {name}{where}, which was put back")


@dataclass
class Editing:
    """An editor at work on a model, and what came of each case's edit."""

    model: Model
    editor: Editor
    tell: Tell
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    info: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The editor's diagnostics."""
    unfinished: dict[Visit, BaseException] = field(default_factory=dict)
    """Why an editor could not finish the edit that these were to be measured under."""
    _last: Edit = UNEDITED
    """The edit after the last step, unfinished."""
    _state: int = 0
    """The state after the last step."""
    _folder: Path | None = None
    _from: int = -1
    """The state that a resumed sequence goes on from, by an edit kept in the folder."""

    def resume(self, folder: Path | None, done: Collection[Visit], visits: Iterable[Visit]) -> None:
        """Go on from the edit that is kept in a folder, unless a row of a state up to it is wanted."""
        self._folder = folder
        if not (folder and (found := sequence.kept(folder, str(self.model.device)))):
            return
        edit, notes = found
        if all(visit in done for visit in visits if visit[1] <= notes["state"]):
            self._last, self._state, self._from = edit, notes["state"], notes["state"]
            self.info, self.seconds = notes["info"], notes["seconds"]
            self.errors = {case: PastError(*why) for case, why in notes["errors"].items()}

    def _keep(self) -> None:
        """Keep the edit so far for a run that resumes this one."""
        if self._folder:
            told = {c: failures.status(e, self.editor, edit=True) for c, e in self.errors.items()}
            notes = {"info": self.info, "seconds": self.seconds, "errors": told}
            sequence.keep(self._folder, self._state, self._last, notes)

    def edits(self, group: Sequence[Step]) -> list[Edit]:
        """Return the edit after each step that is measured, finished; of others none.

        Steps up to the state that a sequence goes on from are not made again. Raises
        `DeviceLostError` if the device fails.
        """
        if group[-1].state <= self._from:
            return [UNEDITED] * len(group)
        if not group[0].fresh and group[0].state > self._state:
            self._keep()  # all rows so far are written
        fresh = iter(self._independent([step for step in group if step.fresh]))
        found: list[Edit] = []
        for step in group:
            self._last = next(fresh) if step.fresh else self._one(step, self._last)
            self._state = step.state
            # Without what only `extend` needs: each step's keys would be held until the group is asked.
            asked = self._finished(step, self._last) if step.measure else UNEDITED
            found.append(replace(asked, state={}))
        return found

    def _finished(self, step: Step, edit: Edit) -> Edit:
        """Return an edit as it is measured; if that fails, so do the cases that are."""
        try:
            (edit,) = self._call([step], lambda: [self.editor.finish(self.model, edit)])
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            self.unfinished |= dict.fromkeys(step.visits, error)
        return edit

    def _independent(self, group: Sequence[Step]) -> list[Edit]:
        """Find edits together; where that fails, in halves to find the one that fails."""
        if len(group) < 2:
            return [self._one(step, UNEDITED) for step in group]
        start = perf_counter()
        try:
            requests = [step.requests for step in group]
            edits = self._call(group, lambda: self.editor.edit_each(self.model, requests))
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("editing %d steps together failed", len(group), exc_info=True)
        else:
            for step, edit in zip(group, edits, strict=True):
                self._book(step, (perf_counter() - start) / len(group), edit)
            return edits
        half = len(group) // 2
        return self._independent(group[:half]) + self._independent(group[half:])

    def _one(self, step: Step, last: Edit) -> Edit:
        """Find one edit; if it fails, a sequence continues from the edit before."""

        def find() -> list[Edit]:
            if step.fresh:
                return [self.editor.edit(self.model, step.requests)]
            return [self.editor.extend(self.model, last, step.requests)]

        start = perf_counter()
        try:
            (edit,) = failures.frugally(lambda: self._call([step], find))
        except PASSING:
            raise
        except BaseException as error:
            failures.check_device(error)
            LOG.debug("an edit failed", exc_info=True)
            self._book(step, perf_counter() - start, UNEDITED, error)
            return UNEDITED if step.fresh else last
        self._book(step, perf_counter() - start, edit)
        return edit

    def _call(self, group: Sequence[Step], find: Callable[[], list[Edit]]) -> list[Edit]:
        """Let the editor work, and check that it returns edits."""
        with put_back(self.tell, "the editor") as changed:
            edits = find()
        if len(group) > 1 and not guard.NUMERIC.isdisjoint(changed):
            raise NoEditError(f"{changed[0]} was changed between the edits")
        _check(edits, len(group))
        return edits

    def _book(
        self, step: Step, seconds: float, edit: Edit, error: BaseException | None = None
    ) -> None:
        """Note a step's time in equal parts, its diagnostics and its failure."""
        for case in step.edit:
            self.info[case.id] = edit.info
            self.seconds[case.id] = self.seconds.get(case.id, 0.0) + seconds / len(step.edit)
            if error is not None:
                self.errors.setdefault(case.id, error)


def _check(edits: Sequence[Edit], count: int) -> None:
    """Raise `NoEditError` if an editor did not return so many edits that can be stored."""
    if not isinstance(edits, Sequence):
        raise NoEditError(f"the editor returned {type(edits).__name__}, not an Edit")
    wrong = [type(edit).__name__ for edit in edits if not isinstance(edit, Edit)]
    if wrong or len(edits) != count:
        raise NoEditError(f"the editor returned {wrong[0] if wrong else len(edits)}, not an Edit")
    for edit in edits:
        if not (isinstance(edit.info, Mapping) and _storable(edit.info)):
            raise NoEditError(
                f"the editor's info is no mapping that JSON can hold: {edit.info!r:.60}"
            )


def _storable(value: Any) -> bool:
    try:
        dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
