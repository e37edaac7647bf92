"""Templates of pages: other people's texts made fit to be shown, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unicodedata import category

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from edit_harness.run import report

FOLDER = Path(__file__).with_name("assets")
STYLE = "style.css"
SCRIPTS = ("tables.js", "explorer.js")
REST = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
SHARED = f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; {REST}"
"""The policy of pages that have their script and style in files beside them."""
LONGEST = 4000
"""Characters of one text that a page shows."""
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as letters or symbols and leave nothing on the screen."""
IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet would compute."""


def visible(text: str) -> str:
    """Return a text with escapes for what is not seen or moves what is: controls, bidi, zero-width."""
    return "".join(c if _seen(c) else c.encode("unicode_escape").decode() for c in text)


def _seen(character: str) -> bool:
    shown = character.isprintable() or character in "\n\t" or category(character) == "Zs"
    return shown and character not in BLANK


def clipped(text: str, most: int = LONGEST) -> str:
    """Return the beginning of a text, and how much more there is of it."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters)"


def shown(data: Any) -> Any:
    """Return JSON-ready data with every text in it visible and of bounded length."""
    if isinstance(data, str):
        return visible(clipped(data))
    if isinstance(data, Mapping):
        return {visible(clipped(str(key))): shown(value) for key, value in data.items()}
    return [shown(value) for value in data] if isinstance(data, list | tuple) else data


def embedded(data: Any) -> Markup:
    """Return data as JSON that can stand in a ``script`` element; numbers must be finite."""
    text = json.dumps(shown(data), separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(IN_SCRIPT))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        # Markup of ours is no plain text, and passes.
        finalize=lambda value: visible(clipped(value)) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {name: getattr(report, name) for name in ("show", "interval", "count")}
    environment.globals |= {"arrows": report.DIRECTION}
    return environment


def page(template: str, **values: Any) -> str:
    """Return a page. The values are texts of anybody; only markup that we made is `Markup`."""
    return _environment().get_template(template).render(**values).strip() + "\n"


@cache
def asset(name: str) -> str:
    """Return the text of a style sheet or a script."""
    return (FOLDER / name).read_text(encoding="utf-8")


def inlined(style: str, script: str = "") -> dict[str, Any]:
    """Return what a page needs that has a style and a script in itself: a policy names their digests."""
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; {REST}"
    return {"policy": Markup(policy), "style": Markup(style), "script": Markup(script)}


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
