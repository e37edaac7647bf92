"""Cases and answers as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from ..data import (
    Answer,
    Case,
    Choose,
    Distribution,
    Divergence,
    Drift,
    Generate,
    Graded,
    Key,
    Marks,
    NextToken,
    Probe,
    Request,
    Scores,
    Text,
    Verdict,
)
from ..files import finite

QUERIES: dict[str, Any] = {
    query.__name__.lower(): query for query in (Choose, Drift, NextToken, Generate)
}


def encode_answer(answer: Answer) -> dict[str, Any] | list[Any] | None:
    """Return an answer as JSON-ready data; None for what is never stored.

    A divergence is a list of its numbers: a case may have twenty, before and after.
    """
    if isinstance(answer, Divergence):
        return finite(astuple(answer))
    if isinstance(answer, Text):
        verdict = {"verdict": _encode_verdict(answer.verdict)} if answer.verdict else {}
        return {"text": answer.text, **verdict}
    if isinstance(answer, Graded):
        marks = {name: finite(vars(each)) for name, each in answer.marks.items()}
        missing = {"left_out": dict(answer.left_out)} if answer.left_out else {}
        return {"documents": answer.documents, "marks": marks, **missing}
    return None if isinstance(answer, Distribution) else finite(vars(answer))


def _encode_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict without what most do not have: a judge that is a model says more."""
    said = {name: value for name, value in vars(verdict).items() if value not in ("", {}, None)}
    return {**said, "score": verdict.score}


def decode_answer(data: Mapping[str, Any] | Sequence[Any] | None) -> Answer | None:
    """Return the answer that `encode_answer` stored."""
    if data is None:
        return None
    if not isinstance(data, Mapping):
        return Divergence(*data)
    if "marks" in data:
        marks = {name: _decode_marks(each) for name, each in data["marks"].items()}
        return Graded(data["documents"], marks, data.get("left_out", {}))
    if "logprobs" in data:
        return Scores(**{name: tuple(map(tuple, data[name])) for name in data})
    verdict = data.get("verdict")
    return Text(data["text"], Verdict(**verdict) if verdict else None)


def _decode_marks(data: Mapping[str, Any]) -> Marks:
    values, weights = (tuple(data[name]) for name in ("values", "weights"))
    return Marks(values, weights, data["how"], data["better"])


def encode_case(case: Case) -> dict[str, Any]:
    """Return a case as JSON-ready data."""
    data = asdict(case)
    for probe, own in zip(case.probes, data["probes"], strict=True):
        own["query"]["ask"] = type(probe.query).__name__.lower()
    return data


def decode_case(data: Mapping[str, Any]) -> Case:
    """Return the case that `encode_case` stored."""
    return Case(
        data["id"],
        tuple(Request(**request) for request in data["requests"]),
        tuple(_decode_probe(probe) for probe in data["probes"]),
        data["tags"],
        data["problem"],
    )


def _decode_probe(data: Mapping[str, Any]) -> Probe:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in data["query"].items()}
    query = QUERIES[str(fields.pop("ask"))](**fields)
    key = Key(**data["key"]) if data["key"] else None
    return Probe(data["role"], query, data["tags"], key)
