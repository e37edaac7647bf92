"""Facts that can be asked for in both directions, read from a file of JSON Lines and checked.

What is asked of a model about them stands in `edit_harness_reversal.task`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from edit_harness import DataError

REMEDY = "the format is described in the README of edit-harness-reversal"
PROMPTS = ("prompt", "inverse")


@dataclass(frozen=True)
class Fact:
    """A fact to write, and how its inverse is asked for. Every prompt has one ``{}``."""

    id: str
    prompt: str
    subject: str
    target_new: str
    target_true: str
    inverse: str
    """The prompt of the other direction, with ``{}`` for ``target_new``."""
    former: str
    """What the inverse goes on with before the edit; ``subject`` is what it should go on with."""
    paraphrases: Sequence[str] = ()
    """Other prompts for the edited fact, with ``{}`` for the subject."""
    neighbors: Mapping[str, str] | None = None
    """Subjects that the edit should leave alone, each with its object."""


TEXTS = tuple(field.name for field in fields(Fact))[:7]


def read(path: Path) -> Iterator[Fact]:
    """Yield the facts of a file. Raises `DataError` that names file and line of what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}", REMEDY) from None
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        record = _parsed(line)
        if problem := _wrong(record) or _repeated(record["id"], seen):
            raise DataError(f"{path}:{number}: {problem}", REMEDY)
        yield Fact(**record)
    if not seen:
        raise DataError(f"{path} has no facts", REMEDY)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _repeated(name: str, seen: set[str]) -> str:
    if name in seen:
        return f"the id {name!r} is in use already"
    seen.add(name)
    return ""


def _wrong(record: Any) -> str:
    """Say what is wrong with a record; an empty text if nothing is."""
    if not isinstance(record, dict):
        return "the line is no JSON object"
    for name in TEXTS:
        if not isinstance(text := record.get(name), str) or not text.strip():
            return f"{name} is not a text"
    if unknown := record.keys() - {field.name for field in fields(Fact)}:
        return f"there is no field {min(unknown)!r}"
    return _wrong_lists(record) or _wrong_sense(record)


def _wrong_lists(record: Mapping[str, Any]) -> str:
    paraphrases, neighbors = record.get("paraphrases", []), record.get("neighbors", {})
    if not isinstance(paraphrases, list) or not all(isinstance(p, str) for p in paraphrases):
        return "paraphrases is not a list of texts"
    if not isinstance(neighbors, dict) or not all(isinstance(o, str) for o in neighbors.values()):
        return "neighbors is not an object of texts"
    for prompt in (*(record[name] for name in PROMPTS), *paraphrases):
        if prompt.count("{}") != 1:
            return f"{prompt!r} has not exactly one place {{}}"
    return ""


def _wrong_sense(record: Mapping[str, Any]) -> str:
    for one, other in (("target_new", "target_true"), ("subject", "former")):
        if record[one] == record[other]:
            return f"{one} and {other} are both {record[one]!r}, so there is nothing to compare"
    return ""
