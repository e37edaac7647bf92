"""QAEdit (Yang et al., 2025): questions of three question-answering data sets that models get wrong.

A record is a case: the question and its rephrasing, which should get the true answer, and five questions of others,
whose answers should stay. No prompt is a template: the last place of the subject in it is taken for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from edit_harness import Case, Request
from edit_harness.data import SUBJECT
from edit_harness_plugins import inputs
from edit_harness_plugins.citations import WILD
from edit_harness_plugins.downloads import Remote

from ._files.published import Published
from ._files.records import Id, Record, unplaced
from ._files.wild import FORCED, OF_BOTH, WildTask, answered

SHA256 = "640e1d279759263fdaae543a385680d21a55aa3597ca8b597ffd7937fef07c42"
HOME = (
    "https://raw.githubusercontent.com/WanliYoung/Revisit-Editing-Evaluation/"
    "d6025e0ee9731d3b59b84ea242dc06bf0e0c8a74/data/QAEdit_inter_1k.json"
)
AUTHORS = Published("QAEdit", Remote((HOME,), "QAEdit_inter_1k.json", 1_117_792, SHA256), 1_000, SHA256)  # fmt: skip


class Other(inputs.Layout):
    """A question that no edit is about."""

    loc: str
    loc_ans: str


class Layout(inputs.Layout):
    """What a record must have."""

    prompt: str
    target: str
    subject: str
    rephrase: str
    locality: list[Other]
    id: Id = ""
    source: str = ""


@dataclass
class QAEdit(WildTask):
    """Questions that models get wrong, to be given their true answer; 1,000 records in the authors' file.

    They are of SimpleQA, TriviaQA and NaturalQuestions, which ``source`` tells apart. A case is called by the
    position of its record, counted from 0, since ids come twice. The full set is on the hub: data=hf://WenDingY/QAEdit/...
    """

    protocol: Literal["teacher-forced", "wild", "both"] = "both"

    published, layout, passed = AUTHORS, Layout, ("id", "source")
    sample = "qaedit"
    asks: ClassVar[str] = (
        f"{FORCED}five questions of NaturalQuestions with their gold answers (neighborhood). {OF_BOTH}"
    )
    version: ClassVar[str] = "0.1"
    metrics = ("token-accuracy", "accuracy", "unchanged", "wild")
    citation = WILD

    def _wrong(self, record: Record) -> Iterator[str]:
        yield from unplaced("prompt", record["prompt"], record["subject"])

    def _case(self, name: str, record: Record, position: int) -> Case:
        before, _, behind = record["prompt"].rpartition(record["subject"].strip())
        request = Request(f"{before}{SUBJECT}{behind}", record["subject"], record["target"])
        asked = [
            ("efficacy", record["prompt"], record["target"]),
            ("paraphrase", record["rephrase"], record["target"]),
            *(("neighborhood", other["loc"], other["loc_ans"]) for other in record["locality"]),
        ]
        tags = {"source": record["source"]} if record.get("source") else {}
        return Case(name, (request,), answered(asked), tags)
