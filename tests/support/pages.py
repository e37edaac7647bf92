"""What the documentation shows: blocks of code, and the files that they are."""

from __future__ import annotations

import re
from pathlib import Path

from support.builders import ROOT

DOCS = ROOT / "docs"
TUTORIALS = {
    "editor": (DOCS / "how-to" / "evaluate-your-editor.md", "steepest"),
    "task": (DOCS / "how-to" / "evaluate-your-facts.md", "passports"),
    "metric": (DOCS / "how-to" / "write-a-metric.md", "flips"),
    "judge": (DOCS / "how-to" / "write-a-judge.md", "opening"),
}
"""The page of each kind, and what it writes."""
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language; those without one have an empty name."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def files(page: Path) -> dict[str, str]:
    """Return the Python files of a page: blocks whose first line is a comment with a path."""
    found = (re.match(r"# (\S+\.py)\n", block) for block in blocks(page, "python"))
    named = [(match, match.string) for match in found if match]
    return {match[1]: source for match, source in named}


def snippets(page: Path) -> list[str]:
    """Return the Python blocks that are no files."""
    whole = files(page).values()
    return [block for block in blocks(page, "python") if block not in whole]


def followed(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page that a block of output follows, each with that block."""
    text = page.read_text(encoding="utf-8")
    return re.findall(
        r"^```\n(edit-harness [^\n]*)\n```\n\n```\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
