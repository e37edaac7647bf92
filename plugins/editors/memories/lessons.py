"""What editors of memories share: requests learned in turn, behind contexts, until a loss has settled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch

from edit_harness import Request
from edit_harness.edits import Edit
from edit_harness.model.model import Model

from .._search.bases import Batched
from .._search.contexts import BARE, checked, sampled

STARTS, LENGTHS = ("I", "You", "Because", "Yes", "Q:"), (5, 10)
"""How sampled contexts begin, and their tokens: one of each start and length."""
SETTLED, LOW = 1e-4, 0.02
"""A search ends behind a loss of at most LOW nats that differs from the one before by at most SETTLED."""


def contexts_of(model: Model, given: Sequence[str], seed: int) -> tuple[str, ...]:
    """Return the contexts that were given, or the bare prompt and ten that the unedited model writes."""
    kinds = [((length,), 1, seed, start) for length in LENGTHS for start in STARTS]
    return checked(given) or (BARE, *(sampled(model, *kind)[1] for kind in kinds))


def settled(losses: Sequence[float]) -> bool:
    """Tell whether the last loss that led to a step was low and had settled."""
    *_, before, last = torch.inf, torch.inf, *losses
    return last <= LOW and abs(last - before) <= SETTLED


class Learning(Batched):
    """Takes the requests of a batch in turn into one memory; batches share the passes."""

    @abstractmethod
    def taught(
        self, model: Model, edits: Sequence[Edit], requests: Sequence[Request]
    ) -> list[Edit]:
        """Return each edit with one request taken in."""

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return a memory for each batch; what batches share is the passes."""
        return self._grow(model, [Edit()] * len(batches), batches)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return ``previous`` with the requests in its memory.

        Raises `PluginError` if its adaptors are none that this editor could have made.
        """
        with model.applied(previous):
            (edit,) = self._grow(model, [previous], [requests])
        return edit

    def _grow(
        self, model: Model, edits: Sequence[Edit], batches: Sequence[Sequence[Request]]
    ) -> list[Edit]:
        """Return each edit with its batch taken in, in each turn one request of each batch."""
        grown = list(edits)
        for turn in range(max(map(len, batches), default=0)):
            now = [i for i, batch in enumerate(batches) if turn < len(batch)]
            taught = self.taught(model, [grown[i] for i in now], [batches[i][turn] for i in now])
            for i, edit in zip(now, taught, strict=True):
                grown[i] = edit
        return grown
