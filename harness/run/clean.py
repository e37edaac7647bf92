"""The clean pass: the unedited model's answers to a chunk of cases, shared by all editors of a run.

Generated texts are also cached on disk, whole chunks at a time, under a digest of all that their bits
depend on. Other answers are not: edited passes begin with the clean pass, and need it in memory.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import torch

from ..data import Answer, Case, Examined, Generate, Graded, is_finite
from ..edits import UNEDITED, Edit
from ..errors import PluginError
from ..files import digest, dumps, replacing
from ..folder.encoding import decode_answer, encode_answer
from ..model.model import Model
from ..model.reuse import CleanTexts
from ..model.weights import of_config
from ..registry import guard
from .integrity import ModelGuard

Place = tuple[str, int]
"""A case's id and the number of one of its probes."""


class CleanPass:
    """The unedited model's answers and states of the current chunk; ``folder`` is the cache on disk."""

    def __init__(self, model: Model, folder: Path | None = None) -> None:
        self.model = model
        self.guard = ModelGuard(model)
        hooked = any(module._forward_hooks for module in model.module.modules())
        # No digest covers a hook of the user's own.
        self.folder = folder / model.digest if folder and not hooked else None
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
        self._recall(cases)
        missing = [place for place in _places(cases) if place not in self._known]
        queries = {(case.id, i): p.query for case in cases for i, p in enumerate(case.probes)}
        questions = [(UNEDITED, queries[place]) for place in missing]
        questions += [(edit, probe.query) for case, edit in edited for probe in case.probes]
        answers = self.model.answer(questions, self.base)
        if missing:
            self._known |= dict(zip(missing, answers, strict=False))
            self._store(cases)
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

    def _recall(self, cases: Sequence[Case]) -> None:
        """Read the texts from disk that are not in memory."""
        places = list(_asked(cases))
        path = self._path(cases)
        if path is None or all(place in self._known for place in places):
            return
        for place, answer in zip(places, _read(path), strict=False):
            if answer is not None:
                self._known.setdefault(place, answer)

    def _store(self, cases: Sequence[Case]) -> None:
        path = self._path(cases)
        if path is None or not all(map(is_finite, self._known.values())):
            return
        kept = [encode_answer(self._known[place]) for place in _asked(cases)]
        # A cache that cannot be written must not end a run.
        with contextlib.suppress(OSError), replacing(path) as partial:
            partial.write_text(dumps({"answers": kept, "digest": digest(kept)}), encoding="ascii")

    def _path(self, cases: Sequence[Case]) -> Path | None:
        """Return the cache file of a chunk, named by all that its texts depend on; None without texts."""
        queries = list(_asked(cases).values())
        if self.folder is None or not queries:
            return None
        model = self.model
        depends = {
            "queries": [asdict(query) for query in queries],
            "config": of_config(model.module.config),
            "tokenizer": model.tokens.digest,
            "precision": model.precision,
            "device": model.device.type,
            "threads": torch.get_num_threads(),
            "batch": [model.batch_tokens, model.batch_rows, model.padding],
            "versions": [version(name) for name in ("edit-harness", "torch", "transformers")],
        }
        return self.folder / f"{digest(depends)}.json"


def _read(path: Path) -> list[Answer | None]:
    """Return the answers of a file; none if it is missing or damaged."""
    try:
        data = json.loads(path.read_bytes())
        whole = data["digest"] == digest(data["answers"])
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return [decode_answer(answer) for answer in data["answers"]] if whole else []


def _places(cases: Sequence[Case]) -> list[Place]:
    return [(case.id, i) for case in cases for i in range(len(case.probes))]


def _asked(cases: Sequence[Case]) -> dict[Place, Generate]:
    """Return the queries for texts, whose answers are cached on disk."""
    return {
        (case.id, i): probe.query
        for case in cases
        for i, probe in enumerate(case.probes)
        if isinstance(probe.query, Generate)
    }


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
