"""A net as a file, and where two of them differ."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOLERANCE = 1e-4
"""How far a number may be from the stored one, also relative to it: nats, as everywhere here."""


def stored(name: str) -> Any:
    """Return a net as it was written; None if it never was."""
    path = HERE / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def store(name: str, net: Any) -> None:
    """Write a net, one line for each of its entries, so that a diff of it can be read."""
    lines = (f"{json.dumps(key)}: {json.dumps(net[key])}" for key in sorted(net))
    (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def changes(then: Any, now: Any, tolerance: float) -> list[str]:
    """Return a line for each place where two nets differ, with what stood there and stands there now."""
    return list(_changes("", then, json.loads(json.dumps(now)), tolerance))


def _changes(place: str, then: Any, now: Any, tolerance: float) -> Iterator[str]:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted({*then, *now}):
            yield from _changes(f"{place}/{key}", then.get(key, "-"), now.get(key, "-"), tolerance)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for i, (old, new) in enumerate(zip(then, now, strict=True)):
            yield from _changes(f"{place}/{i}", old, new, tolerance)
    elif not _same(then, now, tolerance):
        yield f"{place}: {then!r:.200} -> {now!r:.200}"


def _same(then: Any, now: Any, tolerance: float) -> bool:
    if isinstance(then, float) and isinstance(now, float):
        near = abs(then - now) <= tolerance * max(1.0, abs(then))
        return then == now or near or (math.isnan(then) and math.isnan(now))
    return type(then) is type(now) and then == now
