"""zsRE (Levy et al., 2017), as MEND's authors prepared it: questions, answers, and other questions.

`ZsRE` writes the true answer, as ROME and MEMIT do, `ZsREAlternative` another one, as MEND and EasyEdit do:
never to be compared. The neighbourhood is an unrelated question of NaturalQuestions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from edit_harness import Case, Choose, DataError, Probe, Request
from edit_harness.data import SUBJECT
from edit_harness_plugins import inputs

from ._files import records as reading
from ._files.published import FileTask, Published, hosted, unusable
from ._files.records import Entry, Record

AUTHORS = Published("zsRE", hosted("zsre_mend_eval.json"), records=19_086)
ASKED = (
    "Each question is followed by one space and one answer, whose tokens are predicted one by one "
    "from the right ones before them, before the edit and after it: the edited question and its "
    "rephrasing, with the answer that is written, and a question of NaturalQuestions, with a "
    "question mark behind it, with its gold answer (neighborhood)."
)


class Layout(inputs.Layout):
    """What a record must have."""

    subject: str
    src: str
    rephrase: str
    answers: list[str]
    loc: str
    loc_ans: str
    alt: str | None = None


@dataclass
class ZsRE(FileTask):
    """Questions to be given their true answer; 19,086 records in the authors' file.

    A case is called by the position of its record, counted from 0. Of several true answers the
    first is written. Never to be compared with zsre-alt.
    """

    published = AUTHORS
    sample = "zsre"
    protocol: ClassVar[str] = f"{ASKED} Written is the first true answer."
    version: ClassVar[str] = "0.1"
    metrics = ("token-accuracy", "accuracy", "unchanged")
    citation = (
        "Levy, Seo, Choi, Zettlemoyer: Zero-Shot Relation Extraction via Reading Comprehension. "
        "CoNLL 2017. Mitchell, Lin, Bosselut, Finn, Manning: Fast Model Editing at Scale. ICLR 2022"
    )

    def records(self, path: Path) -> list[Entry]:
        """Return the records of a file, checked."""
        return reading.read(path, Layout, self._wrong, passed=("alt",))

    def made_of(self, entries: Sequence[Entry]) -> Iterable[Case]:
        """Yield a case for every record."""
        for i, (record, problem) in enumerate(entries):
            yield (
                unusable(str(i), problem) if problem else _case(i, record, record["answers"][0], "")
            )

    def _wrong(self, record: Record) -> Iterator[str]:
        question, subject = record["src"], record["subject"].strip()
        if not record["answers"]:
            yield "`$.answers` is empty"
        if SUBJECT in question:
            yield f"src has a {SUBJECT!r} of its own, which stands for the subject"
        elif subject not in question:
            yield f"src {question!r} does not have the subject {subject!r} in it"


@dataclass
class ZsREAlternative(ZsRE):
    """Questions to be given another answer than the true one.

    Records without another answer are left out, as EasyEdit does, and counted in `notes`. Never to be
    compared with zsre.
    """

    protocol = f"{ASKED} Written is the alternative answer."
    version: ClassVar[str] = "0.2"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data; it may download them."""
        left_out, total = self._left_out
        if not left_out:
            return super().notes
        note = f"{left_out:,} of {total:,} records have no alternative answer and are left out"
        return (*super().notes, note)

    def made_of(self, entries: Sequence[Entry]) -> Iterable[Case]:
        """Return a case for every record with an alternative answer. Raises `DataError` if none has."""
        found = [
            unusable(str(i), problem)
            if problem
            else _case(i, record, record["alt"], record["answers"][0])
            for i, (record, problem) in enumerate(entries)
            if _has_alternative(record)
        ]
        if not found:
            raise DataError(
                f"none of {len(entries):,} records has an alternative answer",
                "the task zsre writes the true ones",
            )
        return found

    def _wrong(self, record: Record) -> Iterator[str]:
        yield from super()._wrong(record)
        if _has_alternative(record):
            yield from inputs.empty_texts(record["alt"], place="$.alt")

    @cached_property
    def _left_out(self) -> tuple[int, int]:
        entries = self.records(self._file())
        return sum(not _has_alternative(entry.record) for entry in entries), len(entries)


def _case(position: int, record: Record, target_new: str, target_true: str) -> Case:
    """Make the case that writes an answer. The published prompts are kept, "?" and all."""
    subject = record["subject"].strip()  # as it is cut out, it leaves the spaces beside it
    prompt = record["src"].replace(subject, SUBJECT, 1)
    asked = (
        ("efficacy", record["src"], target_new),
        ("paraphrase", record["rephrase"], target_new),
        ("neighborhood", f"{record['loc'].strip()}?", record["loc_ans"]),
    )
    probes = tuple(Probe(role, Choose(text, (answer,))) for role, text, answer in asked)
    return Case(str(position), (Request(prompt, subject, target_new, target_true),), probes)


def _has_alternative(record: Record) -> bool:
    return bool((record.get("alt") or "").strip())
