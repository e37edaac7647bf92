"""Tells by algebra whether a formula, a number or a description is right.

Deterministic, offline, and never by evaluating a text: replies are read by a grammar of our own
(see `grammar`) and compared by sympy, in a process that can be given up (see `pool`). What cannot be
read is ``undecided``, which counts as wrong; no language model is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

from edit_harness import Judge, Key, Reply, Verdict
from edit_harness.registry.settings import Positive

from ..keys import check, refuse
from .pool import shared

FORMULA = "lhs, variables (name: meaning), derived (name: formula), constraints"
NEEDS: Mapping[str, Mapping[str, type]] = {
    "formula": {"lhs": str, "variables": dict},
    "description": {"lhs": str, "variables": dict},
    "number": {},
}
"""What `Key.about` must have, by kind."""


@dataclass
class Symbolic(Judge):
    """Formulas are compared as algebra, numbers within a tolerance.

    A reply is right if it equals the key at 20 fixed points within 1e-9, in whatever letters; a
    number within 1e-6, or 1e-2 if the key is irrational.
    """

    seconds: Positive = 5.0
    """How long a reply may take; then it is undecided."""

    version: ClassVar[str] = "1"
    citation: ClassVar[str] = "Meurer et al., 2017 (sympy)"
    kinds: ClassVar[Mapping[str, str]] = {
        "formula": FORMULA,
        "description": FORMULA,
        "number": "unit; steps: whether the reply is a worked solution, whose final value counts",
        "same": "of: formula, description or number, and what that needs; right is another reply",
    }

    @property
    def provenance(self) -> Mapping[str, str]:
        """The version of the library that compares."""
        return {"sympy": version("sympy")}

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply."""
        for reply in replies:
            _check(reply.key)
        worker = shared(os.getpid())
        return [
            worker.judge(
                {**vars(r.key), "about": dict(r.key.about), "text": r.text, "prompt": r.prompt},
                self.seconds,
            )
            for r in replies
        ]


def _check(key: Key) -> None:
    kind = key.about.get("of", "") if key.kind == "same" else key.kind
    if key.kind == "same" and kind not in NEEDS:
        refuse(key, "of", Symbolic.kinds)
    check(key, "the judge 'symbolic'", Symbolic.kinds, NEEDS.get(kind, {}))
