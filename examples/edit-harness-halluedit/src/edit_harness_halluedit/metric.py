"""The metric ``halluedit``: shares of answers that a judge calls right, by kind of question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import ClassVar

from edit_harness import Answer, Case, Measure, Metric, Probe, Text

KINDS = {
    "efficacy": "Eff",
    "paraphrase": "Gen-rephrased",
    "yes": "Gen-yes",
    "no": "Gen-no",
    "choice": "Gen-choice",
    "reversed": "Gen-reversed",
    **{f"hop-{n}": f"Port-{n}" for n in range(2, 7)},
    "locality": "Loc",
}
WHOLE = ("Eff", "Gen", "Port", "Loc")
PAPER = "Huang et al. (2025), section 2"


def _measure(name: str) -> Measure:
    roles = tuple(r for r, own in KINDS.items() if own == name or own.startswith(f"{name}-"))
    told = "as before the edit" if name == "Loc" else "right"
    return Measure(
        f"share of answers that the judge calls {told}: {', '.join(roles)}",
        detail=name not in WHOLE,
        source=PAPER,
        probes=roles,
    )


class Corrected(Metric):
    """Right answers to the edited question, to it in other forms, over further hops; what stays."""

    citation = "Huang, Chen, Xu, Payani, Shu: Can Knowledge Editing Really Correct Hallucinations? ICLR 2025"
    measures: ClassVar[Mapping[str, Measure]] = {
        name: _measure(name) for name in dict.fromkeys((*WHOLE, *KINDS.values()))
    }

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the shares before and after the edit; before it, there is no Loc."""
        return _shares("pre", case, before) | _shares("post", case, after)

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count a failed edit as wrong everywhere."""
        values = _shares("pre", case, before) if before else {}
        asked = {name for probe in case.probes for name in _names(probe)}
        return values | {f"post_{name}": 0.0 for name in asked}


def _names(probe: Probe) -> Iterator[str]:
    """Yield the share of a probe's kind, and the one over several kinds."""
    if probe.key and (name := KINDS.get(probe.role)):
        yield from dict.fromkeys((name, name.partition("-")[0]))


def _shares(when: str, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for probe, answer in zip(case.probes, answers, strict=True):
        verdict = answer.verdict if isinstance(answer, Text) else None
        if verdict and verdict.counts:
            for name in _names(probe):
                found.setdefault(f"{when}_{name}", []).append(verdict.score or 0.0)
    return {name: fmean(scores) for name, scores in found.items()}
