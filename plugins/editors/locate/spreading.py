"""Values found at one layer and written by changes of several: what MEMIT and its kin share.

Meng et al. (2023), section 4: for each request, a search finds z, what should leave the last of
the edited layers at the subject. Then, layer by layer from the lowest on, the keys at the subject
and what now leaves the last layer are read under the changes so far, and the layer's projection
gets the change A Rᵀ that turns its keys K towards a share R of what is missing.

Every batch of requests has an edit of its own; what batches share is the passes, and the one
factorisation that a layer's statistic takes. Which A is the editors' matter, one module for each:
here is the least-squares solution (K Kᵀ + M)⁻¹ K for a metric M that `solver` inverts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from edit_harness import (
    FROM_PRESET,
    DataError,
    Editor,
    ModelShape,
    PluginError,
    Request,
    UsageError,
)
from edit_harness.edits import UNEDITED, Edit
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, NotNegative, Positive

from .._search.covariance import Covariance, find, layers_of
from .._search.suffix import LastTokens
from .contexts import BARE, checked, fill, sampled
from .value_search import Found, Settings, alike, search

STARTS = ("The", "Therefore", "Because", "I", "You")
"""How the sampled contexts begin, one for each."""
Solver: TypeAlias = Callable[[Tensor], Tensor]
"""K -> M⁻¹K for a symmetric M: keys as columns, in float64."""


@dataclass(frozen=True)
class Shared:
    """What all edits of one model share."""

    model: Model
    contexts: tuple[str, ...]
    solvers: tuple[Solver, ...]
    """One for each layer."""
    provenance: dict[str, str]


@dataclass
class Spreading(Editor):
    """Searches what should leave the last layer, and spreads the change over all of them."""

    layers: tuple[int, ...] = FROM_PRESET
    """The edited layers, the lowest first."""
    steps: Count = FROM_PRESET
    """Forward passes of the value search; at most ``steps - 1`` Adam steps."""
    lr: Positive = FROM_PRESET
    weight_decay: NotNegative = FROM_PRESET
    clamp: Positive = FROM_PRESET
    """Largest norm of the value's change, in norms of the unedited value."""
    kl_factor: NotNegative = 0.0625
    stop: NotNegative = 5e-2
    """The search ends before a step once the loss is below this."""
    moments: tuple[str, ...] = ()
    """Files with the layers' second moments; by default those of the model or of the cache."""
    contexts: tuple[str, ...] = ()
    """Texts with ``{}`` for the prompt, the bare ``{}`` first; by default sampled."""
    context_length: Count = 10
    """Tokens of a sampled context."""
    seed: int = 0
    """Seed of the sampled contexts."""

    command: ClassVar[str]
    """The name by which the editor is asked for, for advice in errors."""
    needs: ClassVar[str] = "a subject in each prompt; the second moments of all edited layers' keys"

    def __post_init__(self) -> None:
        self._shared: Shared | None = None

    @abstractmethod
    def solver(self, model: Model, layer: int, moment: Covariance) -> Solver:
        """Return K -> M⁻¹K for the metric M of a layer."""

    def directions(self, keys: Tensor, solved: Tensor) -> Tensor:
        """Return A = (K Kᵀ + M)⁻¹ K, width by n, of a batch's keys and of M⁻¹K.

        By Woodbury's identity that is B (I + KᵀB)⁻¹ with B = M⁻¹K, for a single key
        b / (1 + k·b): never a system as large as the layer is wide.
        """
        own = torch.eye(keys.shape[1], dtype=keys.dtype)
        return torch.linalg.solve(own + keys.T @ solved, solved, left=False)

    def changed(self, model: Model) -> tuple[str, ...]:
        """Return the modules that the search changes: the residual stream behind the last layer.

        The first is the one whose output the edit aims at.
        """
        return (model.architecture.blocks[self.layers[-1]],)

    def share(self, left: int) -> float:
        """Return the part of what is missing that a layer takes on, of so many still to edit."""
        return 1 / left

    def state(self, keys: Sequence[Tensor]) -> Mapping[str, Tensor]:
        """Return what `extend` needs of an edit's keys, for each layer width by n."""
        return {}

    @property
    def moment_layers(self) -> tuple[int, ...]:
        """The edited layers."""
        return tuple(self.layers)

    @property
    def provenance(self) -> dict[str, str]:
        """Digests of the second moments, by layer."""
        return self._shared.provenance if self._shared else {}

    @property
    def found(self) -> dict[str, Any]:
        """The contexts."""
        return {"contexts": list(self._shared.contexts)} if self._shared else {}

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the model has no such layers or normalises what they put out.

        Raises `UsageError` for layers out of order.
        """
        if not self.layers or list(self.layers) != sorted(set(self.layers)):
            raise UsageError(
                f"{self.command} edits its layers from the lowest on, not {self.layers}",
                "give them in ascending order: layers=4,5,6",
            )
        for layer in self.layers:
            model.architecture.projection(layer)
        if "post_norm" in model.architecture.flags:
            raise PluginError(
                f"{self.command} adds up what the edited layers put out, but this model "
                "normalises it before it reaches the residual stream",
                "choose an editor of one layer, such as rome",
            )
        if self.changed(model)[0] in model.architecture.blocks:
            model.architecture.behind(self.layers[-1])

    def prepare(self, model: Model) -> None:
        """Find the second moments and sample the contexts.

        Raises `DataError` if a layer's second moment is not there.
        """
        solvers, digests = list[Solver](), {}
        for layer in self.layers:  # a moment is as large as a gigabyte, so one at a time
            moment = self.moment(model, layer)
            solvers.append(self.solver(model, layer, moment))
            digests[f"moments.{layer}"] = moment.digest
        self._shared = Shared(model, self._contexts(model), tuple(solvers), digests)

    def moment(self, model: Model, layer: int) -> Covariance:
        """Return the second moment of a layer's keys. Raises `DataError` that says how to get it."""
        file = next((file for file in self.moments if layer in layers_of(Path(file))), "")
        if self.moments and not file:
            raise DataError(
                f"none of {', '.join(self.moments)} has a second moment of layer {layer}",
                f"the editor needs layers {', '.join(map(str, self.layers))}",
            )
        moment = find(model, layer, file)
        if moment is None:
            name = model.source.path or "MODEL"
            raise DataError(
                f"there is no second moment of layer {layer} for this model",
                f"run: edit-harness prepare --editor {self.command} --model {name} --corpus FILE",
            )
        return moment

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return one edit that writes all requests at once."""
        (edit,) = self.edit_each(model, [requests])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return an edit for each batch of requests, all found together."""
        return self.spread(model, batches, self.ready(model).solvers)

    def spread(
        self, model: Model, batches: Sequence[Sequence[Request]], solvers: Sequence[Solver]
    ) -> list[Edit]:
        """Return an edit for each batch, with one solver for each layer."""
        if not batches:
            return []
        requests = [request for batch in batches for request in batch]
        sizes = [len(batch) for batch in batches]
        values = self._search(model, requests)
        wanted = torch.stack([found.values[0] + found.delta for found in values])
        subjects = Subjects(model, requests, self.ready(model).contexts, self.layers[0])
        (aim, *_), edits = self.changed(model), [UNEDITED] * len(batches)
        keys: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            owners = [edit for edit, size in zip(edits, sizes, strict=True) for _ in range(size)]
            seen, now = subjects.seen(owners, layer, aim)
            missing = (wanted - now) * self.share(len(self.layers) - i)
            keys.append(seen.T.double().cpu())
            changes = self._changes(model, layer, keys[-1], missing, solvers[i], sizes)
            edits = [edit + change for edit, change in zip(edits, changes, strict=True)]
        infos = [_info(own) for own in _split(values, sizes)]
        states = [self.state(own) for own in zip(*(k.split(sizes, 1) for k in keys), strict=True)]
        return [
            edit + Edit(info=info, state=state)
            for edit, info, state in zip(edits, infos, states, strict=True)
        ]

    def ready(self, model: Model) -> Shared:
        """Return what all edits of the model share."""
        if self._shared is None or self._shared.model is not model:
            self.prepare(model)
        assert self._shared is not None
        return self._shared

    def settings(self) -> Settings:
        """Return the hyperparameters of the search."""
        return Settings(
            self.steps, self.lr, self.weight_decay, self.clamp, self.kl_factor, self.stop
        )

    def _search(self, model: Model, requests: Sequence[Request]) -> list[Found]:
        """Return what is wanted at each request's subject; one request does not move another's."""
        contexts, layer = self.ready(model).contexts, self.layers[-1]
        given, changed = self.settings(), self.changed(model)
        found: dict[int, Found] = {}
        for group in alike(model, requests, len(contexts)):
            own = [requests[i] for i in group]
            found |= zip(group, search(model, layer, own, contexts, given, changed), strict=True)
        return [found[i] for i in range(len(requests))]

    def _changes(
        self,
        model: Model,
        layer: int,
        keys: Tensor,
        missing: Tensor,
        solver: Solver,
        sizes: Sequence[int],
    ) -> list[Edit]:
        """Return each batch's change A Rᵀ of one layer.

        ``keys`` are width by requests, ``missing`` is R, requests by hidden size.
        """
        projection = model.architecture.projection(layer)
        solved = solver(keys).to(keys.device)
        parts = zip(keys.split(sizes, 1), solved.split(sizes, 1), missing.split(sizes), strict=True)
        return [
            Edit(projection.low_rank(self.directions(own, b).to(rest), rest))
            for own, b, rest in parts
        ]

    def _contexts(self, model: Model) -> tuple[str, ...]:
        if self.contexts:
            return checked(self.contexts)
        each = (sampled(model, (self.context_length,), 1, self.seed, start) for start in STARTS)
        return (BARE, *(text for _, text in each))


class Subjects:
    """The subjects of requests in their contexts, looked at while edits grow."""

    def __init__(
        self, model: Model, requests: Sequence[Request], contexts: Sequence[str], lowest: int
    ) -> None:
        self.model, self._count = model, len(contexts)
        texts = [_to_subject(model, r, context) for r in requests for context in contexts]
        self._ends = LastTokens(model, texts, lowest)

    def seen(self, edits: Sequence[Edit], layer: int, aim: str) -> tuple[Tensor, Tensor]:
        """Return each request's key at a layer, and what a module puts out for the bare prompt.

        Both have a row for each request, under the edit that ``edits`` has for it. ``aim`` is a
        block or a linear map that no edit has changed so far. A key is half that of the bare
        prompt, half the mean of those in the other contexts.
        """
        architecture = self.model.architecture
        is_block = aim in architecture.blocks
        source = architecture.behind(architecture.blocks.index(aim)) if is_block else aim
        each = [edit for edit in edits for _ in range(self._count)]
        names = (architecture.projection(layer).name, source)
        keys, now = (
            kept.view(len(edits), self._count, -1) for kept in self._ends.inputs(each, names)
        )
        key = keys[:, 0] if self._count == 1 else (keys[:, 0] + keys[:, 1:].mean(1)) / 2
        return key, now[:, 0] if is_block else _through(self.model, aim, now[:, 0])


@torch.no_grad()
def _through(model: Model, name: str, inputs: Tensor) -> Tensor:
    """Return what a linear map makes of inputs, rows by width."""
    return model.module.get_submodule(name)(inputs.to(model.dtype)[:, None])[:, 0].to(inputs)


def _to_subject(model: Model, request: Request, context: str) -> tuple[int, ...]:
    """Return the tokens of a request's prompt in a context, as far as the subject's last one."""
    text, target = fill(context, request.text), request.target_new
    subject = model.tokens.subject_last(request, text, target)
    parts = model.tokens.split(text, target)
    return (parts.prompt + parts.target)[: subject + 1]


def _split(values: Sequence[Found], sizes: Sequence[int]) -> list[Sequence[Found]]:
    """Return the values of each batch."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [values[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _info(values: Sequence[Found]) -> dict[str, float]:
    """Return how the searches of one edit went, in the mean."""
    return {
        "loss": fmean(found.losses[-1][0] for found in values),
        "steps": fmean(len(found.losses) - 1 for found in values),
        "delta_norm": fmean(float(found.delta.norm()) for found in values),
        "value_norm": fmean(float(found.values[0].norm()) for found in values),
    }


def guessed_layers(shape: ModelShape) -> tuple[int, ...]:
    """Return five layers that end where GPT-2's do, or layers 4 to 8 of other deep models.

    The last block is left out: behind it, no later token looks at the subject.
    """
    last = 8 if shape.layers >= 28 and shape.type != "gpt2" else round(0.35 * shape.layers)
    last = max(min(last, shape.layers - 2), 0)
    return tuple(range(max(last - 4, 0), last + 1))
