"""Adapters of peft inside a model for a while: one for each case, rows of many cases in one pass.

An adapter adds ``(α/r) B A x`` to a linear map (Hu et al., 2021, equation 3). Those of n cases are
one adapter of rank n·r whose inner activations are masked: each row keeps the r of its own case,
and so the gradients of the others are exactly zero. peft's mixed batches would do too, but they
take one case after another, each with a gradient as large as the batch.

From here are start values and dropout masks: peft draws both from the global random state, where
a case would depend on those before it. What is minimised is the editor's matter; an adapter
leaves this module as an ordinary low-rank change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from edit_harness import PluginError
from edit_harness.edits import Delta
from edit_harness.model.architecture import Projection
from edit_harness.model.batch import Batch
from edit_harness.model.hooks import by_row, registered
from edit_harness.model.model import Model

from .tuning import wide

NAME = "edit"
"""What peft calls the one adapter."""


@dataclass(frozen=True)
class Shape:
    """Hyperparameters of a case's adapters."""

    rank: int
    alpha: float
    """The change is B A times alpha over rank."""
    dropout: float
    """Share of an adapter's inputs that training hides."""


@dataclass(frozen=True)
class Row:
    """Whose adapters a row of a pass has, and what its dropout masks are drawn from."""

    case: int
    noise: torch.Generator


class Adapters:
    """The adapters of all cases in each of the given maps, while `injected` lasts."""

    def __init__(
        self,
        model: Model,
        targets: Sequence[Projection],
        given: Shape,
        firsts: Sequence[Mapping[str, Tensor]],
    ) -> None:
        self._given, self._targets, self._cases = given, targets, len(firsts)
        self._layers = {t.name: model.module.get_submodule(t.name) for t in targets}
        for target in targets:
            layer: Any = self._layers[target.name]
            first = torch.cat([case[target.name] for case in firsts]).to(
                target.device, wide(target.dtype)
            )
            layer.lora_A[NAME].weight = nn.Parameter(first)
            second = first.new_zeros(target.shape[1], len(first))
            layer.lora_B[NAME].weight = nn.Parameter(second)

    def factors(self, target: Projection) -> tuple[nn.Parameter, nn.Parameter]:
        """Return A, cases times rank by inputs, and B, outputs by cases times rank, of a map."""
        layer: Any = self._layers[target.name]
        return layer.lora_A[NAME].weight, layer.lora_B[NAME].weight

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All A and B."""
        return [factor for target in self._targets for factor in self.factors(target)]

    @contextmanager
    def sharing(self, batch: Batch, rows: Sequence[Row]) -> Iterator[None]:
        """Give each row of the coming pass the adapters of its case, behind masks of its own."""
        own = torch.zeros(len(rows), 1, self._cases, self._given.rank)
        own[range(len(rows)), 0, [row.case for row in rows]] = 1
        masks = own.flatten(2)

        def only_own(_: nn.Module, __: Any, inner: Tensor) -> Tensor:
            return (by_row(inner, len(rows)) * masks.to(inner)).view_as(inner)

        with ExitStack() as stack:
            for layer in self._layers.values():
                adapter: Any = layer
                adapter.lora_dropout[NAME] = Dropout(self._given.dropout, batch, rows)
                stack.enter_context(registered(adapter.lora_A[NAME], only_own))
            yield

    def change(self, case: int) -> dict[str, Delta]:
        """Return what a case's adapters add to the weights: (α/r) B A, of low rank."""
        rank, scale = self._given.rank, self._given.alpha / self._given.rank
        own = slice(case * rank, (case + 1) * rank)
        weights: dict[str, Delta] = {}
        for target in self._targets:
            first, second = (factor.detach() for factor in self.factors(target))
            weights |= target.low_rank(first[own].T.clone(), scale * second[:, own].T)
        return weights


@contextmanager
def injected(
    model: Model,
    targets: Sequence[Projection],
    given: Shape,
    firsts: Sequence[Mapping[str, Tensor]],
) -> Iterator[Adapters]:
    """Put adapters into the model, and its own modules back in the end, whatever happens.

    ``firsts`` has each case's first A by the map's name, rank by inputs; B is zero. peft makes
    the adapters without weights, and so draws nothing.
    """
    package = peft()
    config = package.LoraConfig(
        r=given.rank * len(firsts),
        lora_alpha=given.alpha * len(firsts),
        target_modules=[target.name for target in targets],
        fan_in_fan_out=isinstance(targets[0].module, Conv1D),
    )
    try:
        package.inject_adapter_in_model(config, model.module, NAME, low_cpu_mem_usage=True)
        yield Adapters(model, targets, given, firsts)
    finally:
        for target in targets:
            model.module.set_submodule(target.name, target.module)
        vars(model.module).pop("peft_config", None)


def peft() -> Any:
    """Return the package. Raises `PluginError` if it is not installed."""
    try:
        import peft
    except ImportError:
        raise PluginError(
            "the editor lora needs the package peft", "pip install 'edit-harness[lora]'"
        ) from None
    return peft


class Dropout(nn.Module):
    """Dropout with a mask for each row of a batch, drawn from the row's own noise.

    So masks depend neither on the other rows, nor on padding, nor on the device.
    """

    def __init__(self, share: float, batch: Batch, rows: Sequence[Row]) -> None:
        super().__init__()
        self._share, self._rows = share, rows
        lengths = batch.mask.sum(1).tolist()
        starts = batch.starts.tolist()
        self._columns = [slice(s, s + n) for s, n in zip(starts, lengths, strict=True)]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs with a share of them hidden, and the others larger for it."""
        if not self._share:
            return inputs
        whole = by_row(inputs, len(self._rows))
        mask = torch.zeros(whole.shape)
        for own, row, columns in zip(mask, self._rows, self._columns, strict=True):
            own[columns].bernoulli_(1 - self._share, generator=row.noise)
        return (whole * mask.to(whole) / (1 - self._share)).view_as(inputs)


def first_factors(targets: Sequence[Projection], rank: int, seed: int) -> dict[str, Tensor]:
    """Return A of each map, rank by inputs, uniform within ±1/√inputs as peft draws it."""
    noise = torch.Generator().manual_seed(seed)
    widths = {target.name: target.shape[0] for target in targets}
    return {
        name: (2 * torch.rand(rank, width, generator=noise) - 1) / width**0.5
        for name, width in widths.items()
    }


def seeded(*parts: object) -> int:
    """Return a seed that depends on all that is given, and on nothing else."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
