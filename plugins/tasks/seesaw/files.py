"""The files of Seesaw-CF: which sets a folder has, and what a record must have.

A set is named by the property that is edited, and by the one whose fate is looked at if there is one:
``seesaw_cf_P21_P101.json``. A file that ends in ``_eff.json`` has nothing but the edits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edit_harness import DataError
from edit_harness_plugins.composition import Row
from edit_harness_plugins.inputs import Layout

from .._files import records
from .._files.records import Entry, Id, Record, Rewrite

PROPERTIES: Mapping[str, str] = {
    "P101": "field of work", "P103": "native language", "P21": "gender", "P27": "citizenship",
    "P19": "place of birth",
}  # fmt: skip
"""What can be edited, by its id in Wikidata, as a judge is told of it."""
OF = "|".join(PROPERTIES)
NAME = re.compile(rf"seesaw_cf_({OF})(?:_({OF}))?(_eff)?\.json")
PARALLEL = PROMPTS, IDS, NAMES = ("attribute_prompts", "attribute_aux_info", "attribute_aux_ent")
"""The lists of prompts on other people, of their ids and of their names, item by item."""
GENERATION = "generation_prompts"
EDIT = "requested_rewrite"

TITLE = "the sets, as the paper counts their prompts"
HOME = "https://github.com/ENSCMA2/flextape"


@dataclass(frozen=True)
class SetFiles:
    """A set: the properties that it is of, and where it lies; one of the two files may be missing."""

    edited: str
    effect: str = ""
    """Empty if the set has prompts on the edited property alone."""
    main: Path | None = None
    efficacy: Path | None = None

    def __str__(self) -> str:
        return "_".join(filter(None, (self.edited, self.effect)))


def sets_at(path: Path) -> dict[str, SetFiles]:
    """Return the sets in a folder, or that of one file, by name and in a fixed order.

    That is by edited property, and those without another one first. Raises `DataError` if there are
    none, or if a file's name has an unknown property.
    """
    found: dict[tuple[str, str], dict[str, Path]] = {}
    for each in sorted(path.glob("seesaw_cf_*.json")) if path.is_dir() else [path]:
        if (match := NAME.fullmatch(each.name)) is None:
            raise DataError(
                f"{each} has no name of a set",
                "its name says what is edited: seesaw_cf_P21.json, seesaw_cf_P21_P101.json, or the "
                f"same with _eff.json at the end, with properties among {', '.join(PROPERTIES)}",
            )
        edited, effect, efficacy = match.groups(default="")
        found.setdefault((edited, effect), {})["efficacy" if efficacy else "main"] = each
    if not found:
        raise DataError(
            f"{path} has no file seesaw_cf_*.json", "name the folder that the authors' files are in"
        )
    order = ["", *PROPERTIES]
    ranked = sorted(found, key=lambda pair: [*map(order.index, pair)])
    return {
        str(own): own
        for own in (SetFiles(*pair, *map(found[pair].get, ("main", "efficacy"))) for pair in ranked)
    }


def read(files: SetFiles) -> list[Entry]:
    """Return the records of a set, checked; the file with prompts comes first.

    A record that only the file for efficacy has is kept as it is there: it has no prompts on
    others. Raises `DataError` that lists problems, with file, line and record, or names a record
    that has one edit here and another there.
    """
    entries = _read(files.main, files) if files.main else []
    known = {str(entry.record["case_id"]): entry.record for entry in entries}
    alone = _read(files.efficacy, files, alone=True) if files.efficacy else []
    for name, record in ((str(each.record["case_id"]), each.record) for each in alone):
        if name in known and known[name][EDIT] != record[EDIT]:
            raise DataError(
                f"case_id {name} has another edit in {files.efficacy} than in {files.main}",
                "the two files of a set have the same edits: correct one, or move it away",
            )
    return entries + [each for each in alone if str(each.record["case_id"]) not in known]


class SetRewrite(Rewrite):
    """An edit with its property."""

    relation_id: str


class Edited(Layout):
    """What a record of a file for efficacy must have."""

    case_id: Id
    requested_rewrite: SetRewrite


class Asked(Edited):
    """What a record of a file with prompts must have."""

    attribute_prompts: list[str]
    attribute_aux_info: list[str]
    attribute_aux_ent: list[str]
    generation_prompts: tuple[str, ...] = ()


def _read(path: Path, own: SetFiles, *, alone: bool = False) -> list[Entry]:
    """Return the records of a file; in one for efficacy the edits stand alone."""

    def wrong(record: Record) -> Iterator[str]:
        yield from _wrong_edit(record, own)
        if not alone:
            yield from _wrong_prompts(record, own)

    # Nobody is asked by the name alone, and somebody in Wikidata may have none.
    layout = Edited if alone else Asked
    entries = records.read(path, layout, wrong, key="case_id", passed=(NAMES,))
    if not alone:
        return entries
    # The one prompt that it has is that of the edit.
    return [Entry({n: r[n] for n in ("case_id", EDIT)}, problem) for r, problem in entries]


def _wrong_edit(record: Record, own: SetFiles) -> Iterator[str]:
    """Say why nothing is edited. Raises `ValueError` for an edit of another property."""
    if (relation := record[EDIT]["relation_id"]) != own.edited:
        raise ValueError(f"relation_id is {relation!r}, and the file is of {own.edited!r}")
    yield from records.wrong_rewrite(record[EDIT])


def _wrong_prompts(record: Record, own: SetFiles) -> Iterator[str]:
    """Say if a pair has no prompt on its other property. Raises `ValueError` for lists unlike in length."""
    lengths = [len(record[field]) for field in PARALLEL]
    if len(set(lengths)) > 1:
        told = ", ".join(map(str, lengths))
        raise ValueError(f"{', '.join(PARALLEL)} have {told} items, expected as many each")
    if own.effect and not effect_prompt(record):
        yield f"{GENERATION} has none on the other property"


def objects(record: Record) -> list[tuple[str, str]]:
    """Return the edited property with the true object, and with the new one."""
    edit = record[EDIT]
    return [(edit["relation_id"], edit[it]["str"].strip()) for it in ("target_true", "target_new")]


def open_prompts(record: Record) -> tuple[str, ...]:
    """Return the prompts of a record that say nothing of any property, such as "Ada is"."""
    subject = record[EDIT]["subject"]
    return tuple(f"{subject} {verb}" for verb in ("is", "was"))


def effect_prompt(record: Record) -> str:
    """Return the prompt on the other property of a pair, or an empty text."""
    plain = open_prompts(record)
    return next((prompt for prompt in record.get(GENERATION, ()) if prompt not in plain), "")


def people(found: Sequence[Record]) -> dict[str, str]:
    """Return the name of each person that the records' prompts ask for, by id."""
    return {
        person: name
        for record in found
        for person, name in zip(record.get(IDS, ()), record.get(NAMES, ()), strict=True)
    }


def table(sets: Mapping[str, Sequence[Record]]) -> list[Row]:
    """Return a row for each set, and one for all of them, counted as in Table 3 of Halevy et al.

    Attribute prompts are those on other people, generation prompts those to be continued. The paper's
    column of unique prompts has totals; here both stand. On the authors' files it should give the
    paper's figures, such as 29,000 prompts on other people in P21_P101, of which 200 differ.
    """
    rows = [_row(name, records) for name, records in sets.items()]
    if len(sets) > 1:
        rows.append(_row("all", [record for records in sets.values() for record in records]))
    return rows


def _row(name: str, records: Sequence[Record]) -> Row:
    others, told = (
        [prompt for record in records for prompt in record.get(field, ())]
        for field in (PROMPTS, GENERATION)
    )
    ids = [int(record["case_id"]) for record in records if str(record["case_id"]).isdecimal()]
    return {
        "set": name,
        "cases": len(records),
        "subjects": len({record["requested_rewrite"]["subject"] for record in records}),
        "attr": len(others),
        "unique attr": len(set(others)),
        "gen": len(told),
        "unique gen": len(set(told)),
        "case ids": f"{min(ids)}-{max(ids)}" if ids else "",
    }
