"""WikiBigEdit (Thede et al., 2025): what changed in Wikidata, as questions, to be written one batch on top of another.

A record is a case: a question, a rephrasing, and a question on something like it whose answer should stay. The
task is lifelong: the model is edited in sequence, a hundred cases at once, and measured on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from edit_harness import Case, Regime, Request
from edit_harness_plugins import inputs
from edit_harness_plugins.citations import WIKIBIGEDIT
from edit_harness_plugins.downloads import Remote

from ._files.published import Published
from ._files.records import Form, Record, cut_out, unplaced
from ._files.wild import FORCED, OF_BOTH, WildTask, answered

HUB = "https://huggingface.co/datasets/lukasthede/WikiBigEdit"
SHA256 = "0d8bd37239f9c6c0c2e34d4f95f59e749ab8cb9dccbf2517622da16386d9ca82"
AUTHORS = Published("WikiBigEdit", Remote((HUB,), "wikibigedit_3k.json", 1_269_200, SHA256), 3_000, SHA256)  # fmt: skip
BATCH, POINTS = 100, (100, 1_000, 10_000)


class Layout(inputs.Layout):
    """What a record must have."""

    prompt: str
    target_new: str
    rephrase_prompt: str
    locality_prompt: str
    locality_ground_truth: str
    subject: str | None = None
    """Where it is missing, or is not in the prompt, the request has none."""


class OnTheHub(inputs.Layout):
    """What a record must have in the authors' own files."""

    update: str
    ans: str
    rephrase: str
    subject: str | None = None
    loc: str | None = None
    loc_ans: str | None = None


NAMES = {
    "prompt": "update", "target_new": "ans", "rephrase_prompt": "rephrase", "locality_prompt": "loc",
    "locality_ground_truth": "loc_ans",
}  # fmt: skip
"""Our names of the fields, and those on the hub."""


def _subject(record: Record) -> str:
    """Return the subject, if it is one that the prompt names."""
    subject = (record.get("subject") or "").strip()
    return subject if subject in record["prompt"] else ""


def _renamed(record: Record) -> Record:
    return {**record, **{ours: record.get(theirs) or "" for ours, theirs in NAMES.items()}}


ON_THE_HUB = Form(OnTheHub, lambda record: (), _renamed)
"""Personas and chains of the authors' own files are not asked."""


@dataclass
class WikiBigEdit(WildTask):
    """Real changes of Wikidata by the thousand; 3,000 records in the file that papers share, 500,000 on the hub.

    A case is called by the position of its record, counted from 0. Papers use it by two protocols, never to be
    compared: token accuracy (UltraEdit, NAS) and exact match of answers of 32 tokens (LocFT).
    """

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), or a .json or .jsonl file, in the layout of wikibigedit_3k.json
    or of the hub's files: hf://lukasthede/WikiBigEdit/FILE@REVISION."""
    protocol: Literal["teacher-forced", "wild", "both"] = "both"

    published, layout, others = AUTHORS, Layout, (ON_THE_HUB,)
    passed = ("subject", "loc", "loc_ans")
    files = "3,000 in wikibigedit_3k.json; 500,000 on the hub, data=hf://lukasthede/WikiBigEdit/FILE@REVISION"
    sample, otherwise = "wikibigedit", "auto"
    asks: ClassVar[str] = (
        f"{FORCED}a question on another subject with its own answer (neighborhood). {OF_BOTH}"
    )
    version: ClassVar[str] = "0.1"
    metrics = ("token-accuracy", "accuracy", "unchanged", "wild")
    regime: ClassVar[Regime] = Regime("sequential", BATCH, checkpoints=POINTS, sample=500)
    citation = WIKIBIGEDIT

    def _wrong(self, record: Record) -> Iterator[str]:
        if subject := _subject(record):
            yield from unplaced("prompt", record["prompt"], subject)

    def _case(self, name: str, record: Record, position: int) -> Case:
        prompt, target, subject = record["prompt"], record["target_new"], _subject(record)
        request = Request.of(prompt, target)
        if subject:
            request = Request(cut_out(prompt, subject), subject, target)
        other = record["locality_prompt"], record["locality_ground_truth"]
        asked = [
            ("efficacy", prompt, target),
            ("paraphrase", record["rephrase_prompt"], target),
            *([("neighborhood", *other)] if all(other) else []),
        ]
        tags = {"tag": record["tag"]} if record.get("tag") else {}
        return Case(name, (request,), answered(asked), tags)
