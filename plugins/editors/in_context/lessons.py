"""Example edits that some editors learn from (MEND) or show to the model (IKE).

Read from records in the layout of zsRE as MEND's authors prepared it (``subject``, ``src``,
``alt``, ``rephrase``, ``loc``, ``loc_ans``) or in CounterFact's. A model may bring lessons along.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edit_harness import DataError, ModelSource
from edit_harness.data import SUBJECT
from edit_harness_plugins.downloads import Remote, fetch
from edit_harness_plugins.inputs import json_of, text_of

LESSONS = "lessons"
"""Key of a model's own lessons among the data that its source brings along."""
REMOTE = {
    "zsre": Remote(
        ("https://rome.baulab.info/data/dsets/zsre_mend_train.json",
         "https://memit.baulab.info/data/dsets/zsre_mend_train.json"),
        "zsre_mend_train.json",
    ),
}  # fmt: skip
"""Lessons that can be downloaded; their authors publish neither sizes nor checksums."""
ZSRE_QUESTION = "nq question: "


@dataclass(frozen=True)
class Lesson:
    """An edit to learn from, with a text that should follow it and one that should not."""

    prompt: str
    """The subject filled in."""
    target: str
    rephrasings: tuple[str, ...]
    """The same question in other words, or none."""
    other: str
    """A prompt about something else."""
    other_answer: str
    """The right answer to it."""


def find(data: str, source: ModelSource) -> Path:
    """Return the file that a name or path stands for, or the model's own without one.

    Raises `DataError` if there is none.
    """
    if data in REMOTE:
        return fetch(REMOTE[data])
    path = Path(data or source.data.get(LESSONS, "")).expanduser()
    if not path.is_file():
        raise DataError(
            f"there is no file {data!r} of example edits" if data else "example edits are missing",
            f"give a .json or .jsonl file in the layout of zsRE or CounterFact, or {', '.join(REMOTE)}",
        )
    return path


def read(path: Path) -> list[Lesson]:
    """Return the lessons of a file, in order; edits without a new object are left out.

    Raises `DataError` that names the record that is not right.
    """
    text = text_of(path)
    if path.suffix == ".jsonl":
        lines = enumerate(text.split("\n"), 1)
        records = [json_of(path, line, number) for number, line in lines if line.strip()]
    else:
        records = json_of(path, text)
    if not isinstance(records, list) or not records:
        raise DataError(f"{path} is no list of records")
    lessons = [_lesson(path, i, record) for i, record in enumerate(records)]
    return [lesson for lesson in lessons if lesson.target and lesson.other]


def _lesson(path: Path, number: int, record: Any) -> Lesson:
    try:
        if isinstance(record, dict) and "src" in record:
            other = f"{record['loc'].removeprefix(ZSRE_QUESTION).rstrip('?')}?"
            rephrasings = (record["rephrase"],) if record["rephrase"] else ()
            return Lesson(record["src"], record["alt"], rephrasings, other, record["loc_ans"])
        wanted, near = record["requested_rewrite"], record["neighborhood_prompts"]
        return Lesson(
            wanted["prompt"].replace(SUBJECT, wanted["subject"]),
            wanted["target_new"]["str"],
            tuple(record["paraphrase_prompts"]),
            near[0] if near else "",
            wanted["target_true"]["str"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: record {number} is in the layout of neither zsRE nor CounterFact ({error!r})"
        ) from None
