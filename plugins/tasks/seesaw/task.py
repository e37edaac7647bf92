"""Seesaw-CF (Halevy et al., 2024): the task, its fields, and which sets and parts it asks for.

A record of the authors' files is a case: a fact on a person to rewrite, prompts on other people of whom the
new value is true, a prompt on another property of the person, and prompts to be continued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from edit_harness import Case, DataError, Making, Regime, UsageError
from edit_harness.files import cache_folder
from edit_harness.registry.settings import Count, Natural
from edit_harness_plugins.citations import SEESAW
from edit_harness_plugins.composition import Row, of_cases
from edit_harness_plugins.inputs import file_at

from .._files.published import SampledTask
from .._files.records import Entry, Record
from . import candidates, files, gather, subjects
from .asking import CROSS_PROPERTY, CROSS_SUBJECT, OPEN, PARTS, Asking, Definitions, Prompts
from .files import SetFiles

NAME = "seesaw-cf"
OF_PART = {
    CROSS_SUBJECT: ("confidence",),
    CROSS_PROPERTY: ("cross-property",),
    OPEN: ("flaws", "judging"),
}
"""The metrics of each part; the edits themselves are measured in any case."""


@dataclass
class SeesawCF(SampledTask):
    """Edits of people's gender, work, language, citizenship or birthplace, and what they do.

    Three parts: confidence in the new value for people of whom it is true (cross-subject), the
    person's other properties (cross-property), and flaws in descriptions (open-ended). A set of edits
    has all its edits at once, as published. Raises `DataError` for data that are not right.
    """

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), a folder of files named seesaw_cf_*.json, or one
    such file."""
    part: str = "all"
    """"all", or some of cross-subject, cross-property, open-ended, with commas between."""
    sets: str = "all"
    """"all" that are there, or some, such as P21_P101,P103."""
    tags: str = "auto"
    """Who is of which gender, race and region: "auto" (subjects.json beside the data, or what
    `prepare` made), "none", or a file."""
    max_prompts: Natural = 0
    """On other people, in a case: a sample in proportion to the combinations of gender, race and
    region, of which a small one may miss some; 0 for all."""
    samples: Count = 5
    """Texts of each prompt that is continued."""
    prompts: Prompts = "published"
    """Which are continued: "published" (of a pair of properties only "X is"), or "all"."""
    definitions: Definitions = "judge"
    """Of the flaws: those that the paper gave to its "judge", or to "people"."""
    seed: int = 0
    """Of the sampled prompts and texts."""

    sample = "seesaw"
    otherwise = "auto"
    version: ClassVar[str] = "0.1"
    metrics: ClassVar[Sequence[str]] = (
        "success", "confidence", "cross-property", "flaws", "judging",
    )  # fmt: skip
    regime: ClassVar[Regime] = Regime("batch", 0, apart="set")
    asks: ClassVar[str] = (
        "Each prompt is followed by one space and a value, and scored under teacher forcing, before "
        "the edit and after it: the edited prompt with the new and the true value (efficacy); prompts "
        "on other people of whom the new value is true, with the same two (cross-subject; of the sets "
        "that edit one property only the first asks for it); a prompt on another property of the "
        "person, with all values that it may have (cross-property). Descriptions (open-ended) are "
        "continued to 100 tokens in all, drawn among the 5 likeliest, past the end-of-text token; a "
        "judge compares each with the one before the edit."
    )
    citation: ClassVar[str] = SEESAW

    def __post_init__(self) -> None:
        self._parts = _chosen(self.part, PARTS, "part")
        own = (metric for part in PARTS if part in self._parts for metric in OF_PART[part])
        # What the class names is for all parts together.
        self.metrics = ("success", *own)  # type: ignore[misc]

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say what is known of the authors' files, and what is taken by default."""
        return {
            "default": "the sample that the model brings along; or else a folder, data=FOLDER",
            "records": "3,516 edits in the authors' 10 sets, 734,620 prompts on other people",
            "from": f"{files.HOME} (not downloaded by edit-harness)",
            "size": "unknown",
            "sha256": "unknown",
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data."""
        return tuple(self._noted())

    def cases(self) -> Iterable[Case]:
        """Yield the cases, from each set in turn, so that the first few are of all of them."""
        of_each = [map(self._sets[name].case, entries) for name, entries in self._entries.items()]
        for turn in zip_longest(*of_each):
            yield from (case for case in turn if case is not None)

    def composition(self) -> Mapping[str, Sequence[Row]]:
        """Return the table of the sets as the paper prints it, who has tags, and what is asked."""
        asked = files.people(self._all_records)
        edits = Counter(pair for record in self._all_records for pair in files.objects(record))
        tagged, whole = self.people.tagged(asked).items(), max(len(asked), 1)
        tags = [{"tag": tag, "people": n, "percent": 100 * n / whole} for tag, n in tagged]
        of_tags = {f"tags of the {len(asked):,} people who are asked for": tags}
        return {
            files.TITLE: files.table(self._records),
            **of_tags,
            **self.values.by_category(edits),
            **of_cases(self.cases()),
        }

    def make(self, making: Making) -> bool:
        """Make the file of tags, from the authors' tables in a folder or with the help of Wikidata.

        ``--data`` is the folder, "wikidata", or "wikidata:FOLDER" for the tables of ethnic groups
        and of values that lie there; without them the ones beside the data are looked for. Raises
        `DataError`.
        """
        if not making.data:
            making.report(
                "tags     none made: --data FOLDER takes the authors' tables, --data wikidata asks "
                "Wikidata, --data wikidata:FOLDER both"
            )
            return False
        source, _, named = making.data.partition(":")
        asks = source == "wikidata"
        where = named if asks else making.data
        tables = Path(where).expanduser() if where else self._folder
        if not tables.is_dir():
            remedy = "name that of the authors' tables"
            raise DataError(f"there is no folder {str(tables)!r}", remedy)
        gather.make_tags(making, tables, self._all_records if asks else (), self.origin)
        return True

    @property
    def _folder(self) -> Path:
        return self._path if self._path.is_dir() else self._path.parent

    @cached_property
    def _path(self) -> Path:
        """The folder of the data, or their one file."""
        if self.data == "auto":
            raise DataError(
                "the model brings no sample of Seesaw-CF, and it is not downloaded",
                f"get the folder data of {files.HOME}: --task-args data=FOLDER",
            )
        path = Path(self.data).expanduser()
        if path.is_dir():
            return path
        return file_at(self.data, "data is a folder of the authors' files, or one of them")

    @cached_property
    def _named(self) -> dict[str, SetFiles]:
        found = files.sets_at(self._path)
        names = _chosen(self.sets, tuple(found), "sets")
        return {name: own for name, own in found.items() if name in names}

    @cached_property
    def _sets(self) -> dict[str, Asking]:
        """The sets that are asked for; those that have none of the parts are left out."""
        chosen = list(self._named.values())
        # Prompts on others are asked of the first of each edited property: its sets have the same edits
        # or the like. So the authors' files give the five sets of the paper.
        leading = {own.edited: own for own in reversed(chosen) if own.main}.values()
        of_each = [Asking(own, self._parts_of(own, leads=own in leading), self) for own in chosen]
        every = len(self._parts) == len(PARTS)  # then also sets of which only the edits are there
        kept = {
            str(own.files): own for own in of_each if own.parts or (every and not own.files.main)
        }
        if not kept:
            raise DataError(
                f"{self._path}: no set among {', '.join(self._named)} has the part {self.part}",
                "cross-property is of pairs, such as P21_P101, and a file *_eff.json has no part",
            )
        return kept

    def _parts_of(self, own: SetFiles, *, leads: bool) -> frozenset[str]:
        """Return the parts that a set is asked for; one of edits alone has none."""
        has = {
            CROSS_SUBJECT: leads,
            CROSS_PROPERTY: own.effect in self.values.candidates,
            OPEN: True,
        }
        return frozenset(part for part in self._parts if own.main and has[part])

    @cached_property
    def _entries(self) -> dict[str, list[Entry]]:
        return {name: files.read(own.files) for name, own in self._sets.items()}

    @property
    def _records(self) -> dict[str, list[Record]]:
        return {
            name: [entry.record for entry in entries if not entry.problem]
            for name, entries in self._entries.items()
        }

    @property
    def _all_records(self) -> list[Record]:
        return [record for own in self._records.values() for record in own]

    @cached_property
    def values(self) -> candidates.Values:
        """What is known of the values of each property."""
        return candidates.known(self._folder)

    @cached_property
    def told(self) -> subjects.Told:
        """What all sets of the folder tell, those that are not asked for among them."""
        read = {own.files: self._entries[name] for name, own in self._sets.items()}
        return subjects.told_by(
            entry.record
            for own in files.sets_at(self._folder).values()
            for entry in (read.get(own) or files.read(own))
            if not entry.problem
        )

    @cached_property
    def facts(self) -> subjects.Subjects:
        """The people of the file beside the data, or of the prepared one; none if there is none."""
        if (beside := self._folder / subjects.FILE).is_file():
            return subjects.read(beside)
        if (prepared := cache_folder() / "tasks" / NAME / subjects.FILE).is_file():
            return subjects.read(prepared, "tags made by prepare")
        return subjects.Subjects()

    @cached_property
    def people(self) -> subjects.Subjects:
        """The people whose tags count; of whose gender the file says nothing, the data may."""
        if self.tags == "none":
            return subjects.Subjects()
        said = self.facts
        if self.tags != "auto":
            said = subjects.read(file_at(self.tags, "tags is 'auto', 'none', or a .json file"))
        return replace(said, genders=self.told.genders)

    def _noted(self) -> Iterator[str]:
        for name, own in self._named.items():
            if not own.main and name not in self._sets:
                yield f"{name}: left out of part={self.part}, since only its edits are there (*_eff.json)"
        yield from self.people.notes(files.people(self._all_records))
        for name, chosen in self._sets.items() if CROSS_PROPERTY in self._parts else ():
            effect = chosen.files.effect
            if chosen.files.main and effect and effect not in self.values.candidates:
                yield (
                    f"{name}: no values of {effect} ({files.PROPERTIES[effect]}) are known, so "
                    f"cross-property is left out: {candidates.FILE} beside the data can name them"
                )
        for name, records in self._records.items():
            asking = self._sets[name]
            asked = records if CROSS_PROPERTY in asking.parts else ()
            if lacking := sum(not asking.gold(r["requested_rewrite"]["subject"]) for r in asked):
                yield (
                    f"{name}: {lacking:,} of {len(records):,} edited people have no known "
                    f"{files.PROPERTIES[asking.files.effect]} among the candidates, so their "
                    "answers do not count"
                )


def _chosen(text: str, known: Sequence[str], field: str) -> tuple[str, ...]:
    """Return what a text names, or all for "all". Raises `UsageError` for what is not known."""
    if text == "all":
        return tuple(known)
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(
            f"task {NAME}: {field}={text!r} names {unknown[0] if unknown else 'nothing'!r}",
            f"known: all, {', '.join(known)}",
        )
    return names
