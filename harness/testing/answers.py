"""Made-up answers to the probes of a case, so that metrics can be tried without a model."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import numpy as np

from ..cases import (
    Answer,
    Case,
    Choose,
    Distribution,
    Divergence,
    Drift,
    Generate,
    Key,
    NextToken,
    Probe,
    Query,
    Scores,
    Text,
    Verdict,
)
from .facts import FACTS

ROLES = ("efficacy", "paraphrase", "neighborhood", "neighborhood-plus", "attribute")


def made_up(roles: Iterable[str]) -> list[Case]:
    """Return cases whose probes have these roles, or else the usual ones; each asks in one way."""
    return [
        Case(f"made-up-{number}", FACTS[:1], tuple(Probe(r, query, key=key) for r in sorted(roles)))
        for roles in [set(roles) or set(ROLES)]
        for number, (query, key) in enumerate(_ways() * 3)
    ]


def _ways() -> list[tuple[Query, Key | None]]:
    fact = FACTS[0]
    key = Key("match", fact.target_new, fact.target_true, {"how": "within"})
    return [
        (Choose(fact.text, (fact.target_new, fact.target_true)), None),
        (Drift(fact.text), None),
        (NextToken(fact.text), None),
        (Generate(fact.text), key),
    ]


def invented(case: Case, seed: int) -> list[Answer]:
    """Return made-up answers to the probes of a case, judged where a probe has a key."""
    rng = random.Random(seed)
    return [_judged(_invent(probe.query, rng), probe, rng) for probe in case.probes]


def contents(value: Any) -> Any:
    """Return what a case, answers or replies consist of now, comparable by ``==``."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if is_dataclass(value):
        return [(field.name, contents(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, Mapping):
        return [(key, contents(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [contents(item) for item in value]
    return value


def _judged(answer: Answer, probe: Probe, rng: random.Random) -> Answer:
    if probe.key is None or not isinstance(answer, Text):
        return answer
    status: Literal["decided", "undecided"] = rng.choice(["decided", "decided", "undecided"])
    score = float(status == "decided" and rng.random() < 0.5)
    verdict = Verdict(
        status,
        score,
        reverted=not score and rng.random() < 0.5,
        ratings={name: rng.choice([-1.0, 0.0, 1.0]) for name in probe.key.about.get("aspects", ())},
        served="a model",
        swapped=rng.choice([None, False, True]),
        usage={"tokens": rng.randint(1, 999), "usd": rng.random()},
    )
    return Text(answer.text, verdict)


def _tokens(text: str) -> tuple[int, ...]:
    """Return made-up tokens, which are a text's own: the same before an edit and after it."""
    rng = random.Random(text)
    return tuple(rng.randrange(100) for _ in range(rng.randint(1, 3)))


def _invent(query: Query, rng: random.Random) -> Answer:
    if isinstance(query, Choose):
        tokens = tuple(map(_tokens, query.candidates))
        return Scores(
            tokens=tokens,
            logprobs=tuple(tuple(-rng.expovariate(0.5) for _ in part) for part in tokens),
            argmax=tuple(tuple(rng.choice([t, t + 1]) for t in part) for part in tokens),
        )
    if isinstance(query, Drift):
        return Divergence(rng.expovariate(1), rng.expovariate(1), 1000)
    if isinstance(query, NextToken):
        logits = np.array([rng.gauss(0, 1) for _ in range(50)])
        log_partition = float(np.log(np.exp(logits).sum()))
        return Distribution((logits - log_partition).astype(np.float32), log_partition)
    return Text(" ".join(rng.choice(["the", "city", "of", "Ann", "is", "."]) for _ in range(20)))
