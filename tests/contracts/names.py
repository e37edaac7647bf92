"""The public names that documents, examples, the scaffold and packages of strangers import."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLACES = (
    "README.md",
    "docs/*.md",
    "examples/*/src/**/*.py",
    "plugins/commands/authoring/scaffold/**/*.tmpl",
)
FROM = re.compile(r"from (edit_harness(?:\.[\w.]+)?) import (?:\(([^)]*)\)|([^\n(]+))")
LOADED = re.compile(r"import (edit_harness\.[\w.]+)")
MEMBER = re.compile(r"\beh\.([a-zA-Z_]+)")


def cast() -> dict[str, Any]:
    """Return who uses each name: a module with what is taken from it, and the files that do."""
    found: dict[str, set[str]] = {}
    for pattern in PLACES:
        for path in ROOT.glob(pattern):
            text = path.read_text(encoding="utf-8")
            for name in _used(text):
                found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return {name: sorted(files) for name, files in found.items()}


def _used(text: str) -> set[str]:
    used = {f"edit_harness:{name}" for name in MEMBER.findall(text)} | set(LOADED.findall(text))
    for module, inside, plain in FROM.findall(text):
        for name in re.sub(r"#[^\n]*", "", inside or plain).split(","):
            if name := name.split(" as ")[0].strip():
                used.add(f"{module}:{name}")
    return used


def missing() -> list[str]:
    """Return the names that nobody could import."""
    return [name for name in cast() if not _is_there(*name.partition(":")[::2])]


def _is_there(module: str, name: str) -> bool:
    try:
        loaded = importlib.import_module(module)
        if name and not hasattr(loaded, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True
