"""At the end of a run: every planned visit has a row, and the rows on disk say what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..data import Visit
from ..errors import HarnessError, ResourceError
from ..files import dumps
from .records import STATUSES, Record, RunFolder

EVERY = 100
"""Of so many rows one is compared, and the last."""


def check(visits: Sequence[Visit], folder: RunFolder, known: Mapping[Visit, Record]) -> None:
    """Raise an error if a run's rows are not all there and as they were made.

    ``known`` are the rows in memory. `HarnessError` if a planned visit has none, or one with no status
    that there is; `ResourceError` if the file says otherwise.
    """
    wanting = [v for v in visits if v not in known or known[v].status not in STATUSES]
    if wanting:
        raise HarnessError(
            f"{len(wanting)} of {len(visits)} planned cases have no row, such as {wanting[0][0]}",
            "this is a mistake of the harness: please report it; the same command goes on",
        )
    stored = {record.visit: record for record in folder.records()}
    for visit in [*visits[::EVERY], *visits[-1:]]:
        if visit not in stored or _said(stored[visit]) != _said(known[visit]):
            raise ResourceError(
                f"the row of case {visit[0]} in {folder.samples} is not what was written",
                "check the disk; edit-harness repair looks at the whole folder",
            )


def _said(record: Record) -> str:
    answers = {"before": list(record.before), "after": list(record.after)}
    return dumps({**vars(record), **answers})
