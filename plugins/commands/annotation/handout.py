"""What annotators are handed, the key to it, and what comes back in their sheets.

The folder to hand out has a sheet for each annotator and guidelines; the key beside it says which text
is which. What is asked stands in `edit_harness_plugins.commands.annotation.blinded`, how a sheet is stored in
`edit_harness_plugins.commands.annotation.sheets`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import structs

from edit_harness.encoding import dumps
from edit_harness.errors import DataError, UsageError
from edit_harness.files import replacing
from edit_harness.folder.manifest import fingerprint
from edit_harness.run.outcome import Run

from . import sheets
from .blinded import FORMS, Form, Item, columns, guidelines, items_of

SCHEMA = 1
KEY, GUIDELINES, SHEETS = "key.json", "guidelines.md", "sheets"
ITEM, ANNOTATOR = "item", "annotator"
Labels: TypeAlias = dict[str, dict[str, str]]
"""What one annotator says, un-blinded, by the items' ids and by column."""


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
        return hashlib.sha256(dumps([self.form.name, self.run, texts]).encode()).hexdigest()

    @cached_property
    def named(self) -> dict[str, Item]:
        """The items by the ids that sheets show, in which nothing of a run can be read.

        A letter comes first, so that no spreadsheet program takes an id for a number or a date.
        """
        mark, digits = self.digest[:6], len(str(len(self.items)))
        return {f"x{mark}-{i:0{digits}}": item for i, item in enumerate(self.items, 1)}


def identity(run: Run) -> str:
    """Return what identifies a run but for its judge: people judge the same texts."""
    return fingerprint(structs.replace(run.manifest.identity, judge=None))


def write(made: Export, folder: Path) -> None:
    """Write sheets and guidelines, and the key last: with it, an export is whole."""
    asked = columns(made.form, made.items)
    heads = [ITEM, ANNOTATOR, *made.form.shows, *asked]
    if len({*heads}) < len(heads):
        raise DataError(
            f"two columns of the sheet would have one name: {', '.join(heads)}",
            "the task has to name the aspects of its keys differently",
        )
    (folder / SHEETS).mkdir(parents=True, exist_ok=True)
    for name in made.annotators:
        rows = [
            {ITEM: mark, ANNOTATOR: name, **_cells(made.form, item)}
            for mark, item in made.named.items()
        ]
        sheets.write(folder / SHEETS / f"{name}.csv", heads, rows)
    told = sheets.shown(guidelines(made.form, made.items))
    (folder / SHEETS / GUIDELINES).write_text(told, encoding="utf-8")
    with replacing(folder / KEY) as partial:
        partial.write_text(json.dumps(_key(made), indent=1) + "\n", encoding="ascii")


def _cells(form: Form, item: Item) -> dict[str, str]:
    return {name: sheets.shown(text) for name, text in form.cells(item).items()}


def _key(made: Export) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "export": made.digest,
        "form": made.form.name,
        "run": made.run,
        "seed": made.seed,
        "annotators": list(made.annotators),
        "items": [
            {"item": mark, "place": item.place, "swapped": item.swapped, "texts": item.digest}
            for mark, item in made.named.items()
        ],
    }


def unlocked(path: Path, run: Run) -> Export:
    """Return the export that a key is of, with its texts from the run.

    Raises `UsageError` if there is no key, `DataError` if it is none or of another run's texts.
    """
    try:
        key = json.loads(path.read_text(encoding="utf-8"))
        form, mark, places = FORMS[key["form"]], key["run"], [_place(i) for i in key["items"]]
        made = Export(form, (), str(mark), list(key["annotators"]), int(key["seed"]))
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path} is no key of an export", f"take the {KEY} that `annotate export` wrote"
        ) from None
    texts = {item.place: item for item in items_of(run, run.everything)}
    items = [replace(texts[p], swapped=swap) for p, swap in places if p in texts]
    made = replace(made, items=items)
    if made.run != identity(run) or len(items) < len(places) or made.digest != key.get("export"):
        raise DataError(
            f"{path} is the key to texts of another run than {run.folder.path}",
            "name the run that was exported, or a sibling of it with another judge",
        )
    return made


def _place(item: Mapping[str, Any]) -> tuple[tuple[str, int, int], bool]:
    case, state, probe = item["place"]
    return (str(case), int(state), int(probe)), bool(item["swapped"])


def read(made: Export, path: Path, partial: bool) -> tuple[str, Labels, int]:
    """Return whose sheet a file is, what it says, and how many rows were skipped.

    Rows without an answer are left out; ``partial`` skips all that have an empty cell.

    Raises `UsageError` if there is no such file, `DataError` for what is wrong in it.
    """
    asked = columns(made.form, made.items)
    rows = sheets.read(path, [ITEM, *made.form.shows, *asked])
    found = _labels(made, rows, partial)
    return _annotator(path, rows), found, len(rows) - len(found) if partial else 0


def _annotator(path: Path, rows: Sequence[sheets.Row]) -> str:
    """Return whose sheet it is: as its column says, or else its file's name."""
    names = dict.fromkeys(row.cells.get(ANNOTATOR, "").strip() for row in rows)
    said = [name for name in names if name]
    if len(said) > 1:
        raise DataError(
            f"{path} has rows of {len(said)} annotators: {', '.join(said)}",
            f"make a sheet for each, or mend the column {ANNOTATOR!r}",
        )
    return sheets.shown(said[0] if said else path.stem)


def _labels(made: Export, rows: Sequence[sheets.Row], partial: bool) -> Labels:
    found: Labels = {}
    for row in rows:
        mark = row.cells[ITEM].strip()
        if (item := made.named.get(mark)) is None:
            raise DataError(
                f"{row.where}: the item {mark!r} is of another export",
                "import it with the key of that export",
            )
        if mark in found:
            raise DataError(f"{row.where}: the item {mark!r} is there twice", "remove one row")
        _check_texts(made.form, item, row, mark)
        found[mark] = _answers(made.form, item, row, mark, partial)
    return {mark: answers for mark, answers in found.items() if answers}


def _check_texts(form: Form, item: Item, row: sheets.Row, mark: str) -> None:
    """Raise `DataError` if a row does not show what was handed out."""
    for column, text in _cells(form, item).items():
        if not sheets.same(row.cells[column], text):
            raise DataError(
                f"{row.where} ({mark}): the cell {column!r} is not what was handed out",
                "copy the answers into a fresh sheet, and leave all other cells as they are",
            )


def _answers(form: Form, item: Item, row: sheets.Row, mark: str, partial: bool) -> dict[str, str]:
    """Return a row's answers, un-blinded; nothing if it is not filled in at all, or but in part."""
    asked = form.asks(item.key)
    given = {column: row.cells[column].strip() for column in asked}
    if not (all if partial else any)(given.values()):
        return {}
    found = {}
    for column, possible in asked.items():
        known = {answer.casefold(): answer for answer in possible}
        if (said := given[column].casefold()) not in known:
            what = f"is {given[column]!r}" if said else "is empty"
            raise DataError(
                f"{row.where} ({mark}): {column!r} {what}",
                f"write {', '.join(possible[:-1])} or {possible[-1]}",
            )
        found[column] = form.plain(known[said], item)
    return found
