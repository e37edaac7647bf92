"""Level 3, second half: what honest runs seldom have. Nothing here rejects; a human looks at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scipy.stats import mannwhitneyu

from edit_harness.cases import Scores
from edit_harness.encoding import decode_answer
from edit_harness.folder.record import INVALID, OK, Record

from . import names
from .evidence import Evidence
from .findings import Check, Flag, Remark, shown

FEW = 10
"""Below so many rows nothing can be said."""
MANY = 100
"""Cases of which not all can have shared their forward passes, and so their times."""
GRIDS = (1e-1, 1e-2, 1e-3, 1e-4)
"""Steps, in nats, that no measured value keeps to."""
MEASURABLE = 1e6
"""Nats beyond which a log-probability tells nothing of steps, whatever it is."""
MANY_FAILED, MANY_UNMOVED = 0.05, 0.5
"""Shares of cases."""
CHANCE = 1e-3
"""How unlikely a pattern has to be to be told."""


def times(evidence: Evidence) -> Iterator[Remark]:
    """Check that edits and measurements take some time, and not always the same."""
    batches = evidence.regime.mode == "batch"  # one edit, whose time its cases share
    for part in ("edit", "evaluate"):
        taken = [record.seconds.get(part, 0.0) for record in _good(evidence)]
        if len(taken) < FEW:
            continue
        if min(taken) < 0:
            yield Flag(f"{part}: less than no time")
        elif part == "evaluate" and max(taken) == 0:
            yield Flag("measuring took no time")
        elif part == "edit" and batches:
            continue
        elif len(taken) >= MANY and len(set(taken)) == 1 and max(taken) > 0:
            yield Flag(f"{part}: every case took exactly {taken[0]:g} s")


def grid(evidence: Evidence) -> Iterator[Remark]:
    """Check that log-probabilities after the edits are not rounded."""
    found = [part for record in _good(evidence) for part in _logprobs(record.after)]
    found = [part for part in found if abs(part) < MEASURABLE]
    for step in GRIDS:
        if len(found) >= FEW and all(abs(v / step - round(v / step)) < 1e-6 for v in found):
            yield Flag(
                f"all {len(found)} log-probabilities after the edits are multiples of {step:g}"
            )
            return


def unmoved(evidence: Evidence) -> Iterator[Remark]:
    """Check that most edits change something."""
    rows = _good(evidence)
    still = sum(record.noop for record in rows)
    if len(rows) >= FEW and still > MANY_UNMOVED * len(rows):
        yield Flag(f"{still} of {len(rows)} edits changed no answer")


def failures(evidence: Evidence) -> Iterator[Remark]:
    """Check that few cases fail, and not those that are hard."""
    rows = [record for record in evidence.records if record.status != INVALID]
    failed = [record for record in rows if record.status != OK]
    if len(failed) > MANY_FAILED * len(rows):
        kinds = Counter(record.status for record in failed)
        said = ", ".join(f"{count} {status}" for status, count in kinds.most_common())
        yield Flag(f"{len(failed)} of {len(rows)} cases failed: {said}")
    hard, easy = ([_first(record) for record in some if _logprobs(record.before)]
                  for some in (failed, [r for r in rows if r.status == OK]))  # fmt: skip
    if len(hard) >= FEW and len(easy) >= FEW and mannwhitneyu(hard, easy).pvalue < CHANCE:
        yield Flag("the cases that failed are of another difficulty than the rest")


def retries(evidence: Evidence) -> Iterator[Remark]:
    """Check that cases are tried once, and rows are not withdrawn."""
    tried = {row["case"] for row in evidence.rows.kept() if row["try"] > 1}
    if tried:
        yield Flag(f"{len(tried)} cases were tried more than once, such as {shown(min(tried))!r}")
    if withdrawn := list(evidence.rows.withdrawals):
        why = shown(withdrawn[0]["why"])
        yield Flag(f"rows were withdrawn {len(withdrawn)} times, the first for: {why}")


def declared(evidence: Evidence) -> Iterator[Remark]:
    """Check that editor and model are called what they are, by the submission and the manifest."""
    name, weights = evidence.identity.editor.name, names.model(evidence)
    said = (
        ("submission.json", "editor", evidence.submission["editor"], name),
        ("manifest.json", "editor", evidence.manifest.label, name),
        ("submission.json", "model", evidence.submission["model"], weights),
        ("manifest.json", "model", evidence.manifest.model.name, weights),
    )
    for file, what, text, own in said:
        bare = text.partition("[")[0] if what == "editor" else text
        if bare != own:
            yield Flag(f"{file} calls the {what} {shown(text)}; it is {shown(own)}")
    if name not in {component.name for component in evidence.plugins.of_kind("editor")}:
        yield Flag(f"editor {shown(name)} is not bundled: what it is shows in a replay only")


def _good(evidence: Evidence) -> list[Record]:
    return [record for record in evidence.records if record.status == OK]


def _scores(answer: Any) -> bool:
    return isinstance(answer, dict) and "logprobs" in answer


def _logprobs(answers: Sequence[Any]) -> list[float]:
    scores = [decode_answer(answer) for answer in answers if _scores(answer)]
    return [
        part
        for answer in scores
        if isinstance(answer, Scores)
        for logprobs in answer.logprobs
        for part in logprobs
        if part is not None
    ]


def _first(record: Record) -> float:
    """Return how likely the unedited model found the first candidate of all, in nats."""
    return _logprobs(record.before)[0]


CHECKS = (
    Check("3.6", "times", times),
    Check("3.7", "grid", grid),
    Check("3.9", "unmoved", unmoved),
    Check("3.11", "failures", failures),
    Check("3.12", "retries", retries),
    Check("3.13", "declared", declared),
)
