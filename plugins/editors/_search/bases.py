"""What editors are built on: many edits found together, and what the edits of one model share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from edit_harness import Editor, PluginError, Request
from edit_harness.edits import Edit
from edit_harness.model.model import Model

T = TypeVar("T")


def in_groups(groups: Iterable[list[int]], find: Callable[[list[int]], Iterable[T]]) -> list[T]:
    """Return what ``find`` finds for each index, asked group by group."""
    found: dict[int, T] = {}
    for group in groups:
        found |= zip(group, find(group), strict=True)
    return [found[i] for i in sorted(found)]


def earlier(edit: Edit, module: str, kind: type[T], editor: str, state: str = "") -> T | None:
    """Return the memory that an edit has beside a module, or None if it has none.

    ``state`` names what belongs to it in the edit's state. Raises `PluginError` for another memory.
    """
    found = edit.adaptors.get(module)
    if not edit.adaptors:
        return None
    if len(edit.adaptors) > 1 or not isinstance(found, kind) or state not in (*edit.state, ""):
        raise PluginError(
            f"the edit so far is no memory beside {module}, so {editor} cannot extend it",
            f"extend an edit that {editor} made with the same fields",
        )
    return found


class Batched(Editor):
    """Finds many edits together, by its own `edit_each`; one is found as many are."""

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return one edit that writes all requests."""
        (edit,) = self.edit_each(model, [requests])
        return edit


@dataclass(frozen=True)
class Shared:
    """What all edits of one model share."""

    provenance: Mapping[str, str]
    """Digests of what the edits depend on."""
    found: Mapping[str, Any]
    """What readers of a run want to see of it."""


S = TypeVar("S", bound=Shared)


class Prepared(Editor, Generic[S]):
    """Finds what edits share before the first edit, and again for another model."""

    _model: Model | None = None
    _shared: S | None = None

    @abstractmethod
    def find(self, model: Model) -> S:
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

    def ready(self, model: Model) -> S:
        """Return what all edits of the model share."""
        if self._shared is None or self._model is not model:
            self.prepare(model)
        assert self._shared is not None
        return self._shared
