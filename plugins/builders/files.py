"""What builders share: texts of entries, files that they write, and words for what they report."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edit_harness_plugins.inputs import SHOWN

from .triples import Fact


def listed(items: Sequence[str]) -> str:
    """Return the first items as a text, and how many more there are."""
    more = f", and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    return f"{', '.join(items[:SHOWN])}{more}"


def write(data: Any, path: Path) -> None:
    """Write data as JSON, with nothing in it that depends on the machine."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(text.encode())


def rewrite(
    fact: Fact, prompt: str, new: str, known: Callable[[str], str | None]
) -> dict[str, Any]:
    """Return what a record says of an edit, as CounterFact does; ``known`` has the ids of objects."""

    def target(name: str) -> dict[str, str]:
        return {"str": name, "id": known(name) or made_up_id(name)}

    return {
        "prompt": prompt,
        "relation_id": fact.relation,
        "target_new": target(new),
        "target_true": target(fact.object),
        "subject": fact.subject,
    }


def made_up_id(name: str) -> str:
    """Return a stable identifier for what has none of Wikidata's; it begins with a W."""
    return f"W{zlib.crc32(name.encode()):08x}"
