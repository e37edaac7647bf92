"""Take new figures into a pack of the project's own, when they changed on purpose.

    edit-harness reproduce pocket-figures --json | python -m benchmarks.accept

The file in the sources is written anew; what changed is for the commit's message to say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "plugins" / "packs"
PLACE = ("model", "editor", "row", "column")
PLACES = 4
"""Digits of a figure behind the point: those that two machines agree on."""


def accepted(pack: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pack with the figures of an outcome of ``reproduce --json``.

    Raises `ValueError` for a pack whose numbers were printed elsewhere, and for a figure that is missing.
    """
    if pack.get("compares") != "figures":
        raise ValueError("what a paper printed stays as it was printed")
    ours = {tuple(each[key] for key in PLACE): each for each in outcome["numbers"]}
    cells = []
    for cell in pack["cells"]:
        found = ours.get(tuple(cell.get(key, "") for key in PLACE))
        if found is None or found["ours"] is None:
            raise ValueError(f"there is no new figure of {cell}")
        cells.append({**cell, "value": round(found["ours"], PLACES), "n": found["n"]})
    return {**pack, "cells": cells}


def text(pack: Mapping[str, Any]) -> str:
    """Return a pack as its file has it: a line for each number."""
    head = json.dumps({k: v for k, v in pack.items() if k != "cells"}, indent=1, ensure_ascii=False)
    cells = ",\n".join(f"  {json.dumps(cell, ensure_ascii=False)}" for cell in pack["cells"])
    return f'{head.removesuffix("}").rstrip()},\n "cells": [\n{cells}\n ]\n}}\n'


if __name__ == "__main__":
    new = json.load(sys.stdin)
    path = FOLDER / f"{new['pack']}.json"
    path.write_text(text(accepted(json.loads(path.read_text("utf-8")), new)), "utf-8")
