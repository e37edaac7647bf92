"""Editors whose edits of one model share something that `prepare` finds once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from edit_harness import Editor
from edit_harness.model.model import Model


@dataclass(frozen=True)
class Shared:
    """What all edits of one model share."""

    provenance: Mapping[str, str]
    """Digests of what the edits depend on."""
    found: Mapping[str, Any]
    """What readers of a run want to see of it."""


T = TypeVar("T", bound=Shared)


class Prepared(Editor, Generic[T]):
    """Finds what edits share before the first edit, and again for another model."""

    _model: Model | None = None
    _shared: T | None = None

    @abstractmethod
    def find(self, model: Model) -> T:
        """Return what all edits of the model share. Raises `DataError` for what is not there."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Digests of what the edits depend on; none before `prepare`."""
        return self._shared.provenance if self._shared else {}

    @property
    def found(self) -> Mapping[str, Any]:
        """What readers of a run want to see; nothing before `prepare`."""
        return self._shared.found if self._shared else {}

    def prepare(self, model: Model) -> None:
        """Find what edits share. Raises `DataError` that says how to make what is not there."""
        self._shared, self._model = self.find(model), model

    def ready(self, model: Model) -> T:
        """Return what all edits of the model share."""
        if self._shared is None or self._model is not model:
            self.prepare(model)
        assert self._shared is not None
        return self._shared
