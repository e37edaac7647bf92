"""Cases and answers as JSON, and back; and whether two answers differ."""

from __future__ import annotations

import math
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
    """Return an answer as JSON-ready data, a divergence as a list; None for what is never stored."""
    if isinstance(answer, Divergence):
        return finite(astuple(answer))
    if isinstance(answer, Text):
        told = {"text": answer.text, **({"tokens": list(answer.tokens)} if answer.tokens else {})}
        if (verdict := answer.verdict) is None:
            return told
        # Without what most do not have: a judge that is a model says more.
        said = {name: value for name, value in vars(verdict).items() if value not in ("", {}, None)}
        return {**told, "verdict": {**said, "score": verdict.score}}
    if isinstance(answer, Graded):
        marks = {name: finite(vars(each)) for name, each in answer.marks.items()}
        missing = {"left_out": dict(answer.left_out)} if answer.left_out else {}
        return {"documents": answer.documents, "marks": marks, **missing}
    return None if isinstance(answer, Distribution) else finite(vars(answer))


def decode_answer(data: Mapping[str, Any] | Sequence[Any] | None) -> Answer | None:
    """Return the answer that `encode_answer` stored."""
    if data is None:
        return None
    if not isinstance(data, Mapping):
        return Divergence(*data)
    if "marks" in data:
        marks = {
            name: Marks(tuple(its["values"]), tuple(its["weights"]), its["how"], its["better"])
            for name, its in data["marks"].items()
        }
        return Graded(data["documents"], marks, data.get("left_out", {}))
    if "logprobs" in data:
        return Scores(**{name: tuple(map(tuple, data[name])) for name in data})
    verdict = data.get("verdict")
    made = Verdict(**verdict) if verdict else None
    return Text(data["text"], made, tuple(data.get("tokens", ())))


def plain(case: Case) -> dict[str, Any]:
    """Return a case's fields, but for tags that its requests do not have: digests of before there were any stay."""
    data = asdict(case)
    for request in data["requests"]:
        if not request["tags"]:
            del request["tags"]
    return data


def encode_case(case: Case) -> dict[str, Any]:
    """Return a case as JSON-ready data."""
    data = plain(case)
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


VISIBLE, FAR = 5e-4, 1e-2
"""What a probability changes by to be another number in a table, in %; how far a distribution moves
that is another one, in nats."""


def unchanged(before: Sequence[Answer | None], after: Sequence[Answer | None]) -> bool:
    """Tell whether an edit changed no answer: what `Record.noop` says.

    Texts are the same, and so are the likeliest tokens and the likeliest candidate; no probability changes by `VISIBLE`, no divergence comes
    to `FAR`.
    """
    return all(map(_same, before, after))


def _same(one: Answer | None, other: Answer | None) -> bool:
    if isinstance(one, Scores) and isinstance(other, Scores):
        if _decided(one) != _decided(other):
            return False
        sides = ([p for part in side.logprobs for p in part] for side in (one, other))
        return all(abs(math.exp(a) - math.exp(b)) < VISIBLE for a, b in zip(*sides, strict=True))
    if isinstance(one, Divergence) and isinstance(other, Divergence):
        return max(abs(one.forward - other.forward), abs(one.reverse - other.reverse)) < FAR
    if isinstance(one, Text) and isinstance(other, Text):
        return one.text == other.text
    return isinstance(one, Distribution | None) or one == other


def _decided(scores: Scores) -> object:
    likeliest = min(range(len(scores.tokens)), key=scores.nll, default=0)
    return scores.tokens, scores.argmax, likeliest
