"""The perplexity of a short text; the core asks the same of every batch and sequence anyway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edit_harness import Control, Query
from edit_harness.run.controls import control

if TYPE_CHECKING:
    from edit_harness.model.model import Model


@dataclass
class Text(Control):
    """How well edited models predict a text that no edit is about: the model's own, or a bundled one.

    As much of the text is taken as half of the model's room has place for. Any edit can be put to it.
    """

    version = "1"

    def query(self, model: Model) -> Query:
        """Return the question for the text's tokens behind its first word."""
        return control(model.source, model.tokens.leaves_room).probes[0].query
