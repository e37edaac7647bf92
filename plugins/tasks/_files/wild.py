"""Answers as a user gets them: the protocol of Yang et al. (2025), beside teacher forcing, for a task of questions.

What a task asks by teacher forcing of the edited prompt, its rephrasings and other questions is asked for a
continuation: greedy, and cut off before the first full stop, line break or end-of-text token. What the texts are
worth is measured by `edit_harness_plugins.metrics.wild`.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from edit_harness import Case, Choose, Generate, Key, Probe
from edit_harness.registry.settings import Count

from .published import FileTask
from .records import Entry

STOPS = (".", "\n")
LEFT_OUT = string.punctuation + string.whitespace
"""What exact match does not look at, so that an answer without it at the end is right."""
ASKED = ("efficacy", "paraphrase", "neighborhood")
CONTEXTS = {"question": "{}", "qa_inst": "Please answer the question:\n\nQ: {}\nA:"}
"""What stands around a prompt, in the paper's names; the third, a chat template, is --chat-template."""
FORCED = (
    "Each question is followed by one space and one answer, whose tokens are predicted one by one from the "
    "right ones before them, before the edit and after it: the edited question and its rephrasing, with the "
    "answer that is written, and "
)
OF_BOTH = (
    "With protocol=wild, the edited prompt, the rephrased and the other ones are continued instead, greedily, "
    "before the edit and after it; with protocol=both, too. The answer is what stands before the first full "
    "stop, line break or end of text, of 50 tokens at most. Right is the normalised target, exactly."
)


def answered(asked: Iterable[tuple[str, str, str]]) -> tuple[Probe, ...]:
    """Return probes of roles, questions and their right answers, for teacher forcing."""
    return tuple(Probe(role, Choose(text, (answer,))) for role, text, answer in asked)


@dataclass
class WildTask(FileTask):
    """A task that can be asked by teacher forcing, in the wild, or both on the same edits."""

    protocol: Literal["teacher-forced", "wild", "both"] = "teacher-forced"
    """"teacher-forced" (the target's own tokens are given, and its length), "wild" (answers are generated as a
    user gets them), or "both". Numbers of different protocols are never to be compared."""
    context: Literal["question", "qa_inst"] = "question"
    """In the wild: the bare prompt, or behind "Please answer the question". The edit's own prompt stays bare.
    With --chat-template, all of them are a user's message."""
    longest: Count = 50
    """Most new tokens of an answer in the wild: 50 in WILD, 32 in LocFT's tables on WikiBigEdit."""
    judged: bool = False
    """Whether a judge says as well if answers in the wild are right, by WILD's rules: --judge openai, hf; or score."""

    def __post_init__(self) -> None:
        if self.protocol == "teacher-forced":
            return
        context = "" if self.context == "question" else f" {self.context}"
        self.variant = f"[{self.protocol}{context}]"
        # Of the class, `metrics` names those that every run has.
        more = ["token-accuracy"] * (self.protocol == "both") + ["wild"] + ["judging"] * self.judged
        self.metrics = [*dict.fromkeys([*type(self).metrics, *more])]  # type: ignore[misc]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data; it may download them."""
        return (*super().notes, *([self._cut_off] if self._cut_off else []))

    @cached_property
    def _cut_off(self) -> str:
        if self.protocol == "teacher-forced":
            return ""
        targets = [r.target_new for case in super().made_of(self._entries) for r in case.requests]
        cut = sum(any(stop in target.rstrip(LEFT_OUT) for stop in STOPS) for target in targets)
        told = "have a full stop or a line break before their end: written so, an answer is cut off there and wrong"
        return f"{cut:,} of {len(targets):,} targets {told}" if cut else ""

    def made_of(self, entries: Sequence[Entry]) -> Iterator[Case]:
        """Yield the cases, in the order of the records, with the probes of the protocol."""
        cases = super().made_of(entries)
        return cases if self.protocol == "teacher-forced" else map(self._asked, cases)

    def _asked(self, case: Case) -> Case:
        wild = [
            Probe(probe.role, self._query(probe.query.prompt), key=self._key(case, probe))
            for probe in case.probes
            if isinstance(probe.query, Choose) and probe.role in ASKED
        ]
        both = self.protocol == "both"
        kept = [p for p in case.probes if both or isinstance(p.query, Generate)]
        return replace(case, probes=(*kept, *wild))

    def _query(self, prompt: str) -> Generate:
        framed = CONTEXTS[self.context].replace("{}", prompt)
        return Generate(framed, max_new_tokens=self.longest, stop=STOPS)

    def _key(self, case: Case, probe: Probe) -> Key | None:
        if not self.judged or probe.role == "neighborhood":
            return None
        return Key("match", case.requests[0].target_new, about={"how": "equal", "rules": "wild"})
