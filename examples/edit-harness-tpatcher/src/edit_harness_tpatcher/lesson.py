"""A request on its way into an edit: its text, its patches, and where they must not fire.

Patches are trained as the very adaptor that answers later, each request under its own edit in one
batch with others. What they are trained for is the matter of `editor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from edit_harness import PluginError, Request
from edit_harness.edits import Edit, Rows
from edit_harness.model import Batch, Model
from torch import Tensor

from edit_harness_tpatcher.patch import Patches


class Texts:
    """Requests as one batch, each with its target behind it."""

    def __init__(self, model: Model, requests: Sequence[Request]) -> None:
        parts = [model.tokens.split(request.text, request.target_new) for request in requests]
        self.model, self.batch = model, model.batch([part.inputs for part in parts])
        self.prompts = [len(part.prompt) for part in parts]
        self.targets = [torch.tensor(part.target, device=model.device) for part in parts]
        spots = [(row, place) for row, part in enumerate(parts) for place in part.places]
        self.reads = self.batch.places(*zip(*spots, strict=True))

    def logits(self, edits: Sequence[Edit]) -> tuple[Tensor, ...]:
        """Return what predicts each target, tokens by vocabulary, each request under its edit."""
        with self.model.edited_rows(self.batch, edits, self.prompts):
            logits = self.model.logits(self.batch, self.reads)
        return logits.split([len(target) for target in self.targets])

    def queries(self, module: str) -> tuple[Tensor, ...]:
        """Return what goes into a module where each target is predicted, tokens by width."""
        inputs = inputs_of(self.model, module, self.batch)
        read = inputs[self.reads.on(inputs.device)].to(self.model.device)
        return read.split([len(target) for target in self.targets])


class Listener:
    """An adaptor that changes nothing, and keeps what goes into its module."""

    inputs: Tensor

    def __call__(self, inputs: Tensor, outputs: Tensor, rows: Rows) -> Tensor:
        """Return the outputs as they are."""
        self.inputs = inputs
        return outputs


@torch.no_grad()
def inputs_of(model: Model, module: str, batch: Batch) -> Tensor:
    """Return what goes into a module, rows by positions by width, in fp32.

    No edit of the module itself alters that, so it is read from the model without one.
    """
    listener, rows = Listener(), len(batch.ids)
    with model.edited_rows(batch, [Edit(adaptors={module: listener})] * rows, [1] * rows):
        model.logits(batch, batch.places([0], [0]))
    return listener.inputs.float()


@dataclass(frozen=True, eq=False)
class Lesson:
    """The patches that one request gets in an edit."""

    before: Edit
    module: str
    queries: Tensor
    """What goes into the module where the target is predicted, tokens by width."""
    wrong: Tensor
    """The queries that predict another token: what each new patch is to fire on."""
    memory: Tensor
    """What no new patch is to fire on, places by width."""
    new: Patches

    def running(self) -> Edit:
        """Return the edit as it stands, without weights: the model has them meanwhile."""
        return replace(self.before, weights={}, patch=None, adaptors={self.module: self._all()})

    def learnt(self, info: Mapping[str, float]) -> Edit:
        """Return the edit with its new patches, and the queries that later memories have."""
        patches = self._all().detached()
        queries = torch.cat([earlier(self.before, self.module).to(self.queries), self.queries])
        return replace(
            self.before,
            adaptors={self.module: patches} if len(patches) else {},
            info={**info, "patches": len(patches)},
            state={**self.before.state, f"{self.module}.queries": queries},
        )

    def _all(self) -> Patches:
        known = self.before.adaptors.get(self.module)
        return known + self.new if isinstance(known, Patches) else self.new


def begin(edit: Edit, module: str, queries: Tensor, wrong: Tensor, memory: Tensor) -> Lesson:
    """Return a lesson with a patch for each wrong token; it matches its own query by 1.

    ``wrong`` tells of each query whether it is. Raises `PluginError` if the edit so far is none of
    patches of this module.
    """
    own = queries[wrong]
    keys = own / own.square().sum(1, keepdim=True)
    tensors = keys, torch.zeros_like(keys[:, 0]), torch.zeros_like(keys)
    new = Patches(*(tensor.requires_grad_() for tensor in tensors))
    memory = torch.cat([memory, earlier(edit, module)]).to(queries)
    return Lesson(edit, module, queries, own, memory, new)


def earlier(edit: Edit, module: str) -> Tensor:
    """Return the queries of the requests that an edit has so far, tokens by width."""
    known = edit.state.get(f"{module}.queries", torch.empty(0))
    others = edit.adaptors.keys() - {module}
    if others or not all(isinstance(each, Patches) for each in edit.adaptors.values()):
        raise PluginError(
            f"the edit so far is not of patches of {module}, so tpatcher cannot extend it",
            "extend an edit that tpatcher made with the same layer",
        )
    return known
