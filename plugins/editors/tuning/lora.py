"""LoRA: fine-tuning of low-rank adapters beside some linear maps of every block (Hu et al., 2021).

As EasyEdit's editor, but dropout is off once the edit is made, and where its files say ``adalora`` this is
plain LoRA: those run at rank 12 whatever they say, and never adapt it. The adapters of n cases are one of
rank n·r, masked so that each row keeps the r of its own case; each case draws from its own generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from edit_harness import FROM_PRESET, ModelShape, PluginError, Preset, Request
from edit_harness.edits import Delta, Edit
from edit_harness.interfaces import Origin
from edit_harness.model.architecture import LINEAR, Architecture, Projection
from edit_harness.model.hooks import by_row
from edit_harness.model.model import Model
from edit_harness.registry.settings import Bounds, Count, NotNegative, Positive

from .._search.bases import Batched, Prepared, Shared, in_groups
from .._search.texts import GROUP_TEXTS, Targets, Text, grouped, seeded, teacher_forced
from ..sources import EASYEDIT, OURS

ATTENTION = ("q_proj", "v_proj")


def _preset(
    targets: tuple[str, ...], source: str = EASYEDIT, origin: Origin = "ported", **values: Any
) -> Preset:
    return Preset({"targets": targets, "steps": 70, "lr": 5e-3, **values}, source, origin)


@dataclass
class Lora(Batched, Prepared[Shared]):
    """Trains one adapter for each edit."""

    targets: tuple[str, ...] = FROM_PRESET
    """Ends of the names of the maps that get an adapter, in every block; none for the query and
    value maps of the attention, as far as their names tell."""
    steps: Count = FROM_PRESET
    """Adam's steps for an edit."""
    lr: Positive = FROM_PRESET
    """Adam's rate."""
    rank: Count = 8
    """Rank of an adapter."""
    alpha: Positive = 32.0
    """The change is B A times alpha over rank."""
    dropout: Annotated[float, Bounds(0, below=1)] = 0.1
    """Share of an adapter's inputs that is hidden while it is trained."""
    weight_decay: NotNegative = 0.0
    """Adam's L2 term, towards 0."""
    seed: int = 0
    """Seed of each edit's first A and of its dropout, beside its requests."""

    presets: ClassVar = {
        "pocket": _preset(ATTENTION, OURS, "tuned", steps=30, lr=5e-4),
        "pocket-context": _preset(ATTENTION, f"{OURS}-context", "tuned", steps=30, lr=5e-4),
        "gpt2-xl": _preset(("c_attn",), steps=30),
        "gpt-j-6b": _preset(("fc_in", "fc_out"), steps=50),
        "llama-2-7b": _preset(ATTENTION),
        "llama-3-8b": _preset(ATTENTION),
        "mistral-7b": _preset(ATTENTION, "as Qwen2.5", "guessed", steps=60),
        "qwen2-7b": _preset(ATTENTION, "as Qwen2.5", "guessed", steps=60),
        "qwen2.5-7b": _preset(ATTENTION, steps=60),
    }
    needs: ClassVar[str] = "a prompt and a target, no subject"
    citation: ClassVar[str] = "Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models"

    def guess(self, shape: ModelShape) -> Preset:
        """Return the attention's query and value maps, whatever their names, as for Qwen2.5."""
        return _preset((), "query and value maps, the rest as for Qwen2.5", "guessed", steps=60)

    def check(self, model: Model) -> None:
        """Raise `PluginError` without a map to adapt."""
        self._targets(model)

    def find(self, model: Model) -> Shared:
        """Find the names of the maps, if the field has none."""
        found = {} if self.targets else {"targets": list(query_and_value(model.architecture))}
        return Shared({}, found)

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return for each batch the edit that it finds alone; what they share is the passes."""
        targets = self._targets(model)
        texts = [[teacher_forced(model, request) for request in batch] for batch in batches]
        return in_groups(
            grouped(texts, GROUP_TEXTS, state_bytes(targets, self.rank)),
            lambda group: self._train(model, targets, [batches[i] for i in group]),
        )

    def _targets(self, model: Model) -> list[Projection]:
        """Return the maps of all blocks. Raises `PluginError` for a name that none ends in."""
        ends = self.targets or query_and_value(model.architecture)
        maps = linear_maps(model.architecture)
        found = [[m for m in maps if f".{m.name}".endswith(f".{end}")] for end in ends]
        if not all(found):
            known = dict.fromkeys(each.name.rpartition(".")[2] for each in maps)
            raise PluginError(
                f"no linear map of the model's blocks is named {ends[found.index([])]!r}",
                f"choose targets among: {', '.join(known)}",
            )
        return [each for each in maps if any(each in those for those in found)]

    def _train(
        self, model: Model, targets: Sequence[Projection], batches: Sequence[Sequence[Request]]
    ) -> list[Edit]:
        """Take all steps; every case takes as many, so that one Adam serves them all.

        If one of them ends in numbers that are none, each is trained alone.
        """
        seeds = [seeded(self.seed, *(r.statement for r in requests)) for requests in batches]
        adapters = Adapters(self, targets, seeds)
        adam = torch.optim.Adam(
            adapters.parameters, self.lr, weight_decay=self.weight_decay, fused=True
        )
        parts = self._parts(model, batches)
        losses = torch.empty(0)
        for _ in range(self.steps):
            losses = torch.stack([self._pass(model, adapters, part) for part in parts]).sum(0)
            adam.step()
            adam.zero_grad()
        if len(batches) == 1 or all(bool(f.isfinite().all()) for f in adapters.parameters):
            return [
                Edit(adapters.change(case), info={"loss": loss, "steps": self.steps})
                for case, loss in enumerate(losses.tolist())
            ]
        # A mask does not keep them from the other cases' gradients: 0 times NaN is NaN.
        return [self._train(model, targets, [batch])[0] for batch in batches]

    def _parts(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Part]:
        """Lay out all requests in passes; of a case with too many for one, the gradients add up."""
        rows = [
            Row(
                case,
                teacher_forced(model, request),
                1 / len(batch),
                torch.Generator().manual_seed(seeded(self.seed, "dropout", request.statement)),
            )
            for case, batch in enumerate(batches)
            for request in batch
        ]
        starts = range(0, len(rows), GROUP_TEXTS)
        return [Part(model, rows[i : i + GROUP_TEXTS], len(batches)) for i in starts]

    def _pass(self, model: Model, adapters: Adapters, part: Part) -> Tensor:
        """Add the gradients of a part, and return what it adds to the loss of each case."""
        with adapters.beside(part):
            losses = part.losses(model.logits(part.batch, part.read))
        losses.sum().backward()
        return losses.detach()


@dataclass(frozen=True)
class Row:
    """A request in a pass."""

    case: int
    text: Text
    share: float
    """Its weight in the loss of its case."""
    noise: torch.Generator
    """What its dropout masks are drawn from."""


class Part:
    """Requests that run in one pass, again and again; ``count`` is how many cases there are."""

    def __init__(self, model: Model, rows: Sequence[Row], count: int) -> None:
        self.rows, self._count = rows, count
        texts = [row.text for row in rows]
        self.batch = model.batch([text.ids for text in texts])
        self._targets = Targets(texts, model.device)
        self.read = self.batch.places(self._targets.rows, self._targets.positions)
        mine = [rows[i] for i in self._targets.rows]
        self._owners = torch.tensor([row.case for row in mine], device=model.device)
        shares = [row.share / len(row.text.target) for row in mine]
        self._shares = torch.tensor(shares, dtype=torch.float64)
        starts, lengths = self.batch.starts.tolist(), self.batch.mask.sum(1).tolist()
        self._columns = [slice(s, s + n) for s, n in zip(starts, lengths, strict=True)]

    def losses(self, logits: Tensor) -> Tensor:
        """Return for each case the sum of its rows' weighted losses, from places by vocabulary.

        A row's loss is the mean negative log-likelihood of its target's tokens.
        """
        each = self._targets.log_likelihoods(logits)
        none = torch.zeros(self._count).to(each)
        return -none.index_add(0, self._owners, each * self._shares.to(each))

    def dropped(self, inputs: Tensor, share: float) -> Tensor:
        """Return inputs with a share of them hidden, and the others larger for it.

        Each row's mask is drawn from its own noise, and so depends neither on the other rows, nor
        on padding, nor on the device.
        """
        if not share:
            return inputs
        whole = by_row(inputs, len(self.rows))
        mask = torch.zeros(whole.shape)
        for own, row, columns in zip(mask, self.rows, self._columns, strict=True):
            own[columns].bernoulli_(1 - share, generator=row.noise)
        return (whole * mask.to(whole) / (1 - share)).view_as(inputs)


class Adapters:
    """The adapters ``(α/r) B A x`` of all cases beside each of the maps (equation 3).

    A case's first A is drawn from its seed; B is zero. ``parameters`` has A, cases times rank by
    inputs, and B, outputs by cases times rank, of all maps.
    """

    def __init__(self, given: Lora, targets: Sequence[Projection], seeds: Sequence[int]) -> None:
        self._given, self._targets, self._cases = given, targets, len(seeds)
        firsts = [first_factors(targets, given.rank, seed) for seed in seeds]
        self._factors = []
        for target in targets:
            precision = torch.promote_types(target.dtype, torch.float32)
            first = torch.cat([case[target.name] for case in firsts]).to(target.device, precision)
            second = first.new_zeros(target.shape[1], len(first))
            self._factors.append((nn.Parameter(first), nn.Parameter(second)))
        self.parameters = [factor for factors in self._factors for factor in factors]

    @contextmanager
    def beside(self, part: Part) -> Iterator[None]:
        """Give each row of the coming pass the adapters of its case, behind masks of its own."""
        given, rows = self._given, part.rows
        own = torch.zeros(len(rows), 1, self._cases, given.rank)
        own[range(len(rows)), 0, [row.case for row in rows]] = 1
        masks = own.flatten(2)

        def added(first: Tensor, second: Tensor, _: Any, args: Any, output: Tensor) -> Tensor:
            inner = nn.functional.linear(part.dropped(args[0].to(first), given.dropout), first)
            mine = (by_row(inner, len(rows)) * masks.to(inner)).view_as(inner)
            change = nn.functional.linear(mine, second) * (given.alpha / given.rank)
            return (output + change).to(output.dtype)

        with ExitStack() as stack:
            for target, factors in zip(self._targets, self._factors, strict=True):
                hook = target.module.register_forward_hook(partial(added, *factors))
                stack.enter_context(hook)
            yield

    def change(self, case: int) -> dict[str, Delta]:
        """Return what a case's adapters add to the weights: (α/r) B A, of low rank."""
        rank, scale = self._given.rank, self._given.alpha / self._given.rank
        own = slice(case * rank, (case + 1) * rank)
        weights: dict[str, Delta] = {}
        for target, factors in zip(self._targets, self._factors, strict=True):
            first, second = (factor.detach() for factor in factors)
            weights |= target.low_rank(first[own].T.clone(), scale * second[:, own].T)
        return weights


def first_factors(targets: Sequence[Projection], rank: int, seed: int) -> dict[str, Tensor]:
    """Return A of each map, rank by inputs, uniform within ±1/√inputs as peft draws it."""
    noise = torch.Generator().manual_seed(seed)
    draws = {each.name: torch.rand(rank, each.shape[0], generator=noise) for each in targets}
    return {name: (2 * draw - 1) / draw.shape[1] ** 0.5 for name, draw in draws.items()}


def linear_maps(architecture: Architecture) -> list[Projection]:
    """Return the linear maps of all blocks."""
    return [
        Projection(f"{block}.{name}", child)
        for i, block in enumerate(architecture.blocks)
        for name, child in architecture.block(i).named_modules()
        if isinstance(child, LINEAR)
    ]


def query_and_value(architecture: Architecture) -> tuple[str, ...]:
    """Return the names of the attention's maps but for keys and output; one may be of all three.

    Raises `PluginError` if no attention was found.
    """
    attention, _, output = architecture.attention(0).name.rpartition(".")
    names = [
        each.name.removeprefix(f"{attention}.")
        for each in linear_maps(architecture)
        if each.name.startswith(f"{attention}.")
    ]
    return tuple(name for name in names if name != output and not name.startswith("k"))


def state_bytes(targets: Sequence[Projection], rank: int) -> int:
    """Return the bytes of one case's adapters, of their gradients and of Adam's two moments."""
    wide = (torch.promote_types(t.dtype, torch.float32).itemsize for t in targets)
    return 4 * rank * sum(sum(t.shape) * size for t, size in zip(targets, wide, strict=True))
