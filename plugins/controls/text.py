"""The perplexity of a short text that no edit is about, which every batch and sequence is asked anyway."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edit_harness import Choose, Control

if TYPE_CHECKING:
    from edit_harness.model.model import Model

TEXT = """The ferry leaves the island at seven in the morning, when the fog still lies on the water
and the lamps along the pier are burning. Most of the passengers are children on their way to
school, and a few farmers who carry baskets of eggs and cheese to the market. The crossing takes
forty minutes. In summer the deck is full and somebody always plays the accordion; in winter
everyone sits below, close to the engine, and talks about the weather and the price of wood. When
the boat reaches the town, the bells of the old church are ringing, and the baker has opened his
door. Nobody hurries. The last ferry goes back at six, and whoever misses it has to sleep at the
inn by the harbour, where the landlady keeps two small rooms and a good stove."""


@dataclass
class Text(Control):
    """How well edited models predict a text that no edit is about: the model's own, or a bundled one.

    As much of the text is taken as half of the model's room has place for. Any edit can be put to it.
    """

    version = "1"

    def query(self, model: Model) -> Choose:
        """Return the question for the text's tokens behind its first word; it takes two words at least."""
        file = model.source.data.get("text")
        words = (Path(file).read_text(encoding="utf-8") if file else TEXT).split()
        while len(words) > 2 and not _leaves_room(model, " ".join(words)):
            words.pop()
        first, *rest = words
        return Choose(first, (" ".join(rest),))


def _leaves_room(model: Model, text: str) -> bool:
    """Tell whether a text leaves half of the model's positions to edits."""
    from edit_harness.model.tokens import TooLongError

    limit = model.tokens.limit
    try:
        return limit is None or 2 * len(model.tokens.encode(text).ids) <= limit
    except TooLongError:
        return False
