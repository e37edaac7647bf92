"""LoRA: fine-tuning of low-rank adapters beside some linear maps of every block (Hu et al., 2021).

Follows EasyEdit's editor: Adam for a fixed number of steps, the mean cross-entropy of the target's
tokens after those before them. Two things differ: dropout is off once the edit is made (there it
stays on, so that two passes of one edited model differ), and where its files say ``adalora`` this
is plain LoRA. Those run at rank 12 whatever they say, without any adaptation of the rank, and not
at all with the release of peft that they ask for; ``rank=12`` comes closest.

The adapters are peft's; many cases share forward passes, each with its own: see `adapters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, Editor, ModelShape, PluginError, Preset, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Origin
from edit_harness.model.architecture import LINEAR, Architecture, Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Bounds, Count, NotNegative, Positive

from ..sources import EASYEDIT, OURS
from . import adapters
from .adapters import Adapters, Row, Shape, injected, peft, seeded
from .tuning import GROUP_TEXTS, Text, grouped, teacher_forced

ATTENTION = ("q_proj", "v_proj")


def _preset(
    targets: tuple[str, ...],
    steps: int,
    source: str = EASYEDIT,
    origin: Origin = "ported",
    *,
    lr: float = 5e-3,
) -> Preset:
    return Preset({"targets": targets, "steps": steps, "lr": lr}, source, origin)


@dataclass
class Lora(Editor):
    """Trains one adapter for each edit."""

    targets: tuple[str, ...] = FROM_PRESET
    """Ends of the names of the maps that get an adapter, in every block; none for the query and
    value maps of the attention, as far as their names tell."""
    steps: Count = FROM_PRESET
    lr: Positive = FROM_PRESET
    rank: Count = 8
    alpha: Positive = 32.0
    """The change is B A times alpha over rank."""
    dropout: Annotated[float, Bounds(0, below=1)] = 0.1
    """Share of an adapter's inputs that is hidden while it is trained."""
    weight_decay: NotNegative = 0.0
    """Adam's L2 term, towards 0."""
    seed: int = 0
    """Seed of each edit's first A and of its dropout, beside its requests."""

    presets: ClassVar = {
        "pocket": _preset(ATTENTION, 30, OURS, "tuned", lr=5e-4),
        "gpt2-xl": _preset(("c_attn",), 30),
        "gpt-j-6b": _preset(("fc_in", "fc_out"), 50),
        "llama-2-7b": _preset(ATTENTION, 70),
        "llama-3-8b": _preset(ATTENTION, 70),
        "mistral-7b": _preset(ATTENTION, 60, "as Qwen2.5", "guessed"),
        "qwen2-7b": _preset(ATTENTION, 60, "as Qwen2.5", "guessed"),
        "qwen2.5-7b": _preset(ATTENTION, 60),
    }
    needs: ClassVar[str] = "the package peft"
    citation: ClassVar[str] = "Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models"

    def __post_init__(self) -> None:
        self._found: tuple[str, ...] = ()

    @property
    def found(self) -> dict[str, Any]:
        """The names of the maps, where the field has none."""
        return {"targets": list(self._found)} if self._found else {}

    def guess(self, shape: ModelShape) -> Preset:
        """Return the attention's query and value maps, whatever their names, as for Qwen2.5."""
        return _preset((), 60, "query and value maps, the rest as for Qwen2.5", "guessed")

    def check(self, model: Model) -> None:
        """Raise `PluginError` without peft or a map to adapt."""
        peft()
        self._targets(model)

    def prepare(self, model: Model) -> None:
        """Find the maps, if the field has no names."""
        self._found = () if self.targets else query_and_value(model.architecture)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the low-rank changes of the maps that one adapter makes."""
        (edit,) = self.edit_each(model, [requests])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return for each batch the edit that it finds alone; what they share is the passes."""
        targets = self._targets(model)
        texts = [[teacher_forced(model, request) for request in batch] for batch in batches]
        edits: dict[int, Edit] = {}
        for group in grouped(texts, GROUP_TEXTS, state_bytes(targets, self.rank)):
            made = self._train(model, targets, [batches[i] for i in group])
            edits |= dict(zip(group, made, strict=True))
        return [edits[i] for i in range(len(batches))]

    def _targets(self, model: Model) -> list[Projection]:
        """Return the maps of all blocks. Raises `PluginError` for a name that none ends in."""
        ends = self.targets or query_and_value(model.architecture)
        maps = linear_maps(model.architecture)
        for end in ends:
            if not any(_is(each.name, end) for each in maps):
                known = dict.fromkeys(each.name.rpartition(".")[2] for each in maps)
                raise PluginError(
                    f"no linear map of the model's blocks is named {end!r}",
                    f"choose targets among: {', '.join(known)}",
                )
        return [each for each in maps if any(_is(each.name, end) for end in ends)]

    def _train(
        self, model: Model, targets: Sequence[Projection], batches: Sequence[Sequence[Request]]
    ) -> list[Edit]:
        """Take all steps; every case takes as many, so that one Adam serves them all.

        If one of them ends in numbers that are none, each is trained alone.
        """
        given = Shape(self.rank, self.alpha, self.dropout)
        seeds = [seeded(self.seed, *(r.statement for r in requests)) for requests in batches]
        firsts = [adapters.first_factors(targets, self.rank, seed) for seed in seeds]
        with injected(model, targets, given, firsts) as inside:
            adam = torch.optim.Adam(
                inside.parameters, self.lr, weight_decay=self.weight_decay, fused=True
            )
            parts = self._parts(model, batches)
            losses = torch.empty(0)
            for _ in range(self.steps):
                losses = torch.stack([self._pass(model, inside, part) for part in parts]).sum(0)
                adam.step()
                adam.zero_grad()
            found = [
                Edit(inside.change(case), info={"loss": loss, "steps": self.steps})
                for case, loss in enumerate(losses.tolist())
            ]
            finite = all(bool(factor.isfinite().all()) for factor in inside.parameters)
        if finite or len(batches) == 1:
            return found
        # A mask does not keep them from the other cases' gradients: 0 times NaN is NaN.
        return [self._train(model, targets, [batch])[0] for batch in batches]

    def _parts(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Part]:
        """Lay out all requests in passes; of a case with too many for one, the gradients add up."""
        rows = [
            (Row(case, self._noise(request)), teacher_forced(model, request), 1 / len(batch))
            for case, batch in enumerate(batches)
            for request in batch
        ]
        starts = range(0, len(rows), GROUP_TEXTS)
        return [Part(model, rows[i : i + GROUP_TEXTS], len(batches)) for i in starts]

    def _noise(self, request: Request) -> torch.Generator:
        seed = seeded(self.seed, "dropout", request.statement)
        return torch.Generator().manual_seed(seed)

    def _pass(self, model: Model, inside: Adapters, part: Part) -> Tensor:
        """Add the gradients of a part, and return what it adds to the loss of each case."""
        with inside.sharing(part.batch, part.rows):
            losses = part.losses(model.logits(part.batch, part.read))
        losses.sum().backward()
        return losses.detach()


class Part:
    """Requests that run in one pass, again and again."""

    def __init__(self, model: Model, given: Sequence[tuple[Row, Text, float]], count: int) -> None:
        """Lay out rows, each with its text and its weight in the loss of its case."""
        self.rows = [row for row, _, _ in given]
        self.batch = model.batch([text.ids for _, text, _ in given])
        reads = [(i, at) for i, (_, text, _) in enumerate(given) for at in text.reads]
        self.read = self.batch.places(*zip(*reads, strict=True))
        each = [(row, text, share, token) for row, text, share in given for token in text.target]
        self._tokens = torch.tensor([token for *_, token in each], device=model.device)
        self._owners = torch.tensor([row.case for row, *_ in each], device=model.device)
        shares = [share / len(text.target) for _, text, share, _ in each]
        self._shares = torch.tensor(shares, dtype=torch.float64)
        self._count = count

    def losses(self, logits: Tensor) -> Tensor:
        """Return for each case the sum of its rows' weighted losses, from places by vocabulary.

        A row's loss is the mean negative log-likelihood of its target's tokens.
        """
        chosen = logits.log_softmax(-1).gather(1, self._tokens[:, None])[:, 0]
        none = torch.zeros(self._count).to(chosen)
        return -none.index_add(0, self._owners, chosen * self._shares.to(chosen))


def _is(name: str, end: str) -> bool:
    return f".{name}".endswith(f".{end}")


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
    sizes = (sum(t.shape) * adapters.wide(t.dtype).itemsize for t in targets)
    return 4 * rank * sum(sizes)
