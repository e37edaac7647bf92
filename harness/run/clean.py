"""The clean pass: the unedited model's answers to a chunk of cases, shared by all editors of a run."""

from __future__ import annotations

from collections.abc import Sequence

from ..data import Answer, Case, Examined, Graded
from ..edits import UNEDITED, Edit
from ..errors import PluginError
from ..model.model import Model
from ..model.reuse import CleanTexts
from ..registry import guard
from .integrity import ModelGuard

Place = tuple[str, int]
"""A case's id and the number of one of its probes."""


class CleanPass:
    """The unedited model's answers and states of the current chunk."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.guard = ModelGuard(model)
        self.base = CleanTexts(model)
        self._chunk: int | None = None
        self._known: dict[Place, Answer] = {}
        self._unexamined: dict[str, Graded] = {}

    def turn_to(self, chunk: int) -> None:
        """Begin with a chunk, and forget the one before."""
        if chunk != self._chunk:
            self._chunk, self._known, self.base = chunk, {}, CleanTexts(self.model)

    def ask(
        self, cases: Sequence[Case], edited: Sequence[tuple[Case, Edit]]
    ) -> list[tuple[list[Answer], list[Answer]]]:
        """Return the answers to each edited case's probes before and after.

        ``cases`` is the whole chunk; a control with its own code comes alone. Raises what `Model.answer`
        and `examine` raise.
        """
        examined = [(case, edit) for case, edit in edited if isinstance(case, Examined)]
        if examined:
            return [self._examined(case, edit) for case, edit in examined]
        queries = {(case.id, i): p.query for case in cases for i, p in enumerate(case.probes)}
        missing = [place for place in queries if place not in self._known]
        questions = [(UNEDITED, queries[place]) for place in missing]
        questions += [(edit, probe.query) for case, edit in edited for probe in case.probes]
        answers = self.model.answer(questions, self.base)
        if missing:
            self._known |= dict(zip(missing, answers, strict=False))
        after = iter(answers[len(missing) :])
        return [(self._of(case), [next(after) for _ in case.probes]) for case, _ in edited]

    def answers(self, case: Case) -> list[Answer]:
        """Return the answers to a case's probes before any edit. Raises what `Model.answer` raises."""
        if isinstance(case, Examined):
            return self._examined(case, UNEDITED)[0]
        self.ask([case], [])
        return self._of(case)

    def _examined(self, case: Examined, edit: Edit) -> tuple[list[Answer], list[Answer]]:
        """Return a control's answers; the unedited model is examined once for all edits."""
        if case.id not in self._unexamined:
            self._unexamined[case.id] = examine(self.model, UNEDITED, case)
        before = self._unexamined[case.id]
        same = edit.changes_nothing
        return [before], [before if same else examine(self.model, edit, case)]

    def _of(self, case: Case) -> list[Answer]:
        return [self._known[case.id, i] for i in range(len(case.probes))]


def examine(model: Model, edit: Edit, case: Examined) -> Graded:
    """Return a control's answer for the model under an edit.

    What its code changes about the process is put back. Raises `PluginError` for an edit that is not in the
    module, or an answer that is no `Graded`; and what the control raises.
    """
    if why := unseen(edit):
        raise PluginError(f"the edit is one by {why}, which is not in the module")
    with guard.restored(lambda changed: None), model.applied(edit):
        found = case.control.examine()
    if not isinstance(found, Graded):
        raise PluginError(f"a control answers with a {type(found).__name__}, which is no Graded")
    return found


def unseen(edit: Edit) -> str:
    """Return which parts of an edit are not in the module while it is applied; empty if all are."""
    kinds = {"adaptors": edit.adaptors, "a text before the prompt": edit.prefix}
    return " and ".join(name for name, there in kinds.items() if there)
