"""The command ``annotate``: texts of a run go to people, and their labels come back; published sheets too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from edit_harness.errors import DataError, UsageError
from edit_harness.files import replacing
from edit_harness.folder.folder import RunFolder
from edit_harness.run.options import HELP
from edit_harness.run.results import Results
from edit_harness_plugins.command_line import as_json, many
from edit_harness_plugins.commands.report.formats import listed
from edit_harness_plugins.reading import check_finished
from edit_harness_plugins.terminal import err, out

from . import published, sheets
from .agreement import Opinion, compared
from .blinded import Form, Item, drawn, items_of, meanings
from .sheets import Export, Labels

NAME = re.compile(r"\w[\w.-]*")
KEPT = ("case", "state", "probe", "edited", "swapped")
"""What an import keeps of an item, besides what was said of it."""
TITLES = {
    "agreement": "Agreement of annotators",
    "means": "means, from -1 (more before the edit) to 1 (more after it)",
    "means_seen": "the same where all see the new value after the edit",
    "judge": "The judge against people",
}
"""The tables that are shown, those of means with the edited property before the title."""


@click.group(context_settings=HELP)
def annotate() -> None:
    """Have people label texts of a run: blinded sheets out, their answers in."""


@annotate.command("export")
@click.argument("run", metavar="RUN")
@click.option("-o", "--output", "folder", required=True, metavar="DIR",
              help="Where sheets, guidelines and key go.")  # fmt: skip
@many("--annotators", default=["3"], metavar="NAME", show_default="3",
       help="Names by comma, or how many there are.")  # fmt: skip
@click.option("--number", type=click.IntRange(1), default=100, show_default=True,
              help="How many texts, or pairs of texts, are drawn.")  # fmt: skip
@click.option("--each", default="", metavar="TAG",
              help="So many for each value of this tag of the cases, such as set.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def export(
    run: str, folder: str, annotators: Sequence[str], number: int, each: str, seed: int
) -> None:
    """Write a sheet for each annotator, guidelines, and the key to them."""
    names, to = names_of(annotators), Path(folder)
    if (to / sheets.KEY).exists():
        raise UsageError(f"{to} has an export already", "name another folder: --output DIR")
    exported = Results.read(RunFolder.at(run), {})
    check_finished(exported)
    form, items = _texts(exported, each)
    mark = sheets.identity(exported)
    picked = drawn(items, number, f"{seed} {mark}")
    sheets.write_export(Export(form, picked, mark, names, seed), to)
    of_each = f", {number:,} for each {each}" if each else ""
    out.print(f"{form:9}{len(picked):,} of {len(items):,} drawn{of_each}")
    out.print(f"hand out {to / sheets.SHEETS}/", soft_wrap=True)
    out.print(f"keep     {to / sheets.KEY}", soft_wrap=True)


def names_of(given: Sequence[str]) -> list[str]:
    """Return the annotators' names: as given, or annotator-1 and so on for a number.

    Raises `UsageError` for a name that no file can have, or that is another one's but for its case.
    """
    if len(given) == 1 and given[0].isdecimal() and int(given[0]) > 0:
        return [f"annotator-{i}" for i in range(1, int(given[0]) + 1)]
    different = len({name.casefold() for name in given}) == len(given)
    if not different or any(name.isdecimal() or not NAME.fullmatch(name) for name in given):
        raise UsageError(
            f"{', '.join(given)} are no names of annotators, each another one",
            "letters, digits, - and _: --annotators ann,bob, or how many there are",
        )
    return list(given)


def _texts(run: Results, tag: str) -> tuple[Form, list[Item]]:
    """Return a form of sheet, and the texts of a run for it: pairs, if any key asks for some."""
    if not (items := list(items_of(run, run.records, tag))):
        raise DataError(
            f"{run.folder.path} has no texts that are to be judged",
            "take a run of a task whose probes have keys: `edit-harness show TASK` names its judge",
        )
    if tag and not any(item.group for item in items):
        tags = sorted({name for case in run.cases for name in case.tags})
        raise UsageError(f"no case has the tag {tag!r}", f"there are: {', '.join(tags) or 'none'}")
    form: Form = "pairs" if any(item.form == "pairs" for item in items) else "replies"
    return form, [item for item in items if item.form == form]


@annotate.command("import")
@click.argument("run", metavar="RUN")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--key", required=True, metavar="FILE", help="The key.json of the export.")
@as_json
def import_(run: str, files: Sequence[str], key: str, as_json: bool) -> None:
    """Read sheets that were filled in: agreement, means, the judge against people."""
    exported = Results.read(RunFolder.at(run), {})
    made = sheets.read_key(Path(key), exported)
    path = exported.folder.path / "annotations" / f"{made.digest[:8]}.json"
    labels = _read(made, files)
    said = {
        mark: Opinion(item, {name: found[mark] for name, found in labels.items() if mark in found})
        for mark, item in made.named.items()
    }
    results = compared(list(said.values()), list(meanings(made.items)), list(labels))
    with replacing(path) as part:
        part.write_text(json.dumps(_stored(made, said, results), indent=1) + "\n")
    _show(results, made.form, as_json)
    err.print(f"saved    {path}", soft_wrap=True)


@annotate.command("agree")
@click.argument("files", nargs=-1, required=True, metavar="SHEET…")
@click.option("--judge", metavar="FILE", help="A judge's sheet, of all or some of the texts.")
@as_json
def agree(files: Sequence[str], judge: str | None, as_json: bool) -> None:
    """Compare published sheets of Seesaw-CF: agreement, flaws, a judge."""
    people, judged = published.read_all(files, judge or "")
    for note in published.notes(people, judge or "", judged):
        err.print(f"note     {note}", soft_wrap=True)
    asked = list(published.COLUMNS.values())
    _show(compared(published.opinions(people, judged), asked, list(people)), "pairs", as_json)


def _show(results: Mapping[str, Any], form: Form, as_json: bool) -> None:
    """Print what `compared` returns, in JSON or as tables."""
    if as_json:
        out.out(json.dumps(results, indent=1))
        return
    names = results["annotators"]
    out.print(f"{form:9}{results['items']:,}, by {len(names)}: {', '.join(names)}")
    for name, title in TITLES.items():
        for edited, rows in groupby(results[name], lambda row: row.get("Edited", "")):
            table = [{k: cell for k, cell in row.items() if k != "Edited"} for row in rows]
            out.print()
            out.print(listed(f"{sheets.shown(edited)}: {title}" if edited else title, table))
    if len(names) < 2 and not results["judge"]:
        err.print("note     agreement takes two sheets at least, or one and a judge")


def _read(made: Export, files: Sequence[str]) -> dict[str, Labels]:
    """Return what each annotator says, of those who say anything."""
    found: dict[str, Labels] = {}
    for path in map(Path, files):
        name, labels = sheets.read_labels(made, path)
        if name.casefold() in map(str.casefold, found):
            raise DataError(
                f"{path}: there is a sheet of annotator {name!r} already",
                f"leave one out, or name the other in the column {sheets.ANNOTATOR!r}",
            )
        if len(labels) < len(made.items):
            err.print(f"note     {path}: {len(labels)} of {len(made.items)} items are filled in")
        found[name] = labels
    if not any(found.values()):
        raise DataError("there is no label in these sheets", "nothing was changed; fill them in")
    return {name: labels for name, labels in found.items() if labels}


def _stored(
    made: Export, said: Mapping[str, Opinion], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what an import leaves with the run: enough to compute its numbers anew."""
    items = [
        {"item": mark, **{name: getattr(opinion.item, name) for name in KEPT}}
        | {"texts": opinion.item.digest, "labels": opinion.labels, "judge": opinion.item.judged}
        for mark, opinion in said.items()
    ]
    asked = meanings(made.items)
    return {**made.key(), "asked": asked, "items": items, "results": results}
