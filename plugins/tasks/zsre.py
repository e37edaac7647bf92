"""zsRE (Levy et al., 2017), as MEND's authors prepared it: questions, answers, and other questions.

`ZsRE` writes the true answer, as ROME and MEMIT do, `ZsREAlternative` another one, as MEND and EasyEdit do:
never to be compared. The neighbourhood is an unrelated question of NaturalQuestions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from edit_harness import Case, DataError, Request
from edit_harness_plugins import inputs

from ._files.published import Published, hosted
from ._files.records import Entry, Record, cut_out, unedited, unplaced
from ._files.wild import FORCED, OF_BOTH, WildTask, answered

AUTHORS = Published("zsRE", hosted("zsre_mend_eval.json"), records=19_086)
ASKED = (
    f"{FORCED}a question of NaturalQuestions, with a question mark behind it, with its gold answer "
    f"(neighborhood). {OF_BOTH}"
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
class ZsRE(WildTask):
    """Questions to be given their true answer; 19,086 records in the authors' file.

    A case is called by the position of its record, counted from 0. Of several true answers the
    first is written. Never to be compared with zsre-alt. EasyEdit's zsre_mend_*.json are read too;
    KnowEdit's zsRE asks for other things and is not.
    """

    published, layout, passed = AUTHORS, Layout, ("alt",)
    sample = "zsre"
    asks: ClassVar[str] = f"{ASKED} Written is the first true answer."
    version: ClassVar[str] = "0.1"
    metrics = ("token-accuracy", "accuracy", "unchanged")
    citation = (
        "Levy, Seo, Choi, Zettlemoyer: Zero-Shot Relation Extraction via Reading Comprehension. "
        "CoNLL 2017. Mitchell, Lin, Bosselut, Finn, Manning: Fast Model Editing at Scale. ICLR 2022"
    )

    def _wrong(self, record: Record) -> Iterator[str]:
        if not record["answers"]:
            yield "`$.answers` is empty"
        yield from unplaced("src", record["src"], record["subject"])

    def _answers(self, record: Record) -> tuple[str, str]:
        """Return the answer that is written, and the true one if that is another."""
        return record["answers"][0], ""

    def _case(self, name: str, record: Record, position: int) -> Case:
        """Make the case that writes an answer. The published prompts are kept, "?" and all."""
        new, true = self._answers(record)
        asked = (
            ("efficacy", record["src"], new),
            ("paraphrase", record["rephrase"], new),
            ("neighborhood", f"{record['loc'].strip()}?", record["loc_ans"]),
        )
        prompt = cut_out(record["src"], record["subject"])
        return Case(name, (Request(prompt, record["subject"], new, true),), answered(asked))


@dataclass
class ZsREAlternative(ZsRE):
    """Questions to be given another answer than the true one.

    Records without another answer are left out, as EasyEdit does, and counted in `notes`; one with a
    true answer for it is an `invalid_case`. Never to be compared with zsre.
    """

    asks = f"{ASKED} Written is the alternative answer."
    version: ClassVar[str] = "0.3"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data; it may download them."""
        left, total = sum(not self._takes(r) for r, _ in self._entries), len(self._entries)
        note = f"{left:,} of {total:,} records have no alternative answer and are left out"
        return (*super().notes, *([note] if left else []))

    def _takes(self, record: Record) -> bool:
        return bool((record.get("alt") or "").strip())

    def made_of(self, entries: Sequence[Entry]) -> Iterator[Case]:
        """Yield a case for every record with an alternative answer. Raises `DataError` if none has."""
        if not any(self._takes(record) for record, _ in entries):
            cause = f"none of {len(entries):,} records has an alternative answer"
            raise DataError(cause, "the task zsre writes the true ones")
        return super().made_of(entries)

    def _wrong(self, record: Record) -> Iterator[str]:
        yield from super()._wrong(record)
        if self._takes(record):
            yield from inputs.empty_texts(record["alt"], place="$.alt")
            yield from unedited(record["alt"], *record["answers"], name="alt")

    def _answers(self, record: Record) -> tuple[str, str]:
        return record["alt"], record["answers"][0]
