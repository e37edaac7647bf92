"""Tells by algebra whether a formula, a number or a description is right.

Deterministic, offline, and never by evaluating a text: replies are read by a grammar of our own
(`edit_harness_plugins.judges.symbolic.grammar`) and compared by sympy, in a process that can be given up
(`edit_harness_plugins.judges.symbolic.worker`). What cannot be read is ``undecided``, which counts as wrong; no
language model is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from edit_harness import Judge, Key, PluginError, Reply, Verdict
from edit_harness.registry.settings import Positive

from .worker import shared

LIBRARIES = ("sympy", "math-verify")
FORMULA = "lhs, variables (name: meaning), derived (name: formula), constraints"
NEEDS: Mapping[str, Mapping[str, type]] = {
    "formula": {"lhs": str, "variables": dict},
    "description": {"lhs": str, "variables": dict},
    "number": {},
}
"""What `Key.about` must have, by kind."""
MAY: Mapping[str, type] = {
    "derived": dict, "constraints": list, "texts": dict, "unit": str, "steps": bool,
}  # fmt: skip


@dataclass
class Symbolic(Judge):
    """Formulas are compared as algebra, numbers within a tolerance.

    A reply is right if it equals the key at 20 fixed points within 1e-9, in whatever letters; a
    number within 1e-6, or 1e-2 if the key is irrational.
    """

    seconds: Positive = 5.0
    """How long a reply may take; then it is undecided."""

    version: ClassVar[str] = "1"
    citation: ClassVar[str] = "Meurer et al., 2017 (sympy); Kydlíček, 2025 (math-verify)"
    kinds: ClassVar[Mapping[str, str]] = {
        "formula": FORMULA,
        "description": f"{FORMULA}; texts (right, old) in words",
        "number": "unit; steps: whether the reply is a worked solution, whose final value counts",
        "same": "of: formula, description or number, and what that needs; right is another reply",
    }

    @property
    def provenance(self) -> Mapping[str, str]:
        """Versions of the libraries; raises `PluginError` if one is missing."""
        return {name: _version(name) for name in LIBRARIES}

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply.

        Raises `PluginError` for a key of another kind or without what its kind needs, `DataError`
        for a formula in a key that cannot be read.
        """
        for name in LIBRARIES:
            _version(name)
        for reply in replies:
            _check(reply.key)
        worker = shared(os.getpid())
        return [worker.judge(_request(reply), self.seconds) for reply in replies]


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        raise PluginError(
            f"the judge 'symbolic' needs {library}, which is not installed",
            "pip install 'edit-harness[symbolic]'",
        ) from None


def _check(key: Key) -> None:
    """Raise `PluginError` for a key that is not as `Symbolic.kinds` says."""
    kind, about = key.kind, key.about
    if kind == "same":
        kind = about.get("of", "")
    if kind not in NEEDS:
        raise PluginError(
            f"the judge 'symbolic' knows no key of kind {key.kind!r}"
            + (f" of {kind!r}" if key.kind == "same" else ""),
            f"its kinds are {', '.join(Symbolic.kinds)}",
        )
    for name, type_ in NEEDS[kind].items():
        if not isinstance(about.get(name), type_) or not about[name]:
            _refuse(key, name)
    for name, type_ in MAY.items():
        if name in about and not isinstance(
            about[name], (type_, tuple) if type_ is list else type_
        ):
            _refuse(key, name)


def _refuse(key: Key, name: str) -> None:
    raise PluginError(
        f"a key of kind {key.kind!r} has no proper {name!r}: {key.about.get(name)!r}",
        f"it needs {Symbolic.kinds[key.kind]}",
    )


def _request(reply: Reply) -> dict[str, Any]:
    key = reply.key
    return {
        "kind": key.kind,
        "right": key.right,
        "old": key.old,
        "about": dict(key.about),
        "text": reply.text,
        "prompt": reply.prompt,
    }
