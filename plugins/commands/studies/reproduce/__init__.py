"""Runs a paper's table again and compares the numbers; and what a pack is, which says the table."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar


class Pack:
    """A table that was printed, and how its numbers are made again: data, which is all in a file."""

    file: ClassVar[str | Path]
    """JSON with the keys of docs/how-to/reproduce-a-paper.md: runs, numbers, and what cannot be matched."""

    @classmethod
    def card(cls) -> Mapping[str, Any]:
        """Return what ``edit-harness show`` says of it, besides what it says of every component."""
        said = json.loads(Path(cls.file).read_text(encoding="utf-8"))
        return {
            "citation": said["paper"],
            "models": {label: model["name"] for label, model in said["models"].items()},
            "editors": {label: each["editor"] for label, each in said["editors"].items()},
            "numbers": len(said["cells"]),
            "needs": said.get("needs", ""),
            "hours": said.get("hours", ""),
            "differs": "\n".join(said.get("differs", ())),
        }
