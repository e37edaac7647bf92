"""Texts of strangers, made fit to be shown: what a terminal would obey is spelled out instead.

Cases, models, judges, plugins and file names may have anything in them. Escapes are Python's own. How
a screen is written to stands in `edit_harness.terminal`; HTML, CSV and LaTeX have rules of their own.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return a text with escapes such as ``\x1b`` for all that is no plain character.

    That is control characters, NUL, ANSI sequences, bidirectional and other invisible marks, and
    lone surrogates; line breaks stay. A text that has been through here comes out as it was.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)


def one_line(text: str) -> str:
    """Return the same in one line, so that a text cannot feign the line after its own."""
    return printable(text).replace("\n", r"\n")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
