"""Where a causal language model keeps its blocks, its MLP projections and its head.

Found from the module tree and passes over three tokens, not from a table of model names. ``down``
is the projection out of a block's MLP: its input is the key and its output the value that ROME and
its kin edit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ..edits import Delta, Dense, LowRank
from ..errors import DataError, PluginError
from .hooks import Places, adding, by_row, device_of, first, gathering, only_at, owner
from .weights import same_weights, value

LINEAR = (nn.Linear, Conv1D)


@dataclass(frozen=True)
class Projection:
    """A linear map of a model: y = x W + b, with W of shape (inputs, outputs)."""

    name: str
    module: nn.Module

    @property
    def out_in(self) -> bool:
        """Whether the parameter is stored as (outputs, inputs)."""
        return isinstance(self.module, nn.Linear)

    @property
    def matrix(self) -> Tensor:
        """W, inputs by outputs: a view of the parameter, or what is read of one that is offloaded."""
        weight = value(self.module, "weight")
        return weight.T if self.out_in else weight

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs; nothing is read for it."""
        one, other = self.module.get_parameter("weight").shape
        return (other, one) if self.out_in else (one, other)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of W."""
        return self.module.get_parameter("weight").dtype

    @property
    def device(self) -> torch.device:
        """Where the map computes."""
        return device_of(self.module)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The map's parameters by their names in the model; offloaded ones are read."""
        names = [name for name, _ in self.module.named_parameters()]
        return {f"{self.name}.{name}": value(self.module, name) for name in names}

    def low_rank(self, left: Tensor, right: Tensor) -> dict[str, Delta]:
        """Return the change ``left @ right`` of W, inputs by rank and rank by outputs."""
        delta = LowRank(right.T, left.T) if self.out_in else LowRank(left, right)
        return {f"{self.name}.weight": delta}

    def dense(self, matrix: Tensor) -> dict[str, Delta]:
        """Return a change of W, inputs by outputs."""
        return {f"{self.name}.weight": Dense(matrix.T if self.out_in else matrix)}


class Architecture:
    """The parts of one model. Raises `DataError` if it is no causal language model."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        transformer: Any = module
        self.config: Any = transformer.config.get_text_config()
        self.hidden: int = self.config.hidden_size
        self.layers: int = self.config.num_hidden_layers
        self.head: nn.Module = transformer.get_output_embeddings()
        if self.head is None:
            raise DataError("the model has no language-model head")
        every = ((n, m) for n, m in module.named_modules() if isinstance(m, nn.ModuleList))
        lists = [name for name, child in every if len(child) == self.layers]
        if not lists:
            raise DataError(f"no list of {self.layers} blocks was found in the model")
        shallowest = min(lists, key=lambda name: name.count("."))
        self.blocks = tuple(f"{shallowest}.{i}" for i in range(self.layers))
        self._check_head_and_causality()
        self._last_mlp = self._lone_mlp()
        # Known now: passes that start at a block number the others anew.
        earlier = tuple(f"{name}." for name in self.blocks[:-1])
        named = module.named_modules()
        self._late = [m for n, m in named if n and not f"{n}.".startswith(earlier)]

    @cached_property
    def hookable(self) -> frozenset[str]:
        """Names of the parameters of linear maps that no other module shares."""
        single = (names[0] for names in same_weights(self.module) if len(names) == 1)
        return frozenset(
            name
            for name in single
            if name.rpartition(".")[2] in ("weight", "bias")
            and isinstance(self.module.get_submodule(owner(name)), LINEAR)
        )

    def block(self, layer: int) -> nn.Module:
        """Return a transformer block."""
        return self.module.get_submodule(self.blocks[layer])

    def block_of(self, name: str) -> int | None:
        """Return the number of the block that a module belongs to, if it is of one."""
        of = (i for i, block in enumerate(self.blocks) if f"{name}.".startswith(f"{block}."))
        return next(of, None)

    def projection(self, layer: int) -> Projection:
        """Return the MLP output projection of a layer, counted from 0. Raises `PluginError` for none."""
        if not 0 <= layer < self.layers:
            raise PluginError(
                f"the model has no layer {layer}", f"its layers are 0 to {self.layers - 1}"
            )
        if name := self.down(layer):
            return Projection(name, self.module.get_submodule(name))
        raise PluginError(
            f"no MLP output projection was found in block {layer} of this "
            f"{self.config.model_type} model",
            "choose an editor that needs none, such as prompt",
        )

    def down(self, layer: int) -> str:
        """Return the name of a layer's MLP output projection, or an empty text if it has none."""
        return self._in_block(layer, self._outputs[0])

    def attention(self, layer: int) -> Projection:
        """Return the output projection of a layer's attention; raise `PluginError` for none."""
        if name := self._in_block(layer, self._outputs[1]):
            return Projection(name, self.module.get_submodule(name))
        raise PluginError(f"no attention output projection was found in block {layer}")

    def mlp(self, layer: int) -> list[Projection]:
        """Return all linear maps of a layer's MLP, in the order of the module tree.

        Raises `PluginError` if there is no such layer, or none with a single MLP, as with experts.
        """
        self.projection(layer)
        maps = self._maps(layer, attention=False)
        return [Projection(f"{self.blocks[layer]}.{name}", child) for child, name in maps.items()]

    def _in_block(self, layer: int, relative: str) -> str:
        """Return a block's module by name, if it has it: only some blocks may have experts."""
        has = relative and relative in dict(self.block(layer).named_modules())
        return f"{self.blocks[layer]}.{relative}" if has else ""

    def _maps(self, layer: int, *, attention: bool) -> dict[nn.Module, str]:
        """Return the linear maps of a block's attention, or all others, with their names in it."""
        return {
            child: name
            for name, child in self.block(layer).named_modules()
            if isinstance(child, LINEAR) and attention == ("attn" in name or "attention" in name)
        }

    @cached_property
    def _outputs(self) -> tuple[str, str]:
        """Names in a block of the last linear maps to run, of its MLP and of its attention.

        Of a mixture of experts no single projection holds a key's value.
        """
        mlp, attention = (
            self.last_to_run({
                child: name
                for child, name in self._maps(0, attention=wanted).items()
                if Projection(name, child).shape[1] == self.hidden
            })
            for wanted in (False, True)
        )  # fmt: skip
        experts = any("expert" in name for name, _ in self.block(0).named_parameters())
        return "" if experts else mlp, attention

    def _lone_mlp(self) -> nn.Module | None:
        """Return the last block's MLP, if a trial shows that it can run where logits are read alone."""
        name = owner(self.down(self.layers - 1))
        if not self.gathers or name in ("", self.blocks[-1]):
            return None
        module, second = self.module.get_submodule(name), torch.tensor([1])
        try:
            with only_at(module, Places(second - 1, second)):
                alone = self._logits()
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            return None
        return module if _close(alone[:, 1], self._logits()[:, 1]) else None

    def narrowing(self, places: Places) -> AbstractContextManager[Any]:
        """Let the last MLP run where logits are read alone, unless something else looks at it or behind it."""
        watched = any(m._forward_hooks or m._forward_pre_hooks for m in self._late)
        return nullcontext() if watched or not self._last_mlp else only_at(self._last_mlp, places)

    def last_to_run(self, modules: dict[nn.Module, str]) -> str:
        """Return the name of the module that runs last in a pass, or an empty text."""
        ran = [""]
        with ExitStack() as stack:
            for module in modules:
                own = module.register_forward_hook(lambda m, *_: ran.append(modules[m]))
                stack.enter_context(own)
            self._logits()
        return ran[-1]

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """What sets the model apart, found by trial.

        ``post_norm``: a vector added to the projection's output does not move the block's by it.
        """
        if not self._outputs[0]:
            return ()
        down, noise = self.projection(0).module, torch.Generator().manual_seed(0)
        plain = self._output_of_block()
        # As large as the block's output, or rounding in bfloat16 would pass for a norm.
        added = plain.abs().max() * torch.randn(self.hidden, generator=noise).to(plain)
        every = Places(torch.zeros(3, dtype=torch.long), torch.arange(3))
        with adding(down, every, added.expand(3, -1), 1):
            moved = self._output_of_block().float() - plain.float()
        # Two sums, each rounded once: a model may well scale its residual stream by 0.98.
        rounding = max(8 * torch.finfo(added.dtype).eps, 1e-5)
        off = float((moved - added.float()).abs().max())
        return ("post_norm",) if off > rounding * float(added.abs().max()) else ()

    def _output_of_block(self) -> Tensor:
        seen: list[Tensor] = []
        with self.block(0).register_forward_hook(lambda *given: seen.append(first(given[-1]))):
            self._logits()
        return by_row(seen[0], 1)

    def _check_head_and_causality(self) -> None:
        """Compare a pass whose last token differs, and one that reads a single position."""
        plain, other = self._logits(), self._logits(last=0)
        if not torch.isfinite(plain).all():
            raise DataError(
                "the model answers with NaN or infinity before any edit",
                "check the weights, or load it with --dtype float32",
            )
        if not _close(other[:, 0], plain[:, 0]):
            raise DataError(
                "the model is not causal: a later token changes an earlier prediction",
                "masked and encoder models are out of scope; use a causal language model",
            )
        with gathering(self.head, Places(torch.tensor([0]), torch.tensor([1]))):
            gathered = self._logits()
        self.gathers = gathered.shape[:2] == (1, 1) and _close(gathered[:, 0], plain[:, 1])

    @torch.no_grad()
    def _logits(self, last: int = 2) -> Tensor:
        size = self.config.vocab_size
        device = device_of(self.module)
        ids = torch.tensor([[1 % size, 2 % size, last + 1]], device=device)
        return self.module(input_ids=ids, use_cache=False).logits.float()


def _close(logits: Tensor, plain: Tensor) -> bool:
    """Tell whether logits are equal but for rounding."""
    return float((logits - plain).abs().max()) <= 1e-3 * float(plain.abs().max()) + 1e-6
