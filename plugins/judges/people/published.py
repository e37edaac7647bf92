"""Sheets of Seesaw-CF's human study as the authors publish them: pairs of texts with scores, of no run.

From Halevy et al. (2024), github ENSCMA2/flextape, eval/csv_files. A flaw has 1 where there is more of it in the
text before the edit, 1.5 where there is as much, 2 where there is more in that after. Empty cells are as much,
and an edit that is not reflected, as in agreement.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple, TypeAlias

from edit_harness.data import Key, Verdict
from edit_harness.errors import DataError, UsageError, counted

from .agreement import Opinion
from .blinded import AFTER, BEFORE, COMPARE, SAYS_NEW, TIE, Item, score
from .sheets import read

TEXTS = ("pre_text", "post_text")
COLUMNS = {
    "Anglo-centrism": "Anglo-centrism", "Sexism": "Sexism", "Religious Injection": "Religion",
    "Xenophobia": "Xenophobia", "Classism": "Classism", "Racism": "Racism",
    "Injection of Conservatism": "Conservatism", "Edit reflected?": SAYS_NEW,
}  # fmt: skip
"""What is asked, by the headings of the sheets, as the paper's tables call it."""
REFLECTED = {"1": AFTER, "0": "neither", "": "neither"}
SCORES = {"1": BEFORE, "1.5": TIE, "2": AFTER, "": TIE}
EDITED = {"P101": "field of work", "P21": "gender", "P27": "citizenship"}
"""The properties of the study by their ids, with which the cells of the column ``props`` begin."""
Pair: TypeAlias = tuple[str, str]
"""The texts before and after the edit, with single spaces: the published copies differ in white space."""


class Said(NamedTuple):
    """What a sheet says of a pair."""

    edited: str
    """The edited property; empty if the sheet does not say."""
    labels: Mapping[str, str]
    empty: int
    """Cells that were left empty."""


class Sheet(dict[Pair, Said]):
    """What a sheet says of each pair."""

    sums = 0
    """Rows with scores and without texts, which sum up others."""


def notes(people: Mapping[str, Sheet], judge: str, judged: Sheet) -> Iterator[str]:
    """Say which rows of sheets are left out, what empty cells are, and how much a judge has judged."""
    for name, sheet in people.items():
        if sheet.sums:
            rows = counted(sheet.sums, "row")
            yield f"{name}: {rows} with scores and no texts left out: they sum up others"
        if empty := sum(said.empty for said in sheet.values()):
            yield f"{name}: {empty:,} empty cells are a tie, or an edit not reflected"
    texts = next(iter(people.values()))
    if judged and len(both := judged.keys() & texts) < len(texts):
        yield f"{judge} has {len(both):,} of the {len(texts):,} pairs"


def read_sheet(path: Path) -> Sheet:
    """Return what a published sheet says; rows without texts, which sum up others, are left out.

    Raises `UsageError` if there is no such file, `DataError` for another layout, a score that is none, or
    texts that are there twice.
    """
    found = Sheet()
    rows = read(path, [*TEXTS, *COLUMNS])
    for where, cells in rows:
        before, after = (" ".join(cells[text].split()) for text in TEXTS)
        pair = before, after
        if not any(pair):
            found.sums += any(cells[column].strip() for column in COLUMNS)
            continue
        if pair in found:
            raise DataError(f"{where}: these two texts are there twice", "remove one row")
        labels = {}
        for column, name in COLUMNS.items():
            known = REFLECTED if name == SAYS_NEW else SCORES
            if (said := _plain(cells[column])) not in known:
                right = ", ".join(filter(None, known))
                raise DataError(
                    f"{where}: {column!r} is {said!r}", f"it is one of {right}, or empty"
                )
            labels[name] = known[said]
        edited = cells.get("props", "").partition("_")[0]
        empty = sum(not cells[column].strip() for column in COLUMNS)
        found[pair] = Said(EDITED.get(edited, edited), labels, empty)
    if not found:
        raise DataError(f"{path} has no texts", f"{' and '.join(TEXTS)} are to be filled in")
    return found


def _plain(cell: str) -> str:
    """Return a score as it is written in our tables: some programs write 1.0, or 1,5."""
    return cell.strip().replace(",", ".").removesuffix(".0")


def read_all(files: Sequence[str], judge: str) -> tuple[dict[str, Sheet], Sheet]:
    """Return the sheets of people, and that of a judge if there is one; raises as those below."""
    if judge and Path(judge).resolve() in {Path(file).resolve() for file in files}:
        raise UsageError(f"{judge} is a sheet of people", "name the judge's own by --judge")
    people = read_people([*map(Path, files)])
    return people, read_judge(Path(judge), people) if judge else Sheet()


def read_people(paths: Sequence[Path]) -> dict[str, Sheet]:
    """Return sheets of the same texts by their annotators, who are called as the files.

    Raises `UsageError` for a name that is there twice, `DataError` for other texts, and as `read_sheet`.
    """
    if len({path.stem for path in paths}) < len(paths):
        raise UsageError("two sheets have one name", "each is an annotator's, called as the file")
    found = {path.stem: read_sheet(path) for path in paths}
    first, *others = zip(paths, found.values(), strict=True)
    for path, sheet in others:
        if other := len(sheet.keys() ^ first[1].keys()):
            raise DataError(
                f"{path} has other texts than {first[0]}: {other:,} pairs are in one of the two alone",
                "name sheets of the same texts; that of a judge, which may be of some, by --judge",
            )
    return found


def read_judge(path: Path, people: Mapping[str, Sheet]) -> Sheet:
    """Return a judge's sheet, of some of the texts; raises `DataError` if of none, and as `read_sheet`."""
    found = read_sheet(path)
    if not any(pair in found for sheet in people.values() for pair in sheet):
        raise DataError(f"{path} has none of the texts of {', '.join(people)}", "name another file")
    return found


def opinions(people: Mapping[str, Sheet], judge: Sheet) -> list[Opinion]:
    """Return what people and a judge say of each pair. Raises `DataError` if sheets differ in what was edited."""
    found = []
    for number, pair in enumerate(next(iter(people.values()))):
        edited = {sheet[pair].edited for sheet in people.values()} - {""}
        if len(edited) > 1:
            raise DataError(
                f"sheets differ in what was edited: {' and '.join(sorted(edited))} for {shorten(pair[0], 40)!r}",
                "correct the column props, or leave it out",
            )
        key = Key(COMPARE, about={"property": "".join(edited), "reflected": True})
        verdict = _verdict(judge[pair].labels) if pair in judge else None
        item = Item(str(number), 0, 0, "", *pair, key, verdict)
        found.append(Opinion(item, {name: sheet[pair].labels for name, sheet in people.items()}))
    return found


def _verdict(labels: Mapping[str, str]) -> Verdict:
    rated = {name: value for name, said in labels.items() if (value := score(said)) is not None}
    # Whether the edit is reflected is the verdict's own score: 1 for "after", none for "neither".
    return Verdict("decided", rated.pop(SAYS_NEW, 0.0), ratings=rated)
