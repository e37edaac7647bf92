"""The executor ``local``: this process runs the cases, and asks some again where the software is another one."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import islice
from typing import Any

import torch
from msgspec import UNSET, UnsetType

from edit_harness import Answer, Executor, RunFolderError, Text
from edit_harness.data import Visit
from edit_harness.errors import counted
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.manifest import Asked
from edit_harness.folder.record import OK, Record
from edit_harness.model.model import Model
from edit_harness.run.controls import is_control
from edit_harness.run.evaluation import Evaluation
from edit_harness.run.loop import Loop, Turn, Turns
from edit_harness.run.rows import RunRows
from edit_harness_plugins.loading.placement import described
from edit_harness_plugins.loading.trial import distance
from edit_harness_plugins.segments import begin, changed

ASKED_AGAIN, SAME = 5, 1e-4
"""Finished cases that are asked again with other software, and nats by which they may differ."""


class Local(Executor):
    """Runs the cases in this process."""

    def turns(self, loading: Mapping[str, Any]) -> Turns:
        """Return the route of one process."""
        return turns


def turns(rows: Mapping[Evaluation, RunRows]) -> Generator[Turn]:
    """Yield the missing records as they are written, the editors in turn.

    Raises what `Loop.run` and `Overlap.end` raise.
    """
    loop = Loop()
    lacking = {each: its for each, its in rows.items() if not set(each.visits) <= its.done}
    now = environment(next(iter(rows)).model)
    overlaps = {
        evaluation: Overlap(evaluation, its, how)
        for evaluation, its in lacking.items()
        if (how := changed(its, now))
    }
    deque(loop.run(overlaps), maxlen=0)
    for evaluation, its in lacking.items():
        begin(its, now, overlaps[evaluation].end() if evaluation in overlaps else UNSET)
    yield from loop.run(rows)


def environment(model: Model) -> dict[str, str]:
    """Return what may differ between machines within one run."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
        "cuda": torch.version.cuda or "",
        "processor": processor(model.device),
        "device": described(model),
        "threads": str(torch.get_num_threads()),
    }


def processor(device: torch.device) -> str:
    """Return a device's name: for a GPU, its model."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@dataclass(eq=False)
class Overlap:
    """Finished cases, asked again with other software: compared, and not written."""

    keeps = None
    """It asks under edits that are made again."""

    evaluation: Evaluation
    rows: RunRows
    changed: Sequence[str]
    """How the software differs."""
    apart: float = 0.0
    """By how many nats the answers differ at most."""

    def __post_init__(self) -> None:
        self.tell = self.rows.tell
        known = ((visit, self.rows.known.get(visit)) for visit in self.evaluation.visits)
        cases = (v for v, own in known if own and own.status == OK and not is_control(v[0]))
        self.wanted = set(islice(cases, ASKED_AGAIN))
        self.count = len(self.wanted)

    @property
    def done(self) -> set[Visit]:
        """The visits that need not be asked again."""
        return set(self.evaluation.visits) - self.wanted

    def add(self, record: Record) -> Record:
        """Compare a record with the stored one, and return that."""
        known = self.rows.known[record.visit]
        self.apart = max(self.apart, apart(known, record))
        self.wanted.discard(record.visit)
        return known

    def end(self) -> Asked | UnsetType:
        """Return what was asked and how far answers differ. Raises `RunFolderError` if too far."""
        if not self.apart <= SAME:
            raise RunFolderError(
                f"{self.rows.folder.path} would go on with {'; '.join(self.changed)}: "
                f"{counted(self.count, 'finished case')} asked again differ by up to "
                f"{self.apart:.2g} nats, and {SAME:g} are allowed",
                "go on with what it was made with, or run it anew: --new",
            )
        return Asked(cases=self.count, apart=self.apart) if self.count else UNSET


def apart(one: Record, other: Record) -> float:
    """Return by how many nats two records' answers differ at most; infinity if their status differs.

    Verdicts do not count.
    """
    if one.status != other.status:
        return float("inf")
    pairs = zip(_answers(one), _answers(other), strict=True)
    return max((distance(*pair) for pair in pairs), default=0.0)


def _answers(record: Record) -> Iterator[Answer]:
    for answer in map(decode_answer, (*record.before, *record.after)):
        if answer is not None:
            yield replace(answer, verdict=None) if isinstance(answer, Text) else answer
