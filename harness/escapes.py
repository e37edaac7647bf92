"""Texts of strangers: made fit to be shown, and whether one is the address of another machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def printable(text: str) -> str:
    r"""Return a text with escapes such as ``\x1b`` for all that is no plain character.

    That is control characters, NUL, ANSI sequences, bidirectional and other invisible marks, and
    lone surrogates; line breaks stay. A text that has been through here comes out as it was.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def one_line(text: str) -> str:
    """Return the same in one line, so that a text cannot feign the line after its own."""
    return printable(text).replace("\n", r"\n")


def elsewhere(text: str) -> bool:
    """Tell whether a text is an address, and not plainly one of this machine.

    An address has ``://`` in it. Of this machine are localhost and loopback addresses in their usual
    spelling; no name is looked up.
    """
    if "://" not in text:
        return False
    if not text.isprintable():  # readers do not agree on what to leave out
        return True
    try:
        host = (urlsplit(text).hostname or "").rstrip(".")
        return host != "localhost" and not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
