"""What annotators are handed and what comes back: a CSV sheet for each, guidelines, and the key to them.

A sheet gets through spreadsheet programs unharmed. It is UTF-8 with a byte order mark, without which
Excel reads it as another encoding; a text that such a program would run as a formula has an apostrophe
before it. The key, which is not handed out, says which text is which.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from edit_harness.errors import DataError, UsageError
from edit_harness.files import digest, replacing
from edit_harness.folder.manifest import fingerprint
from edit_harness.run.results import Results

from .blinded import SHOWS, Form, Item, guidelines, items_of, meanings

SCHEMA = 1
KEY, GUIDELINES, SHEETS = "key.json", "guidelines.md", "sheets"
ITEM, ANNOTATOR = "item", "annotator"
SEPARATORS = ",;\t"
"""What stands between cells: ours, and what spreadsheet programs of other languages write."""
GUARD = "'"
GUARDED = re.compile("['=+\\-@\t\n＝＋－＠]")
"""How a text begins that needs a guard; the guard itself is one, so that it can be taken off."""
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Characters of control and of direction, and halves of surrogate pairs."""
Labels: TypeAlias = dict[str, dict[str, str]]
"""What one annotator says, un-blinded, by the items' ids and by column."""
Row: TypeAlias = tuple[str, dict[str, str]]
"""Where a line of a sheet stands, as a spreadsheet program counts, and its cells by their headings."""


class Place(Struct):
    """An item of an export: where the run has it, and whether text A of it is the one after."""

    place: tuple[str, int, int]
    swapped: bool
    item: str = ""
    """Its id in the sheets."""


class Key(Struct):
    """The file that says what was handed out."""

    export: str
    form: Form
    run: str
    seed: int
    annotators: list[str]
    items: list[Place]
    schema: int = SCHEMA


@dataclass(frozen=True)
class Export:
    """What was handed out."""

    form: Form
    items: Sequence[Item]
    run: str
    """What identifies the run, whoever judges it."""
    annotators: Sequence[str]
    seed: int

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over the texts and their order; who gets them is no part of it."""
        texts = [[*item.place, item.swapped, item.digest] for item in self.items]
        return digest([self.form, self.run, texts])

    @cached_property
    def named(self) -> dict[str, Item]:
        """The items by the ids that sheets show, in which nothing of a run can be read.

        A letter comes first, so that no spreadsheet program takes an id for a number or a date.
        """
        mark, digits = self.digest[:6], len(str(len(self.items)))
        return {f"x{mark}-{i:0{digits}}": item for i, item in enumerate(self.items, 1)}

    def key(self) -> dict[str, Any]:
        """Return what the key says, JSON-ready."""
        items = [Place(item.place, item.swapped, mark) for mark, item in self.named.items()]
        key = Key(self.digest, self.form, self.run, self.seed, [*self.annotators], items)
        return dict(msgspec.to_builtins(key))


def identity(run: Results) -> str:
    """Return what identifies a run but for its judge: people judge the same texts."""
    return fingerprint(structs.replace(run.manifest.identity, judge=None))


def write_export(made: Export, folder: Path) -> None:
    """Write sheets and guidelines, and the key last: with it, an export is whole."""
    asked = meanings(made.items)
    heads = [ITEM, ANNOTATOR, *SHOWS[made.form], *asked]
    (folder / SHEETS).mkdir(parents=True, exist_ok=True)
    for name in made.annotators:
        rows = [
            {ITEM: mark, ANNOTATOR: name}
            | {column: shown(text) for column, text in item.cells.items()}
            for mark, item in made.named.items()
        ]
        write(folder / SHEETS / f"{name}.csv", heads, rows)
    told = shown(guidelines(made.form, asked))
    (folder / SHEETS / GUIDELINES).write_text(told, encoding="utf-8")
    with replacing(folder / KEY) as partial:
        partial.write_text(json.dumps(made.key(), indent=1) + "\n", encoding="ascii")


def read_key(path: Path, run: Results) -> Export:
    """Return the export that a key is of, with its texts from the run.

    Raises `UsageError` if there is no key, `DataError` if it is none or of another run's texts.
    """
    try:
        key = msgspec.json.decode(path.read_bytes(), type=Key)
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(
            f"{path} is no key of an export", f"take the {KEY} that `annotate export` wrote"
        ) from None
    texts = {item.place: item for item in items_of(run, run.everything)}
    there = [each for each in key.items if each.place in texts]
    items = [replace(texts[each.place], swapped=each.swapped) for each in there]
    made = Export(key.form, items, key.run, key.annotators, key.seed)
    if (made.run, made.digest) != (identity(run), key.export):
        raise DataError(
            f"{path} is the key to texts of another run than {run.folder.path}",
            "name the run that was exported, or a sibling of it with another judge",
        )
    return made


def read_labels(made: Export, path: Path) -> tuple[str, Labels]:
    """Return whose sheet a file is, and what it says in the rows that are filled in.

    Raises `UsageError` if there is no such file, `DataError` for what is wrong in it.
    """
    rows = read(path, [ITEM, *SHOWS[made.form], *meanings(made.items)])
    named = [*filter(None, dict.fromkeys(cells.get(ANNOTATOR, "").strip() for _, cells in rows))]
    if len(named) > 1:
        raise DataError(
            f"{path} has rows of {len(named)} annotators: {', '.join(named)}",
            f"make a sheet for each, or mend the column {ANNOTATOR!r}",
        )
    found: Labels = {}
    for where, cells in rows:
        mark = cells[ITEM].strip()
        if mark not in made.named:
            remedy = "import it with the key of that export"
            raise DataError(f"{where}: the item {mark!r} is of another export", remedy)
        if mark in found:
            raise DataError(f"{where}: the item {mark!r} is there twice", "remove one row")
        found[mark] = _answers(f"{where} ({mark})", cells, made.named[mark])
    name = shown(named[0] if named else path.stem)
    return name, {mark: answers for mark, answers in found.items() if answers}


def _answers(where: str, cells: Mapping[str, str], item: Item) -> dict[str, str]:
    """Return a row's answers, un-blinded; nothing if one is missing."""
    for column, text in item.cells.items():
        if cells[column].split() != shown(text).split():  # programs change white space
            raise DataError(
                f"{where}: the cell {column!r} is not what was handed out",
                "copy the answers into a fresh sheet, and leave all other cells as they are",
            )
    found = {}
    for column, (possible, _) in item.asks.items():
        known = {answer.casefold(): answer for answer in possible}
        said = cells[column].strip()
        if not said:
            return {}
        if said.casefold() not in known:
            remedy = f"write {', '.join(possible[:-1])} or {possible[-1]}"
            raise DataError(f"{where}: {column!r} is {said!r}", remedy)
        found[column] = item.plain(known[said.casefold()])
    return found


def shown(text: str) -> str:
    """Return a text as a sheet has it: with escapes for what cannot be shown, or should not."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), plain)


def write(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write a sheet with a column for each name; a row's missing cells are empty."""
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, names)
        for row in ({name: name for name in names}, *rows):
            writer.writerow({n: GUARD * bool(GUARDED.match(c)) + c for n, c in row.items()})


def read(path: Path, names: Sequence[str]) -> list[Row]:
    """Return the rows of a sheet that was filled in; empty ones are left out.

    Raises `UsageError` if there is no such file, and `DataError` if it is not UTF-8, no CSV, or has
    not each of the columns once.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        separator = max(SEPARATORS, key=text.partition("\n")[0].count)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        heads, *table = ([_unguarded(cell) for cell in cells] for cells in [*lines] or [[]])
    except OSError as error:
        raise UsageError(f"the sheet {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path} is not UTF-8: line {line} has the byte {error.object[error.start]:#04x}",
            "save the sheet again, as 'CSV UTF-8' or with the character set UTF-8",
        ) from None
    except csv.Error as error:
        raise DataError(f"{path} is no CSV: {error}", "save the sheet as CSV (UTF-8)") from None
    heads = [head.strip() for head in heads]
    if missing := [name for name in names if heads.count(name) != 1]:
        raise DataError(
            f"{path} has the column {missing[0]!r} not at all, or more than once",
            f"a sheet has {', '.join(names)}; more columns may be added",
        )
    empty = dict.fromkeys(heads, "")
    return [
        (f"{path}: row {number}", empty | dict(zip(heads, cells, strict=False)))
        for number, cells in enumerate(table, 2)
        if any(cell.strip() for cell in cells)
    ]


def _unguarded(cell: str) -> str:
    """Return a cell without its guard, which some programs have taken off already."""
    guarded = cell.startswith(GUARD) and GUARDED.match(cell, 1)
    return cell.removeprefix(GUARD) if guarded else cell
