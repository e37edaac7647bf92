"""No edit: what a table's other rows are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edit_harness import Editor, Request
from edit_harness.edits import Edit
from edit_harness.model.model import Model


@dataclass
class Unedited(Editor):
    """Leaves the model alone."""

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the empty edit."""
        return Edit()
