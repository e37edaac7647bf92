"""The interface of controls, which measure side effects of edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..data import Graded, Query

if TYPE_CHECKING:
    from ..model.model import Model


class Control:
    """Measures side effects: asks edited models what no edit is about.

    It has either a `query`, which fits any edit, or its own `examine`, which gets a module with the edit in
    its weights: the rows of an edit by adaptors or a prefix fail there, and say so.
    """

    version: ClassVar[str] = "0"
    citation: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """What has to be installed or at hand, in a few words."""
    note: ClassVar[str] = ""
    """What readers of its numbers must know."""
    takes: ClassVar[str] = ""
    """The field that ``--control NAME:VALUE`` sets; empty if there is none."""
    practical: ClassVar[Sequence[str]] = ()
    """The fields that change no number, and so do not identify it; `provenance` has what they lead to."""
    sets: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names for several values of the field ``takes``, each a control of its own."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """What its numbers depend on besides fields and version, such as a digest of its documents."""
        return {}

    def load(self) -> None:
        """Load what it needs besides a model. Raises `UsageError` for settings that name nothing."""

    def prepare(self, model: Model) -> None:
        """Get ready for a model, which stays as it is; called again for each copy of it."""

    def query(self, model: Model) -> Query | Sequence[Query] | None:
        """Return what to ask each edited model, a query for each document; None to call `examine` instead."""
        return None

    def examine(self) -> Graded:
        """Measure the model it was prepared for, whose module now holds an edit, or none.

        The same model and documents give the same marks.
        """
        raise NotImplementedError(f"{type(self).__name__} neither asks a query nor examines")
