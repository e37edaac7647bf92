"""What cases are made of: counts of requests, subjects and prompts of each role; a mark of their facts.

A task whose paper prints a table of its own counts in that way instead; see `Task.composition`.
Nothing is asked of a model here, and nothing is tokenized.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from edit_harness.data import Case
from edit_harness.files import digest

Row = Mapping[str, Any]
MARK = 16
"""Length of a case's mark."""


def of_cases(cases: Iterable[Case]) -> dict[str, list[Row]]:
    """Return the table of what is edited and asked; a case of no use only counts as such."""
    found = list(cases)
    usable = [case for case in found if not case.problem]
    texts: dict[str, Sequence[Sequence[str]]] = {
        "cases": [[case.id] for case in usable],
        "requests": [[r.statement for r in case.requests] for case in usable],
        "subjects": [[r.subject for r in case.requests] for case in usable],
        "new objects": [[r.target_new for r in case.requests] for case in usable],
    }
    prompts: dict[str, list[list[str]]] = {}
    for number, case in enumerate(usable):
        for probe in case.probes:
            name = f"{probe.role}, {type(probe.query).__name__}"
            own = prompts.setdefault(name, [[] for _ in usable])
            own[number].append(probe.query.prompt)
    rows = [counted(what, each, "case") for what, each in (texts | prompts).items()]
    if len(usable) < len(found):
        rows.append(counted("of no use", [[c.id] for c in found if c.problem]))
    return {"what is edited and asked": rows}


def counted(what: str, texts: Sequence[Sequence[str]], unit: str = "") -> Row:
    """Return the row of texts that are given for each case or record, which ``unit`` names.

    It says how many there are, how many different ones, and the mean number for each unit.
    """
    every = [text for own in texts for text in own]
    row: dict[str, Any] = {"": what, "total": len(every), "distinct": len(set(every))}
    if unit:
        row[f"per {unit}"] = sum(map(len, texts)) / len(texts) if texts else 0.0
    return row


def among(marks: Iterable[str], cases: Iterable[Case]) -> list[str]:
    """Return the ids of the cases that have one of the marks; of any task: see `mark`."""
    known = set(marks)
    return [case.id for case in cases if not case.problem and mark(case) in known]


def mark(case: Case) -> str:
    """Return a digest of a case's facts, the same in every task."""
    return digest([asdict(request) for request in case.requests])[:MARK]
