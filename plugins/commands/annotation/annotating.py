"""The commands ``annotate export`` and ``annotate import``: texts of a run to people, labels back.

An export draws texts and leaves a folder to hand out with a key beside it, see
`edit_harness_plugins.commands.annotation.handout`; an import puts the labels, un-blinded, into the run's folder. No
model is needed, and what a sheet asks is none of this module's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from edit_harness.encoding import finite
from edit_harness.errors import DataError, UsageError
from edit_harness.files import replacing
from edit_harness.folder.folder import RunFolder
from edit_harness.run.outcome import Run
from edit_harness.run.report import listed

from ..run.console import err, out
from . import opinions
from .blinded import Form, Item, columns, definitions, drawn, formed, items_of
from .handout import ANNOTATOR, KEY, SCHEMA, SHEETS, Export, Labels, identity, read, unlocked, write
from .opinions import Opinion
from .sheets import shown

NAME = re.compile(r"\w[\w.-]*")
NAMED = 10
"""Items that a message names; of more it gives the number."""
TITLES = {
    "agreement": "Agreement of annotators",
    "means": "means, from -1 (more before the edit) to 1 (more after it)",
    "means_seen": "the same where all see the new value after the edit",
    "judge": "The judge against people",
}
"""The tables that are shown, those of means with the edited property before the title; of pairs of
annotators there may be many, and they are not shown."""


@dataclass(frozen=True, kw_only=True)
class ExportFlags:
    """The flags of ``annotate export``, as they were parsed."""

    run: str
    out: str
    annotators: Sequence[str]
    number: int
    each: str
    seed: int
    debug: bool


@dataclass(frozen=True, kw_only=True)
class ImportFlags:
    """The flags of ``annotate import``, as they were parsed."""

    run: str
    files: Sequence[str]
    key: str
    partial: bool
    as_json: bool
    debug: bool


def export(flags: ExportFlags) -> None:
    """Draw texts of a run, and write sheets, guidelines and the key. Raises `HarnessError`."""
    names = annotators(flags.annotators)
    folder = Path(flags.out)
    if (folder / KEY).exists():
        raise UsageError(f"{folder} has an export already", "name another folder: --out DIR")
    run = _whole(flags.run)
    form, items = _texts(run, flags.each)
    mark = identity(run)
    picked = drawn(items, flags.number, f"{flags.seed} {mark}")
    made = Export(form, picked, mark, names, flags.seed)
    write(made, folder)
    each = f", {flags.number:,} for each {flags.each}" if flags.each else ""
    out.print(f"{form.name:9}{len(picked):,} of {len(items):,} drawn{each}")
    if not flags.each and len(picked) < flags.number:
        err.print(f"note     there are no {flags.number:,} {form.name}; all are taken")
    out.print(f"hand out {folder / SHEETS}/", soft_wrap=True)
    out.print(f"keep     {folder / KEY}", soft_wrap=True)


def annotators(given: Sequence[str]) -> list[str]:
    """Return the annotators' names: as given, or annotator-1 and so on for a number.

    Raises `UsageError` for a name that no file can have, or that is another one's but for its case.
    """
    if len(given) == 1 and given[0].isdecimal() and int(given[0]) > 0:
        return [f"annotator-{i}" for i in range(1, int(given[0]) + 1)]
    for name in given:
        if not NAME.fullmatch(name) or name.isdecimal():
            raise UsageError(
                f"{name!r} is no annotator's name",
                "letters, digits, - and _: --annotators ann,bob, or how many there are",
            )
    if len({name.casefold() for name in given}) < len(given):
        raise UsageError(f"two of {', '.join(given)} would have one sheet", "name them differently")
    return list(given)


def _whole(name: str) -> Run:
    """Return a run of which every record is there. Raises `RunFolderError`."""
    run = Run.read(RunFolder.at(name), {})
    run.check_finished()
    return run


def _texts(run: Run, tag: str) -> tuple[Form, list[Item]]:
    """Return the texts of a run that people can be asked about.

    Raises `DataError` if it has none, and `UsageError` for a tag that no case has.
    """
    if not (items := list(items_of(run, run.records, tag))):
        raise DataError(
            f"{run.folder.path} has no texts that are to be judged",
            "take a run of a task whose probes have keys: `edit-harness show TASK` names its judge",
        )
    if tag and not any(item.group for item in items):
        tags = sorted({name for case in run.cases for name in case.tags})
        raise UsageError(f"no case has the tag {tag!r}", f"there are: {', '.join(tags) or 'none'}")
    return formed(items)


def import_(flags: ImportFlags) -> None:
    """Read sheets that were filled in, store the labels with the run, and print what they say.

    Labels of others that are stored already stay. Raises `UsageError` for files that are not there,
    and `DataError` for what is wrong in one, or if none has a label.
    """
    run = Run.read(RunFolder.at(flags.run), {})
    made = unlocked(Path(flags.key), run)
    path = run.folder.path / "annotations" / f"{made.digest[:8]}.json"
    labels = _merged(_earlier(made, path), _read(made, flags))
    said = [
        Opinion(item, {name: found[mark] for name, found in labels.items() if mark in found})
        for mark, item in made.named.items()
    ]
    results = _results(made, said, list(labels))
    with replacing(path) as partial:
        text = json.dumps(_stored(made, said, results), indent=1)
        partial.write_text(text + "\n", encoding="ascii")
    if flags.as_json:
        out.out(json.dumps(results, indent=1))
    else:
        _print(made, results)
    err.print(f"saved    {path}", soft_wrap=True)


def _read(made: Export, flags: ImportFlags) -> dict[str, Labels]:
    """Return what each annotator says, of those who say anything.

    Raises `DataError` for two sheets of one of them, and if nobody says anything.
    """
    known = {name.casefold() for name in made.annotators}
    found: dict[str, Labels] = {}
    for path in map(Path, flags.files):
        name, labels, skipped = read(made, path, flags.partial)
        if name.casefold() in map(str.casefold, found):
            raise DataError(
                f"{path}: there is a sheet of annotator {name!r} already",
                f"leave one out, or name the other in the column {ANNOTATOR!r}",
            )
        _check_whole(made, path, labels, flags.partial)
        if skipped:
            note = f"note     {path}: {skipped} rows have an empty cell, and are skipped"
            err.print(note)
        if name.casefold() not in known:
            note = f"note     {path}: {name} is none of those it was handed out to: "
            err.print(note + ", ".join(made.annotators))
        found[name] = labels
    if not any(found.values()):
        raise DataError("there is no label in these sheets", "nothing was changed; fill them in")
    return {name: labels for name, labels in found.items() if labels}


def _earlier(made: Export, path: Path) -> dict[str, Labels]:
    """Return what each annotator said in earlier imports of an export. Raises `DataError`."""
    found: dict[str, Labels] = {}
    try:
        stored = json.loads(path.read_text(encoding="ascii"))
        for name in stored["results"]["annotators"]:
            found[name] = {
                item["item"]: item["labels"][name]
                for item in stored["items"]
                if name in item["labels"] and item["item"] in made.named
            }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path} is no file of labels", "move it away, and import all sheets again"
        ) from None
    return found


def _merged(earlier: Mapping[str, Labels], now: Mapping[str, Labels]) -> dict[str, Labels]:
    """Return what each annotator says now or, of those who say nothing now, said before."""
    again = set(map(str.casefold, now))
    kept = {n: said for n, said in earlier.items() if n in now or n.casefold() not in again}
    if stay := [name for name in kept if name not in now]:
        err.print(f"note     labels of an earlier import stay: {', '.join(stay)}")
    return {**kept, **now}


def _check_whole(made: Export, path: Path, found: Labels, partial: bool) -> None:
    """Raise `DataError` if items lack an answer, or say how many have one if that will do."""
    missing = [mark for mark in made.named if mark not in found]
    if missing and not partial:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise DataError(
            f"{path}: {len(missing)} of {len(made.items)} items are missing or not filled in: "
            f"{', '.join(missing[:NAMED])}{more}",
            "fill them in, or go by what is there: --partial",
        )
    if missing:
        err.print(f"note     {path}: {len(found)} of {len(made.items)} items")


def _print(made: Export, results: Mapping[str, Any]) -> None:
    """Print the tables that have rows, those of means for each edited property."""
    names, items = results["annotators"], len(made.items)
    out.print(f"{made.form.name:9}{items:,}, by {len(names)}: {', '.join(names)}")
    for name, title in TITLES.items():
        for edited, rows in groupby(results[name], lambda row: row.get("Edited", "")):
            table = [{k: cell for k, cell in row.items() if k != "Edited"} for row in rows]
            out.print()
            named = f"{shown(edited)}: {title}" if edited else title
            out.print(listed(named, table))


def _results(made: Export, said: Sequence[Opinion], names: Sequence[str]) -> dict[str, Any]:
    """Return what the labels amount to, JSON-ready; lists of rows, which may be empty."""
    form, asked = made.form, list(columns(made.form, made.items))
    together, pairs = opinions.agreements(form, said, asked, names)
    found: dict[str, Any] = finite(
        {
            "annotators": list(names),
            "items": len(said),
            "agreement": together,
            "pairs": pairs,
            "means": opinions.means(form, said, asked),
            "means_seen": opinions.means(form, opinions.seen(form, said), asked),
            "judge": opinions.accuracy(form, said, asked),
        }
    )
    return found


def _stored(made: Export, said: Sequence[Opinion], results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an import leaves with the run: enough to compute its numbers anew."""
    return {
        "schema": SCHEMA,
        "export": made.digest,
        "form": made.form.name,
        "run": made.run,
        "seed": made.seed,
        "asked": definitions(made.form, made.items),
        "items": list(_opinions(made, said)),
        "results": results,
    }


def _opinions(made: Export, said: Sequence[Opinion]) -> Iterator[dict[str, Any]]:
    for mark, opinion in zip(made.named, said, strict=True):
        item = opinion.item
        yield {
            "item": mark,
            "case": item.case,
            "state": item.state,
            "probe": item.probe,
            "edited": item.edited,
            "texts": item.digest,
            "swapped": item.swapped,
            "labels": opinion.labels,
            "judge": made.form.judged(item),
        }
