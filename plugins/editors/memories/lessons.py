"""What editors of memories share: requests learned in turn, behind contexts, until a loss has settled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

import torch
from torch import Tensor

from edit_harness import Editor, Request
from edit_harness.edits import Edit
from edit_harness.model.model import Model

from .._search.contexts import BARE, checked, fill, sampled
from .._search.suffix import SuffixForward
from .._search.texts import Targets, Text

Loss: TypeAlias = Callable[[Tensor], Tensor]
STARTS, LENGTHS = ("I", "You", "Because", "Yes", "Q:"), (5, 10)
"""How sampled contexts begin, and their tokens: one of each start and length."""
SETTLED, LOW = 1e-4, 0.02
"""A search ends behind a loss of at most LOW nats that differs from the one before by at most SETTLED."""


def contexts_of(model: Model, given: Sequence[str], seed: int) -> tuple[str, ...]:
    """Return the contexts that were given, or the bare prompt and ten that the unedited model writes."""
    kinds = [((length,), 1, seed, start) for length in LENGTHS for start in STARTS]
    return checked(given) or (BARE, *(sampled(model, *kind)[1] for kind in kinds))


def passes(
    model: Model, layer: int, module: str, contexts: Sequence[str], request: Request, *others: str
) -> tuple[Tensor, Tensor, Loss]:
    """Return what goes into a map, which tokens are of prompts, and the loss by what is added to its outputs.

    Rows are the request behind each context, and other prompts, which have no target. The loss is in
    nats, the mean over contexts of the mean over the target's tokens.
    """
    filled = [fill(context, request.text) for context in contexts]
    texts = [Text.of(model.tokens.split(text, request.target_new)) for text in filled]
    texts += [Text(model.tokens.encode(other).ids, (), ()) for other in others]
    ids, targets = [text.ids for text in texts], Targets(texts, model.device)
    again = SuffixForward(model, layer, ids, [0] * len(ids), changed=[module])
    read, keys = again.places(targets.rows, targets.positions), again.keys
    shares = keys.new_tensor([1 / len(texts[i].reads) / len(contexts) for i in targets.rows])
    ends = keys.new_tensor([(*text.reads, len(text.ids) - 1)[0] for text in texts])

    def loss(added: Tensor) -> Tensor:
        return -(targets.log_likelihoods(again.logits(read, added)) * shares).sum()

    return keys, torch.arange(keys.shape[1]).to(keys) <= ends[:, None], loss


def settled(losses: Sequence[float]) -> bool:
    """Tell whether the last loss that led to a step was low and had settled."""
    *_, before, last = torch.inf, torch.inf, *losses
    return last <= LOW and abs(last - before) <= SETTLED


class Learning(Editor):
    """Takes requests in turn into one memory."""

    @abstractmethod
    def taught(self, model: Model, edit: Edit, request: Request) -> Edit:
        """Return the edit with a request taken in. Raises `PluginError` for an edit of another editor."""

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return a memory of the requests."""
        return self.extend(model, Edit(), requests)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return ``previous`` with the requests taken in; raise as `taught` does."""
        with model.applied(previous):
            return reduce(partial(self.taught, model), requests, previous)
