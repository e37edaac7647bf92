"""Are generated answers right? The scores of WILD (Yang et al., 2025), and how far teacher forcing flatters them.

Texts are those of `Generate` with several stops. They are compared with the edit's target once normalised: lower
case, without punctuation (ASCII's) and the words a, an and the, blanks joined, in this order. A target of which that
leaves nothing is compared in lower case alone, so that no empty answer is right.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from edit_harness import Answer, Case, Generate, Measure, Probe, Scores, Text
from edit_harness.stats import column_means, estimates
from edit_harness_plugins.citations import WILD

from .answers import Sides, counted, means
from .preference import agreement, right_object

if TYPE_CHECKING:
    import numpy as np

NAMES = {"efficacy": "Rel", "paraphrase": "Gen"}
PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PROMPTS = {"Rel": "the edited prompt", "Gen": "its paraphrases"}


def normalised(text: str) -> str:
    """Return a text as answers are compared."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def compared(target: str, text: str) -> tuple[str, str]:
    """Return target and text normalised; in lower case alone where nothing of the target would be left, as of "A"."""
    if whole := normalised(target):
        return whole, normalised(text)
    return " ".join(target.lower().split()), " ".join(text.lower().split())


def exact(target: str, text: str) -> bool:
    """Tell whether a text is the target, once both are normalised."""
    wanted, said = compared(target, text)
    return wanted == said


def contained(target: str, text: str) -> bool:
    """Tell whether the words of the target stand in a text one after another, once both are normalised."""
    wanted, said = compared(target, text)
    return f" {wanted} " in f" {said} "


def asked(case: Case) -> list[str]:
    """Return for every probe the role that it has in the wild; empty for what is no answer in the wild."""
    return [
        probe.role if isinstance(probe.query, Generate) and isinstance(probe.query.stop, tuple) else ""
        for probe in case.probes
    ]  # fmt: skip


GAP = (-1.0, 1.0)
"""The limits of a difference of shares."""
HEADS = ("teacher-forced", "in the wild", "difference")
INTERVAL = "99% CI over cases"
TITLE = "Teacher forcing (ET, PT) beside answers in the wild (EM)"
SCORES = {
    "EM": "answers that are the target",
    "in": "answers that have the target in them",
    "judge": "answers that the judge calls right",
}
SOURCE = "Yang et al. (2025), section 3"
OURS = {"in": "ours, beside their EM"}
"""Where a score is from that is not theirs."""
FRAMED = "with context=qa_inst the answers alone are framed, so that the difference is that of the context too"


def _measures() -> Iterator[tuple[str, Measure]]:
    for score, formula in SCORES.items():
        for role, name in NAMES.items():
            told = f"share of {formula}, {PROMPTS[name]}"
            source = OURS.get(score, SOURCE)
            yield f"{name}-{score}", Measure(told, source=source, probes=(role,))
    told = (
        "share of generated tokens that are as before the edit, of the longer answer; other prompts"
    )
    more = f"{SOURCE}; their code has no rule for answers of unequal length"
    yield "Loc-same", Measure(told, source=more, probes=("neighborhood",))
    ours = f"ours, of both protocols of Yang et al. (2025); {FRAMED}"
    for role, name in NAMES.items():
        told = f"token accuracy under teacher forcing less {name}-EM, by case, {PROMPTS[name]}"
        yield f"{name}-gap", Measure(told, "", range=GAP, source=ours, probes=(role,))


class Wild(Sides):
    """Answers as a user gets them: exact match is the score of record; the judge's stands beside it, where one was asked."""

    citation = WILD
    measures: ClassVar[Mapping[str, Measure]] = dict(_measures())

    def read(self, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
        """Return the mean of each score over the prompts of a role, and how far the protocols are apart."""
        found = means(self._scores(case, answers))
        forced = means(
            (name, agreement(answer.tokens[0], answer.argmax[0]))
            for name, answer in zip(map(_forced, case.probes), answers, strict=True)
            if name and isinstance(answer, Scores)
        )
        apart = {f"{n}-gap": forced[n] - found[f"{n}-EM"] for n in forced if f"{n}-EM" in found}
        return found | apart

    def _scores(self, case: Case, answers: Sequence[Answer]) -> Iterator[tuple[str, float]]:
        target = case.requests[0].target_new
        for role, answer in zip(asked(case), answers, strict=True):
            if role in NAMES and isinstance(answer, Text):
                name = NAMES[role]
                yield f"{name}-EM", exact(target, answer.text)
                yield f"{name}-in", contained(target, answer.text)
                if (verdict := counted(answer)) and verdict.score is not None:
                    yield f"{name}-judge", verdict.score

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the values before the edit and after it, and what it has left as it was."""
        same = [
            agreement(first.tokens, last.tokens)
            for role, first, last in zip(asked(case), before, after, strict=True)
            if role == "neighborhood" and isinstance(first, Text) and isinstance(last, Text)
        ]
        kept = {"post_Loc-same": fmean(same)} if same else {}
        return super().measure(case, before, after) | kept

    def tables(
        self, cases: Sequence[Case], columns: Mapping[str, np.ndarray]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the table of both protocols side by side, after the edit, where both were asked."""
        found = column_means(columns)
        rows = []
        for name, prompts in PROMPTS.items():
            if (gap := f"post_{name}-gap") in found:
                apart, wild = found[gap], found[f"post_{name}-EM"]
                means = (100 * (wild + apart), 100 * wild, 100 * apart)
                one = estimates({gap: columns[gap]}, column_means, {gap: GAP})[gap]
                row = {"After the edit, %": prompts, **dict(zip(HEADS, means, strict=True))}
                ends = f"{100 * one.low:.1f} – {100 * one.high:.1f}"
                rows.append({**row, INTERVAL: None if math.isnan(one.low) else ends})
        return {TITLE: rows} if rows else {}

    def wrong(self, case: Case) -> dict[str, float]:
        """Count a failed edit as a failure everywhere; of both protocols, so that they are not apart."""
        roles, found = asked(case), dict[str, float]()
        for probe, role in zip(case.probes, roles, strict=True):
            if role in NAMES:
                scores = [score for score in SCORES if probe.key or score != "judge"]
                found |= {f"{NAMES[role]}-{score}": 0.0 for score in scores}
            elif role:
                found["Loc-same"] = 0.0
        both = {_forced(probe) for probe in case.probes} & {NAMES.get(role, "") for role in roles}
        return found | {f"{name}-gap": 0.0 for name in both - {""}}


def _forced(probe: Probe) -> str:
    """Return what a probe is called that is scored by teacher forcing, and is about the edit; else nothing."""
    return NAMES.get(probe.role, "") if right_object(probe) == 0 else ""
