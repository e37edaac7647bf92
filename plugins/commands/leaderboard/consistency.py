"""Level 3, first half: whether each row can be what a measurement gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

from edit_harness.cases import (
    Case,
    Choose,
    Divergence,
    Drift,
    Generate,
    Graded,
    Probe,
    Scores,
    Text,
    is_finite,
    unchanged,
)
from edit_harness.encoding import decode_answer
from edit_harness.errors import HarnessError
from edit_harness.folder.records import INVALID, OK, Record
from edit_harness.run import control
from edit_harness.run.values import values

from .baselines import line
from .data import NO_BASELINE
from .evidence import Evidence
from .findings import Check, Remark, Unchecked, shown
from .numbers import differing

ROUNDING = 1e-6
"""How far a log-probability may be above 0, or a divergence below, in nats."""
NEEDS_ANSWERS = frozenset({OK, "nonfinite"})
"""Statuses of cases that were asked."""


def shapes(evidence: Evidence) -> Iterator[Remark]:
    """Check that each answer is of the kind that its probe asks for, with numbers for each token."""
    for record in evidence.everything:
        if (case := evidence.case(record)) is None:
            continue
        for side, answers in (("before", record.before), ("after", record.after)):
            if len(answers) != len(case.probes) and (answers or record.status in NEEDS_ANSWERS):
                yield _at(record, f"{len(answers)} answers {side} to {len(case.probes)} probes")
                return
            for probe, answer in zip(case.probes, answers, strict=False):
                if why := _misshapen(probe, answer):
                    yield _at(record, f"{side}, {shown(probe.role)}: {why}")
                    return


def _misshapen(probe: Probe, answer: Any) -> str:
    """Return what is wrong with the form of an answer; empty if nothing is."""
    if isinstance(probe.query, Choose):
        if probe.role == control.ROLE and isinstance(answer, dict) and "marks" in answer:
            return ""  # of a control with code of its own: what is no number fails 2.2
        return _misshapen_scores(len(probe.query.candidates), answer)
    if isinstance(probe.query, Drift):
        whole = isinstance(answer, list) and len(answer) == 3 and type(answer[2]) is int
        numbers = whole and all(part is None or type(part) in (int, float) for part in answer[:2])
        return "" if numbers else "no divergence"
    if isinstance(probe.query, Generate):
        known = isinstance(answer, dict) and type(answer.get("text")) is str
        return "" if known and answer.keys() <= {"text", "verdict"} else "no text"
    return "" if answer is None else "a distribution is never stored"


def _misshapen_scores(candidates: int, answer: Any) -> str:
    names = ("argmax", "logprobs", "tokens")
    if not isinstance(answer, dict) or sorted(answer) != list(names):
        return "no scores"
    parts = [answer[name] for name in names]
    if any(type(part) is not list or len(part) != candidates for part in parts):
        return f"no scores of {candidates} candidates"
    for likeliest, logprobs, tokens in zip(*parts, strict=True):
        if any(type(each) is not list for each in (likeliest, logprobs, tokens)):
            return "no scores of tokens"
        if not len(likeliest) == len(logprobs) == len(tokens) or not tokens:
            return "not as many log-probabilities as tokens"
        if any(type(token) is not int or token < 0 for token in (*likeliest, *tokens)):
            return "tokens that are none"
        if any(type(value) not in (int, float, type(None)) for value in logprobs):
            return "log-probabilities that are no numbers"
    return ""


def tokens(evidence: Evidence) -> Iterator[Remark]:
    """Check that candidates consist of the tokens that the model's tokenizer gives, before and after."""
    if evidence.baseline is None:
        yield Unchecked(NO_BASELINE)
        return
    for record, case in _asked(evidence):
        published = evidence.baseline.lines.get(case.id)
        for answers in (record.before, record.after):
            if not answers or published is None or not published.tokens:
                continue
            found = line(case, [decode_answer(answer) for answer in answers])
            if found.tokens != published.tokens:
                yield _at(record, "the candidates' tokens are others than the tokenizer gives")
                return


def bounds(evidence: Evidence) -> Iterator[Remark]:
    """Check that log-probabilities are at most 0, those of rival tokens fit together, divergences are at least 0."""
    for record in evidence.everything:
        for answer in map(decode_answer, (*record.before, *record.after)):
            if why := _impossible(answer):
                yield _at(record, why)
                return


def _impossible(answer: Any) -> str:
    """Return why no model can give an answer; empty if one can. NaN, which is None, is no matter here."""
    if isinstance(answer, Scores):
        known = [part for logprobs in answer.logprobs for part in logprobs if part is not None]
        if any(part > ROUNDING for part in known):
            return f"a log-probability of {max(known):.4g}"
        first = {
            tokens[0]: logprobs[0]
            for tokens, logprobs in zip(answer.tokens, answer.logprobs, strict=True)
            if logprobs[0] is not None
        }
        if (total := math.fsum(map(math.exp, first.values()))) > 1 + 1e-4:
            return f"probabilities of rival tokens with a sum of {total:.4g}"
    if isinstance(answer, Divergence):
        known = [part for part in (answer.forward, answer.reverse) if part is not None]
        if any(part < -ROUNDING for part in known):
            return f"a divergence of {min(known):.4g}"
    if isinstance(answer, Graded):
        likelihoods = [marks.values for marks in answer.marks.values() if marks.how != "mean"]
        if any(part is not None and part > ROUNDING for part in chain(*likelihoods)):
            return "a document with a log-likelihood above 0"
    return ""


def follow(evidence: Evidence) -> Iterator[Remark]:
    """Check that the values of each row are what the metrics make of its answers."""
    other: list[str] = []
    for record, case in _asked(evidence):
        answers = [[decode_answer(a) for a in side] for side in (record.before, record.after)]
        try:
            computed = values(case, (answers[0], answers[1]), evidence.metrics, record.status)  # type: ignore[arg-type]
        except HarnessError as error:
            yield Unchecked(
                f"the values of case {shown(case.id)} cannot be computed: {error.cause}"
            )
            return
        if where := next(differing(dict(record.values), computed), ""):
            other.append(_at(record, where))
    if other:
        yield f"{len(other)} rows have values that do not follow from their answers; {other[0]}"


def flags(evidence: Evidence) -> Iterator[Remark]:
    """Check that a row's status and its no-op flag agree with its answers."""
    for record, _ in _asked(evidence):
        finite = all(_finite(answer) for answer in record.after)
        if record.status == OK and not finite:
            yield _at(record, "its status is ok, and an answer after the edit is not finite")
            return
        if record.status == "nonfinite" and finite:
            yield _at(record, "its status is nonfinite, and all its answers are finite")
            return
        if not all(map(_finite, record.before)):
            yield _at(record, "the unedited model answered with NaN")
            return
        before, after = (
            [decode_answer(answer) for answer in side] for side in (record.before, record.after)
        )
        graded = any(isinstance(answer, Graded) for answer in after)
        if record.noop != (record.status == OK and not graded and unchanged(before, after)):
            yield _at(record, f"noop is {str(record.noop).lower()}, and the answers say otherwise")
            return


def _finite(answer: Any) -> bool:
    """Tell whether an answer is; NaN is None in JSON."""
    decoded = decode_answer(answer)
    if isinstance(decoded, Scores):
        return all(part is not None for logprobs in decoded.logprobs for part in logprobs)
    if isinstance(decoded, Divergence):
        return decoded.forward is not None and decoded.reverse is not None
    if isinstance(decoded, Graded):
        values = chain(*(marks.values for marks in decoded.marks.values()))
        return all(value is not None for value in values)
    return not isinstance(decoded, Text) or is_finite(decoded)


def _asked(evidence: Evidence) -> Iterator[tuple[Record, Case]]:
    """Yield the records of use with their cases, controls' among them."""
    for record in evidence.everything:
        if record.status != INVALID and (case := evidence.case(record)):
            yield record, case


def _at(record: Record, why: str) -> str:
    where = "a control" if control.is_control(record.case) else f"case {shown(record.case)!r}"
    return f"{where}: {why}"


CHECKS = (
    Check("3.1", "shapes", shapes),
    Check("3.2", "tokens", tokens),
    Check("3.3", "bounds", bounds),
    Check("3.4", "values", follow),
    Check("3.5", "flags", flags),
)
