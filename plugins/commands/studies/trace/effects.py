"""Indirect effects with intervals: of one fact by token, of many facts by kind of token.

The indirect effect of a state is by how much putting it back raises the probability of the object
above that under noise; the total effect is what the noise takes away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edit_harness import stats
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.report.heatmaps import HeatMap

from .method import Fact, Traced

LEVEL = 0.99
ROLES = (
    "first subject token", "middle subject tokens", "last subject token",
    "first subsequent token", "further tokens", "last token",
)  # fmt: skip
"""Kinds of token, in the order of a prompt."""
FIRST, MIDDLE, LAST, NEXT, FURTHER, END = ROLES
WHAT = {"hidden": "a hidden state", "mlp": "MLP outputs", "attention": "attention outputs"}
DIFFERENCE = (-1.0, 1.0)
"""What an effect can be."""


@dataclass(frozen=True)
class Effects:
    """Estimates over noises of one fact, or over facts: ``over`` says which. All are of probabilities.

    ``indirect`` has rows by layers for each kind of state; where no fact has such a token, n is 0.
    """

    over: str
    rows: tuple[str, ...]
    clean: Estimate
    noised: Estimate
    total: Estimate
    indirect: Mapping[str, Sequence[Sequence[Estimate]]]


def of_fact(traced: Traced, tokens: Sequence[str]) -> Effects:
    """Return a fact's effects by token, over its noises; ``tokens`` are the prompt's, as texts."""
    subject = traced.fact.subject
    rows = [text + "*" * (i in subject) for i, text in enumerate(tokens)]
    clean = np.full(len(traced.noised), traced.clean)
    indirect = {k: v - traced.noised[:, None, None] for k, v in traced.restored.items()}
    found = _estimated("noises", rows, clean, traced.noised, indirect)
    return replace(found, clean=Estimate(traced.clean, math.nan, math.nan, 1))


def of_facts(traces: Sequence[Traced]) -> Effects:
    """Return effects by kind of token, over facts: of each its mean over noises and tokens."""
    clean = np.array([traced.clean for traced in traces])
    noised = np.array([traced.noised.mean() for traced in traces])
    indirect = {
        kind: np.array([_by_role(traced, kind) for traced in traces]) for kind in traces[0].restored
    }
    return _estimated("facts", ROLES, clean, noised, indirect)


def roles(fact: Fact) -> list[str]:
    """Return the kind of each token of the prompt, from the subject's first on.

    The subject's kinds come first where two fit: a subject of one token has its last one only, and
    a prompt that ends with its subject has no last token.
    """
    size, behind = len(fact.subject), len(fact.parts.prompt) - fact.subject.stop
    subject = [FIRST, *[MIDDLE] * (size - 2), LAST] if size > 1 else [LAST]
    after = [NEXT, *[FURTHER] * (behind - 2), END] if behind > 1 else [END] * behind
    return subject + after


def _by_role(traced: Traced, kind: str) -> np.ndarray:
    """Return the means of a fact's indirect effects, kinds of token by layers; NaN for no token."""
    effects = traced.restored[kind].mean(0) - traced.noised.mean()
    there = np.array(roles(traced.fact))
    own = effects[traced.fact.subject.start :]
    missing = np.full(own.shape[1], math.nan)
    return np.array([own[there == r].mean(0) if (there == r).any() else missing for r in ROLES])


def _estimated(
    over: str,
    rows: Sequence[str],
    clean: np.ndarray,
    noised: np.ndarray,
    indirect: Mapping[str, np.ndarray],
) -> Effects:
    """Return the estimates of values by noise or fact, which is their first axis."""
    columns = {"clean": clean, "noised": noised, "total": clean - noised}
    for kind, values in indirect.items():
        for row, layer in np.ndindex(values.shape[1:]):
            columns[f"{kind} {row} {layer}"] = values[:, row, layer]
    limits = dict.fromkeys(columns, DIFFERENCE) | {"clean": stats.SHARE, "noised": stats.SHARE}
    found = stats.estimates(columns, stats.column_means, limits, level=LEVEL)
    grids = {
        kind: [
            [found[f"{kind} {row} {layer}"] for layer in range(values.shape[2])]
            for row in range(values.shape[1])
        ]
        for kind, values in indirect.items()
    }
    return Effects(over, tuple(rows), found["clean"], found["noised"], found["total"], grids)


def maps(effects: Effects, window: int) -> list[HeatMap]:
    """Return a heat map for each kind of state; all have one scale, from 0 to the largest effect."""
    every = [e.value for grid in effects.indirect.values() for line in grid for e in line if e.n]
    average = "Average indirect effect" if effects.over == "facts" else "Indirect effect"
    made = []
    for kind, grid in effects.indirect.items():
        around = "" if kind == "hidden" or window == 1 else f" of {window} layers around each"
        made.append(
            HeatMap(
                f"{average} of {WHAT[kind]}{around}",
                effects.rows,
                [str(i) for i in range(len(grid[0]))],
                [[e.value if e.n else None for e in line] for line in grid],
                x="layer",
                y="token",
                form="z.2f",
                least=0.0,
                most=max(0.0, *every),
            )
        )
    return made


def shown(estimate: Estimate) -> str:
    """Return an estimate as a text, with its interval if it has one."""
    value = f"{estimate.value:z.2f}"
    if math.isnan(estimate.low):
        return value
    return f"{value} ({estimate.low:z.2f} to {estimate.high:z.2f})"


def as_data(effects: Effects) -> dict[str, Any]:
    """Return all estimates as data, of each its value, interval and how many it is over."""
    chance = {"clean": effects.clean, "noised": effects.noised, "total_effect": effects.total}
    return {
        "over": effects.over,
        "level": LEVEL,
        "probability": {name: vars(estimate) for name, estimate in chance.items()},
        "rows": list(effects.rows),
        "indirect_effects": {
            kind: [[vars(e) for e in line] for line in grid]
            for kind, grid in effects.indirect.items()
        },
    }
