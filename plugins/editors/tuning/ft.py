"""FT and FT-L: fine-tuning of one MLP output projection, for FT-L within an L-infinity box.

As the baselines of ROME's and MEMIT's code: Adam on weight and bias, all target tokens scored at the last
prompt position, without teacher forcing. Source: Zhu et al. (2020); Meng et al. (2022), appendix E.1.
Cases share passes, which run only what lies above the projection; each has its own change, kept in fp32 or
more, and its own Adam, whose gradient is the outputs' times the clean keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, ModelShape, Preset, Request
from edit_harness.edits import Delta, Dense, Edit
from edit_harness.interfaces import Origin
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive

from .._search.bases import Batched, in_groups
from .._search.suffix import SuffixForward
from .._search.texts import Targets, Text, grouped, teacher_forced
from ..sources import ALPHAEDIT, EASYEDIT, KMENG, OURS


def _preset(layer: int, source: str, origin: Origin = "ported", **values: Any) -> Preset:
    return Preset({"layer": layer, "lr": 5e-4, "bias": True, **values}, source, origin)


def _as_mistral(layer: int) -> Preset:
    """Return FT's own layer for the family, within Mistral's box."""
    return _preset(layer, "FT's layer, the box of Mistral", "guessed", epsilon=5e-5, bias=False)


@dataclass
class FineTuning(Batched):
    """Gradient descent on one projection until the targets are likely."""

    layer: Natural = FROM_PRESET
    """The layer whose MLP's output projection is trained."""
    steps: Count = 25
    """Adam's steps at most, for each chunk."""
    lr: Positive = FROM_PRESET
    """Adam's rate."""
    weight_decay: NotNegative = 0.0
    """Adam's L2 term, towards 0."""
    stop: NotNegative = 1e-2
    """No step is taken below this mean loss, and the search ends."""
    position: Literal["last", "teacher"] = "last"
    """Where the target is learned: last, all its tokens at the prompt's end, as ROME's authors do;
    teacher, each behind those before it."""
    bias: bool = FROM_PRESET
    """Whether the projection's bias is trained too, where it has one."""
    chunk: Count = 64
    """Requests of one step; more are taken one chunk after another."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, "tuned", lr=5e-3),
        "pocket-context": _preset(1, OURS, "tuned", lr=5e-3),
        "gpt2-medium": _preset(1, "as GPT-2 XL", "guessed"),
        "gpt2-large": _preset(1, "as GPT-2 XL", "guessed"),
        "gpt2-xl": _preset(1, KMENG, "paper"),
        "gpt-j-6b": _preset(21, KMENG, "paper"),
        "gpt-neox-20b": _preset(33, "as GPT-J by depth", "guessed"),
        "llama-2-7b": _preset(21, EASYEDIT, bias=False),
        "llama-3-8b": _preset(21, f"{EASYEDIT}, {ALPHAEDIT}", bias=False),
        "mistral-7b": _preset(21, "as Llama", "guessed", bias=False),
        "qwen2-7b": _preset(27, EASYEDIT, bias=False),
        "qwen2.5-7b": _preset(27, EASYEDIT, bias=False),
    }
    needs: ClassVar[str] = "memory for four more of the layer's projection"
    citation: ClassVar[str] = "Zhu et al. (2020), Modifying Memories in Transformer Models"

    def guess(self, shape: ModelShape) -> Preset:
        """Return the layer after which ROME would edit."""
        return _preset(round(0.35 * shape.layers), "ROME's layer by depth", "guessed")

    def bound(self) -> float | None:
        """Return the half-width of the box around each weight, or None for no box."""
        return None

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no projection."""
        model.architecture.projection(self.layer)

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return for each batch the edit that it finds alone; what they share is the passes."""
        texts = [[self.text(model, request) for request in batch] for batch in batches]
        size = state_bytes(model.architecture.projection(self.layer))
        return in_groups(
            grouped(texts, self.chunk, size),
            lambda group: self._descend(model, [texts[i] for i in group]),
        )

    def reorder(self, cases: Sequence[Case], epoch: int) -> bool:
        """Deal the requests of cases anew before a pass over all; return whether any were."""
        return False

    def text(self, model: Model, request: Request) -> Text:
        """Return a request's tokens and where they are scored."""
        if self.position == "teacher":
            return teacher_forced(model, request)
        part = model.tokens.split(request.text, request.target_new)
        return Text(part.prompt, (len(part.prompt) - 1,) * len(part.target), part.target)

    def _descend(self, model: Model, batches: Sequence[Sequence[Text]]) -> list[Edit]:
        """Move a change for each batch until its targets are likely.

        A pass runs all rows it was laid out for, so it is laid out anew when half are done with.
        """
        cases = [Case(self, model, texts) for texts in batches]
        live, parts = list(cases), list[Part]()
        for epoch in range(self.steps):
            if self.reorder(live, epoch) or not parts or 2 * len(live) <= len(parts[0].cases):
                chunks = range(max(len(case.chunks) for case in live))
                parts = [Part(model, self.layer, live, chunk) for chunk in chunks]
            for part in parts:
                self._pass(part, live)
            for case in live:
                case.losses.append(case.total / case.count)
                case.total = 0.0
            # A loss that is no number never gets below the threshold.
            live = [case for case in live if not case.losses[-1] < self.stop]
            if not live:
                break
        return [case.edit() for case in cases]

    def _pass(self, part: Part, live: Collection[Case]) -> None:
        """Run a part, and take a step of each live case that is not below the threshold."""
        change = part.change().requires_grad_()
        losses = part.losses(change)
        each = list(zip(part.cases, part.rows, losses.tolist(), strict=True))
        for case, rows, loss in each:
            case.total += loss * (rows.stop - rows.start)
        moving = [i for i, (case, _, loss) in enumerate(each) if case in live and loss >= self.stop]
        if moving:
            (gradient,) = torch.autograd.grad(losses[moving].sum(), change)
            for case, rows, _ in (each[i] for i in moving):
                case.step(part.again.keys[rows], gradient[rows])


class Case:
    """A batch of requests and its own change of the projection, moved by its own Adam."""

    losses: list[float]
    """The mean over requests in each pass."""
    total: float
    """The sum over requests in this pass so far."""

    def __init__(self, editor: FineTuning, model: Model, texts: Sequence[Text]) -> None:
        projection = model.architecture.projection(editor.layer)
        self.editor, self.count = editor, len(texts)
        self.deal(texts)
        self.losses, self.total = [], 0.0
        self._out_in = projection.out_in
        self._originals = {
            name: tensor
            for name, tensor in projection.parameters.items()
            if editor.bias or not name.endswith(".bias")
        }
        # Contiguous, as gradients are: the fused Adam takes no notice of strides.
        self._changes = {
            name: torch.zeros(
                tensor.shape,
                dtype=torch.promote_types(tensor.dtype, torch.float32),
                device=model.device,
            )
            for name, tensor in self._originals.items()
        }
        self._adam = torch.optim.Adam(
            list(self._changes.values()), editor.lr, weight_decay=editor.weight_decay, fused=True
        )

    def deal(self, texts: Sequence[Text]) -> None:
        """Cut the requests into chunks, in this order."""
        size = self.editor.chunk
        self.chunks = [texts[i : i + size] for i in range(0, len(texts), size)]

    def outputs(self, keys: Tensor) -> Tensor:
        """Return what the change adds for keys, texts by tokens by d_in, to the outputs."""
        deltas = map(Dense, self._changes.values())
        weight, *bias = (delta.through(keys, out_in=self._out_in) for delta in deltas)
        return sum(bias, weight)

    def step(self, keys: Tensor, gradient: Tensor) -> None:
        """Take a step, given keys and the gradient of the outputs, texts by tokens by width."""
        x, g = keys.flatten(0, 1), gradient.flatten(0, 1)
        for name, change in self._changes.items():
            if change.dim() == 1:
                change.grad = g.sum(0)
            else:
                change.grad = g.T @ x if self._out_in else x.T @ g
            if self.editor.weight_decay:
                # Adam adds the term of the change; the decay is of the whole parameter.
                original = self._originals[name].to(change.device)
                change.grad.add_(original, alpha=self.editor.weight_decay)
        self._adam.step()
        self._adam.zero_grad()
        if (bound := self.editor.bound()) is not None:
            for change in self._changes.values():
                change.clamp_(-bound, bound)

    def edit(self) -> Edit:
        """Return the change as it stands."""
        weights: dict[str, Delta] = {name: Dense(change) for name, change in self._changes.items()}
        return Edit(weights, info={"loss": self.losses[-1], "steps": len(self.losses)})


class Part:
    """One chunk of each case's requests, laid out to be run again and again.

    ``rows`` are those of each case, which are consecutive, and so are its predictions.
    """

    def __init__(self, model: Model, layer: int, cases: Sequence[Case], chunk: int) -> None:
        self.cases = [case for case in cases if chunk < len(case.chunks)]
        chunks = [case.chunks[chunk] for case in self.cases]
        texts = [text for own in chunks for text in own]
        ends = accumulate(map(len, chunks))
        self.rows = [slice(end - len(own), end) for end, own in zip(ends, chunks, strict=True)]
        self.again = SuffixForward(model, layer, [text.ids for text in texts], [0] * len(texts))
        self._targets = Targets(texts, model.device)
        self._read = self.again.places(self._targets.rows, self._targets.positions)
        self._sizes = [sum(len(text.reads) for text in own) for own in chunks]
        shares = [len(own) * len(text.reads) for own in chunks for text in own for _ in text.reads]
        self._shares = torch.tensor(shares, device=model.device)

    def change(self) -> Tensor:
        """Return what the cases add to the projection's outputs, texts by tokens by hidden."""
        keys, mine = self.again.keys, zip(self.cases, self.rows, strict=True)
        return torch.cat([case.outputs(keys[rows]) for case, rows in mine])

    def losses(self, change: Tensor) -> Tensor:
        """Return for each case the mean over texts of the mean loss of their target tokens."""
        logits = self.again.logits(self._read, change)
        each = self._targets.log_likelihoods(logits) / self._shares
        return -torch.stack([own.sum() for own in each.split(self._sizes)])


def state_bytes(projection: Projection) -> int:
    """Return the bytes of one case's change and of Adam's two moments of it."""
    wide = torch.promote_types(projection.dtype, torch.float32)
    return 3 * prod(projection.shape) * wide.itemsize


@dataclass
class ConstrainedFineTuning(FineTuning):
    """FT within a box: no weight moves further than epsilon (FT-L)."""

    epsilon: Positive = FROM_PRESET
    """How far a weight may move."""

    presets: ClassVar = {
        "pocket": _preset(0, OURS, "tuned", lr=5e-3, epsilon=5e-3),
        "pocket-context": _preset(0, OURS, "tuned", lr=5e-3, epsilon=5e-3),
        "gpt2-medium": _preset(0, KMENG, "paper", epsilon=2e-3),
        "gpt2-large": _preset(0, KMENG, "paper", epsilon=1e-3),
        "gpt2-xl": _preset(0, KMENG, "paper", epsilon=5e-4),
        "gpt-j-6b": _preset(0, KMENG, "paper", epsilon=5e-5),
        "gpt-neox-20b": _preset(0, "specificityplus", "paper", epsilon=5e-5),
        "llama-2-7b": _as_mistral(21),
        "llama-3-8b": _as_mistral(21),
        "mistral-7b": _preset(21, EASYEDIT, epsilon=5e-5, bias=False),
        "qwen2-7b": _as_mistral(27),
        "qwen2.5-7b": _as_mistral(27),
    }

    def guess(self, shape: ModelShape) -> Preset:
        """Return the first layer, as for GPT-2, and the box of GPT-2 XL."""
        return _preset(0, "the first layer, the box of GPT-2 XL", "guessed", epsilon=5e-4)

    def bound(self) -> float | None:
        """Return epsilon."""
        return self.epsilon
