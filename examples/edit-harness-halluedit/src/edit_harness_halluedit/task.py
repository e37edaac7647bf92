"""The task ``halluedit``: a file of HalluEditBench, whose rows a model was found to answer wrong."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edit_harness import Case, DataError, Generate, Key, Probe, Request, Task

OWN = Path(__file__).with_name("facts.csv")
HOPS = range(2, 7)
NEEDED = ("topic", "subject", "object", "question")
MOST_TOKENS = 16
REMEDY = "give a file of data/questions/hallucination_final/MODEL/ in HalluEditBench's repository"
Row = Mapping[str, str]


@dataclass
class HalluEdit(Task):
    """Questions to be given their true answer, and twelve further questions on each."""

    data: str = ""
    """A .csv file of the authors'; empty for six facts of the package."""

    version: ClassVar[str] = "0.1"
    metrics = ("halluedit",)
    judge = "match"
    asks = (
        f"Questions are answered greedily, in {MOST_TOKENS} tokens and one line at most. The judge looks "
        "for the right answer in the text, for the letter of a choice at its beginning, and whether the "
        "answer to the question on something else is as it was."
    )
    citation = "Huang, Chen, Xu, Payani, Shu: Can Knowledge Editing Really Correct Hallucinations? ICLR 2025"

    @property
    def origin(self) -> str:
        """The file's name."""
        return self._path.name

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say where the facts are from."""
        return {"default": "six facts of the package", "from": REMEDY}

    def cases(self) -> Iterable[Case]:
        """Yield a case for every row, called by its number. Raises `DataError` for another layout."""
        rows = list(_rows(self._path))
        lacking = [name for name in NEEDED if not rows or name not in rows[0]]
        if lacking:
            raise DataError(f"{self._path} has no rows with {', '.join(lacking)}", REMEDY)
        for number, row in enumerate(rows):
            yield _case(str(number), row)

    @property
    def _path(self) -> Path:
        return Path(self.data).expanduser() if self.data else OWN


def _rows(path: Path) -> Iterator[Row]:
    """Yield rows, without white space around texts and without empty ones."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file):
                yield {k: v.strip() for k, v in row.items() if isinstance(v, str) and v.strip()}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}", REMEDY) from None


def _case(name: str, row: Row) -> Case:
    problem = next((f"row {name} has no {each}" for each in NEEDED if each not in row), "")
    if not problem and row["question"].count(row["subject"]) == 0:
        problem = f"row {name}: {row['question']!r} does not name {row['subject']!r}"
    if problem:
        return Case(name, (), (), problem=problem)
    prompt = row["question"].replace(row["subject"], "{}", 1)
    request = Request(prompt, row["subject"], row["object"])
    return Case(name, (request,), tuple(_probes(row)), {"topic": row["topic"]})


def _probes(row: Row) -> Iterator[Probe]:
    """Yield a probe for each question that the row has an answer to."""
    asked = [
        ("efficacy", "question", row["object"]),
        ("paraphrase", "paraphrased_question", row["object"]),
        ("yes", "yes_question", "Yes"),
        ("no", "no_question", "No"),
        ("reversed", "reversed_relation_question", row["subject"]),
        *((f"hop-{n}", f"question_{n}hop", row.get(f"answer_{n}hop", "")) for n in HOPS),
    ]
    for role, column, answer in asked:
        if column in row and answer:
            yield _probe(role, row[column], answer, "within")
    if label := row.get("multiple_choice_labels"):
        choices = row.get("multiple_choice_with_letters", "")
        yield _probe("choice", f"{row['question']} {choices}", label, "sentence")
    if "locality_question" in row:
        # A key without an answer: right is what the model said before the edit.
        yield _probe("locality", row["locality_question"], "", "equal")


def _probe(role: str, question: str, answer: str, how: str) -> Probe:
    key = Key("match", answer, about={"how": how})
    return Probe(role, Generate(question, max_new_tokens=MOST_TOKENS, stop="\n"), key=key)
