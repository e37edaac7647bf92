"""Records of a benchmark's file, JSON or JSON Lines: read, with the place of whatever is wrong in them.

A file whose layout is wrong is refused as a whole; a record with the right layout and no use, such as one with
an empty target, is kept with the reason, so that it can be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, field

from edit_harness import DataError, Request
from edit_harness.data import SUBJECT
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


class Form(NamedTuple):
    """A layout that is read."""

    layout: type[Layout]
    wrong: Callable[[Record], Iterable[str]]
    native: Callable[[Record], Record] | None = None
    """Returns a record, if nothing is wrong with it, in the task's own layout."""

    @property
    def needed(self) -> tuple[str, ...]:
        names = self.layout.__struct_encode_fields__
        return names[: len(names) - len(self.layout.__struct_defaults__)]

    def lacks(self, record: Any) -> list[str]:
        has = record if isinstance(record, dict) else ()
        return [name for name in self.needed if name not in has]


def _nearest(forms: Sequence[Form], record: Any) -> Form:
    return min(forms, key=lambda form: len(form.lacks(record)) / len(form.needed))


def read(
    path: Path,
    layout: type[Layout],
    wrong: Callable[[Record], Iterable[str]],
    key: str = "",
    passed: Collection[str] = (),
    others: Sequence[Form] = (),
) -> list[Entry]:
    """Return the records of a .json or .jsonl file, each with what is wrong with its content.

    ``wrong`` says why no case can be made of a record whose layout is right, and may raise `ValueError`
    for what a layout cannot say. ``key`` is the field that no two records may have alike, ``passed``
    are fields whose texts may be empty, and ``others`` are further layouts. Raises `DataError`: once if all
    records have other fields, or else with the first five places where one has another layout, or if
    no record is of any use.
    """
    found, refused, useless = [], [], []
    seen: dict[str, str] = {}
    forms, placed = (Form(layout, wrong), *others), list(_placed(path))
    if placed and all(form.lacks(record) for form in forms for _, record in placed):
        raise _of_other_fields(path, placed, forms)
    for place, record in placed:
        form = _nearest(forms, record)
        try:
            problems = [*empty_texts(fitted(record, form.layout), passed), *form.wrong(record)]
            if form.native and not problems:
                record = form.native(record)
                problems = list(wrong(record))
            if key and (first := seen.setdefault(str(record[key]), place)) != place:
                raise ValueError(f"{key} {record[key]} is also that of {first}")
        except ValueError as error:
            refused.append(f"{place}: {error}")
            continue
        told = f"{place}: {'; '.join(problems)}" if problems else ""
        useless += [told] if told else []
        found.append(Entry(record, told and f"{path.name}: {told}"))
    if not placed:
        raise DataError(f"{path}: there are no records")
    unfit = refused or (useless if len(useless) == len(found) else [])
    refuse(path, unfit, "correct them, or give another file")
    return found


def _of_other_fields(
    path: Path, placed: Sequence[tuple[str, Any]], forms: Sequence[Form]
) -> DataError:
    """Return what is said once of a file none of whose records has the fields of a layout."""
    place, first = placed[0]
    has = "has " + ", ".join(first) if isinstance(first, dict) else f"is {first!r}"
    near = _nearest(forms, first)
    if len(lacks := near.lacks(first)) < len(near.needed):
        has = f"lacks {', '.join(lacks)}; it {has}"
    takes = "; or ".join(", ".join(form.needed) for form in forms)
    return DataError(
        f"{path}: none of {len(placed):,} records has the fields that this task reads; {place} {shorten(has, 300)}",
        f"it reads records with {takes}. Give such a file, or choose the task that reads this one",
    )


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
        cause = f"{path}: expected a list of records, got {text.strip()[:20]!r}"
        raise DataError(cause, "give a list, or JSON Lines in a file .jsonl")
    for number, item in enumerate(items, 1):
        yield f"record {number}", item


def unplaced(name: str, prompt: str, subject: str) -> Iterator[str]:
    """Say why `cut_out` finds no place for the subject in a prompt."""
    if SUBJECT in prompt:
        yield f"{name} has a {SUBJECT!r} of its own, which stands for the subject"
    elif subject.strip() not in prompt:
        yield f"{name} {prompt!r} does not have the subject {subject.strip()!r} in it"


def cut_out(prompt: str, subject: str) -> str:
    """Return a prompt with ``{}`` for the subject, where it has that first."""
    return prompt.replace(subject.strip(), SUBJECT, 1)


def unedited(new: str, *true: str, name: str = "target_new") -> Iterator[str]:
    """Say that an edit changes nothing, since its new object is a true one; white space around is none."""
    if new.strip() in map(str.strip, true):
        yield f"{name} is the true value {new.strip()!r}, so nothing is edited"


def wrong_rewrite(rewrite: Record, place: str = "requested_rewrite") -> Iterator[str]:
    """Say why a rewrite edits nothing: its prompt has no place for the subject, or its new object is the true one."""
    if (count := rewrite["prompt"].count(SUBJECT)) != 1:
        yield f"`$.{place}.prompt` has {count} places {SUBJECT!r} for the subject, expected 1"
    yield from unedited(rewrite["target_new"]["str"], rewrite["target_true"]["str"])
