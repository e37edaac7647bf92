"""Where two JSON-ready values differ, by the path that leads there; what they mean is not known here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .manifests import Identity, as_json

DIGEST = 64
SHORT = 12
"""Characters of a SHA-256, and how many of them are shown."""
ABSENT = "–"


@dataclass(frozen=True)
class Change:
    """A setting that two runs have otherwise, or a part of one."""

    field: str
    first: Any
    second: Any


def identities(one: Identity, two: Identity) -> list[Change]:
    """Return in what the identities of two runs differ, an editor's fields at the end."""
    both = [{**as_json(each), "code": dict(each.code)} for each in (one, two)]
    found = changes(both[0], both[1])
    return sorted(found, key=lambda change: ".fields." in change.field)


def changes(one: Any, two: Any, name: str = "") -> Iterator[Change]:
    """Yield the fields, by their path, that differ."""
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for key in dict.fromkeys([*one, *two]):
            path = f"{name}.{key}" if name else str(key)
            yield from changes(one.get(key, ABSENT), two.get(key, ABSENT), path)
    elif one != two:
        yield Change(name, one, two)


def short(value: Any) -> str:
    """Return a value as a table shows it, a digest by its first characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:SHORT] if len(text) == DIGEST and text.isalnum() else text
