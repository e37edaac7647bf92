"""Whether a worker has what the driver has: plugins, versions, the model. Numbers of both are one run.

What is compared is what identifies a run, so nothing can differ that a row depends on and is in no
row. Here are comparisons of JSON only; who collects it is `worker`, and who asks is `pool`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edit_harness.encoding import dumps
from edit_harness.errors import DataError, HarnessError, PluginError
from edit_harness.folder.manifest import software
from edit_harness.registry.packages import normal

INSTALL = "install the same on every worker"
SHOWN = 12
"""Hexadecimal digits of a digest that are shown."""
Packages = Sequence[Mapping[str, str]]


def check_packages(wanted: Packages, found: Packages, host: str) -> None:
    """Raise `PluginError` that names a distribution which a worker has not, or has another of."""
    there = {normal(each["name"]): each for each in found}
    for each in wanted:
        name = normal(each["name"])
        if name not in there:
            raise PluginError(f"the worker on {host} has no {_said(each)}", INSTALL)
        if there[name]["digest"] != each["digest"]:
            raise PluginError(
                f"the worker on {host} has {_said(there[name])}, not {_said(each)}", INSTALL
            )


def _said(package: Mapping[str, str]) -> str:
    name = f"{package['name']} {package['version']}".strip()
    return f"{name} ({package['digest'][:SHOWN]})"


def check_identities(wanted: Sequence[Any], card: Mapping[str, Any]) -> None:
    """Raise an error if what a worker has assembled is not the run that the driver has.

    `DataError` for another model or other data, `PluginError` for other code, or other settings that
    its code came to.
    """
    pairs = zip(json.loads(dumps(wanted)), json.loads(dumps(card["identities"])), strict=True)
    for mine, theirs in pairs:
        parts = [part for part in mine if mine[part] != theirs.get(part)]
        if parts:
            raise _disagreement(parts[0], mine[parts[0]], theirs.get(parts[0]), card["host"])


def _disagreement(part: str, mine: Any, theirs: Any, host: str) -> HarnessError:
    if part == "code":
        names = sorted({name for name, _ in _distinct(mine, theirs)})
        return PluginError(f"the worker on {host} has another {names[0]}", INSTALL)
    if part in ("model", "task", "together"):
        what = "other cases" if part == "together" else f"another {part} ({_field(mine, theirs)})"
        return DataError(f"the worker on {host} has {what}", "give every worker the same files")
    return PluginError(f"the worker on {host} has another {part}: {_field(mine, theirs)}", INSTALL)


def _distinct(mine: Any, theirs: Any) -> set[tuple[str, str]]:
    return set(map(tuple, mine)) ^ set(map(tuple, theirs))


def _field(mine: Any, theirs: Any) -> str:
    """Return which fields of a part differ."""
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        return f"{theirs}, not {mine}"
    return ", ".join(key for key in mine if mine[key] != theirs.get(key))


def check_alike(first: Mapping[str, Any], card: Mapping[str, Any]) -> None:
    """Raise `DataError` if a worker groups cases otherwise than the first, as a CPU's and a GPU's do."""
    there, differ = f"that on {first['host']}", "their numbers differ in the last digits"
    if card["chunk"] != first["chunk"] or _kind(card) != _kind(first):
        raise DataError(
            f"the worker on {card['host']} computes on {card['device']}, {there} on {first['device']}",
            f"use workers of one kind: {differ}",
        )
    if apart := software(first["environment"], card["environment"]):
        raise DataError(
            f"the worker on {card['host']} has {'; '.join(apart)} as {there}",
            f"install the same on every worker: {differ}",
        )


def _kind(card: Mapping[str, Any]) -> str:
    return str(card["environment"]["device"]).partition(":")[0]
