"""Records of a benchmark's file, JSON or JSON Lines: read, with the place of whatever is wrong in them.

A file whose layout is wrong is refused as a whole; a record with the right layout and no use, such as one with
an empty target, is kept with the reason, so that it can be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, field

from edit_harness import DataError, Request
from edit_harness_plugins.inputs import Layout, empty_texts, fitted, json_of, refuse, text_of

Record = dict[str, Any]
Name = Annotated[str, Meta(pattern=r"\S")]
Id = int | Name


class Target(Layout):
    """An object of an edit."""

    text: str = field(name="str")


class Rewrite(Layout):
    """An edit as CounterFact has it."""

    prompt: str
    subject: str
    target_new: Target
    target_true: Target


def request_of(rewrite: Record) -> Request:
    """Return what an edit of CounterFact's layout writes."""
    new, true = (rewrite[target]["str"] for target in ("target_new", "target_true"))
    return Request(rewrite["prompt"], rewrite["subject"], new, true)


class Entry(NamedTuple):
    """A record, and why no case can be made of it, with its place in the file; usually empty."""

    record: Record
    problem: str = ""


def read(
    path: Path,
    layout: type[Layout],
    wrong: Callable[[Record], Iterable[str]],
    *,
    key: str = "",
    passed: Collection[str] = (),
) -> list[Entry]:
    """Return the records of a .json or .jsonl file, each with what is wrong with its content.

    ``wrong`` says why no case can be made of a record whose layout is right, and may raise `ValueError`
    for what a layout cannot say. ``key`` is the field that no two records may have alike, and ``passed``
    are fields whose texts may be empty. Raises `DataError` that names the first five places if the file
    or a record has another layout, or if no record is of any use.
    """
    found, refused, useless = [], [], []
    seen: dict[str, str] = {}
    for place, record in _placed(path):
        try:
            problems = [*empty_texts(fitted(record, layout), passed), *wrong(record)]
            if key and (first := seen.setdefault(str(record[key]), place)) != place:
                raise ValueError(f"{key} {record[key]} is also that of {first}")
        except ValueError as error:
            refused.append(f"{place}: {error}")
            continue
        told = f"{place}: {'; '.join(problems)}" if problems else ""
        useless += [told] if told else []
        found.append(Entry(record, told and f"{path.name}: {told}"))
    if not found and not refused:
        raise DataError(f"{path}: there are no records")
    unfit = refused or (useless if len(useless) == len(found) else [])
    refuse(path, unfit, "correct them, or give another file")
    return found


def _placed(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file, each with its place."""
    text = text_of(path)
    if path.suffix == ".jsonl":
        lines = ((i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip())
        for number, (i, line) in enumerate(lines, 1):
            yield f"line {i}, record {number}", json_of(path, line, i)
        return
    items = json_of(path, text)
    if not isinstance(items, list):
        raise DataError(f"{path}: expected a list of records, got {text.strip()[:20]!r}")
    for number, item in enumerate(items, 1):
        yield f"record {number}", item


def misplaced(prompt: str, place: str = "$.requested_rewrite.prompt") -> Iterator[str]:
    """Say how many places for the subject a prompt has, if not one."""
    if (count := prompt.count("{}")) != 1:
        yield f"`{place}` has {count} places '{{}}' for the subject, expected 1"


def wrong_rewrite(rewrite: Record) -> Iterator[str]:
    """Say why a rewrite edits nothing: its prompt has no place for the subject, or its new object is the true one."""
    yield from misplaced(rewrite["prompt"])
    new, true = (rewrite[field]["str"].strip() for field in ("target_new", "target_true"))
    if new == true:
        yield f"target_new is the true value {true!r}, so nothing is edited"
