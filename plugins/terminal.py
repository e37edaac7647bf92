"""The one way to the terminal: no text is read as markup, and nothing in it reaches the terminal raw.

It is a console of rich whose styles come from our own code alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from edit_harness.errors import printable


class Terminal(Console):
    """A console that takes texts as they are, whoever wrote them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is printed, with escapes in every text; what moves the cursor is rich's own."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text with escapes, before its width is measured for a table."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """Say nothing more to who has stopped reading; the command goes on, and its exit code stays its own."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


out, err = Terminal(), Terminal(stderr=True)


def plain(text: object, style: str | Style = "") -> Text:
    """Return a text to be printed, with escapes: its width is what will be seen."""
    return Text(printable(str(text)), style)
