"""The perplexity of texts that no edit is about; a short one is asked of every batch and sequence anyway."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edit_harness import Choose, Control, DataError
from edit_harness.registry.guard import said
from edit_harness.registry.settings import Natural

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
    """How well edited models predict texts that no edit is about: the model's own, a bundled one, or a file's.

    As much of a text is taken as half of the model's room has place for. Any edit can be put to it. The
    perplexity of several texts is that of all their tokens, but for the first words.
    """

    version = "1"
    practical = ("data",)

    data: str = ""
    """A file of short texts, such as ME-PPL: a JSON list of records with Text, or a text on each line."""
    limit: Natural = 0
    """Texts of the file, the first ones; 0 is all."""
    _texts: list[str] = field(default_factory=list, init=False, repr=False)

    def load(self) -> None:
        """Read the file. Raises `DataError` if it has no texts."""
        if self.data:
            self._texts = _read(Path(self.data))[: self.limit or None]

    def query(self, model: Model) -> Sequence[Choose]:
        """Return a question for each text's tokens behind its first word; it takes two words at least."""
        if self._texts:
            return [_behind_first(model, text) for text in self._texts]
        file = model.source.data.get("text")
        return [_behind_first(model, Path(file).read_text(encoding="utf-8") if file else TEXT)]


def _read(path: Path) -> list[str]:
    """Return the texts of a file that have two words at least."""
    try:
        content = path.read_text(encoding="utf-8")
        found = json.loads(content) if path.suffix == ".json" else content.splitlines()
        texts = [each if isinstance(each, str) else each["Text"] for each in found]
        texts = [text for text in texts if len(text.split()) > 1]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", FORMS) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} has no texts: {said(error)}", FORMS) from None
    if not texts:
        raise DataError(f"{path} has no text of two words", FORMS)
    return texts


FORMS = '--control-args data=FILE: a JSON list of {"Text": ...} or of texts, or a file with a text on each line'


def _behind_first(model: Model, text: str) -> Choose:
    words = text.split()
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
