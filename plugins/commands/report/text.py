"""Other people's texts, made fit to be shown: in HTML, in a script's data, in a cell of a table.

Markup itself is escaped by the templates. Here is what escaping does not see: characters that no
eye sees or that turn the text around them, texts without end, and addresses that are no links.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from unicodedata import category
from urllib.parse import urlsplit

from markupsafe import Markup

LONGEST = 4000
"""Characters of one text that a page shows."""
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as letters or symbols and leave nothing on the screen."""
IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would compute."""


def visible(text: str) -> str:
    """Return a text with escapes for what is not seen or moves what is: controls, bidi, zero-width."""
    if text.isprintable() and BLANK.isdisjoint(text):
        return text
    return "".join(c if _seen(c) else c.encode("unicode_escape").decode() for c in text)


def _seen(character: str) -> bool:
    if character in BLANK:
        return False
    return character.isprintable() or character in "\n\t" or category(character) == "Zs"


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


def host(address: str) -> str:
    """Return the host of an address that a page may link to, which is https; else an empty text."""
    plain = address.isascii() and address.isprintable() and not set(address) & set(" \"'<>\\`{}|^")
    try:
        parts = urlsplit(address) if plain else None
        port = parts.port if parts else None
    except ValueError:
        return ""
    if parts is None or parts.scheme != "https" or parts.username is not None:
        return ""
    return f"{parts.hostname or ''}{f':{port}' if port else ''}" if parts.hostname else ""


def guarded(cell: str) -> str:
    """Return a text as a cell of CSV that no spreadsheet takes for a formula."""
    text = visible(cell)
    return f"'{text}" if cell.startswith(FORMULA) or text.startswith(FORMULA) else text
