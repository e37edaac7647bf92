"""FT and FT-L: fine-tuning of one MLP output projection, for FT-L within an L-infinity box.

Follows the baselines of ROME's and MEMIT's code: Adam on weight and bias, and all target tokens
scored at the last prompt position, without teacher forcing. ``position=teacher`` scores each
token after the ones before it. Source: Zhu et al. (2020); Meng et al. (2022), appendix E.1.

Many cases share forward passes, each with a change and an Adam of its own. A pass runs only what
lies above the projection: its keys are the clean ones, and the change reaches its outputs. What is
trained is the change, in fp32 or more: in a model of half precision it is not rounded with the
weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Literal

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, Editor, ModelShape, Preset, Request
from edit_harness.architectures import Projection
from edit_harness.edits import Delta, Dense, Edit
from edit_harness.model import Model
from edit_harness.rerun import Rerun

KMENG = "kmeng01/rome"
EASYEDIT = "EasyEdit"
OURS = "tuned on pocket by this project"

GROUP_BYTES = 2 * 2**30
"""Most bytes of changes and their Adam moments that share passes, unless one case needs more."""
GROUP_TEXTS = 64
"""Most texts of a pass, unless one case's chunk has more."""
SPREAD = 1.5
"""Texts of a pass differ in length by this factor at most, or padding eats what sharing saves."""


def _preset(
    layer: int, source: str, *, epsilon: float | None = None, lr: float = 5e-4, bias: bool = True
) -> Preset:
    values = {"layer": layer, "lr": lr, "bias": bias}
    return Preset(values if epsilon is None else {**values, "epsilon": epsilon}, source)


@dataclass
class FineTuning(Editor):
    """Gradient descent on one projection until the targets are likely."""

    layer: int = FROM_PRESET
    steps: int = 25
    lr: float = FROM_PRESET
    weight_decay: float = 0.0
    """Adam's L2 term, towards 0."""
    stop: float = 1e-2
    """No step is taken below this mean loss, and the search ends."""
    position: Literal["last", "teacher"] = "last"
    bias: bool = FROM_PRESET
    """Whether the projection's bias is trained too, where it has one."""
    chunk: int = 64
    """Requests of one step; more are taken one chunk after another."""

    presets: ClassVar = {
        "pocket": _preset(1, OURS, lr=5e-3),
        "gpt2-xl": _preset(1, KMENG),
        "gpt-j-6b": _preset(21, KMENG),
        "llama-2-7b": _preset(21, EASYEDIT, bias=False),
        "llama-3-8b": _preset(21, f"{EASYEDIT}, AlphaEdit", bias=False),
        "qwen2-7b": _preset(27, EASYEDIT, bias=False),
        "qwen2.5-7b": _preset(27, EASYEDIT, bias=False),
    }
    citation: ClassVar[str] = "Zhu et al. (2020), Modifying Memories in Transformer Models"

    def guess(self, shape: ModelShape) -> Preset:
        """Return the layer after which ROME would edit."""
        return _preset(round(0.35 * shape.layers), "guess")

    def bound(self) -> float | None:
        """Return the half-width of the box around each weight, or None for no box."""
        return None

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no projection."""
        model.architecture.projection(self.layer)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the dense change of the projection's weight and, if asked for, bias."""
        (edit,) = self.edit_each(model, [requests])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return for each batch the edit that it finds alone; what they share is the passes."""
        texts = [[self._text(model, request) for request in batch] for batch in batches]
        size = state_bytes(model.architecture.projection(self.layer))
        edits: dict[int, Edit] = {}
        for group in grouped(texts, self.chunk, size):
            made = self._descend(model, [texts[i] for i in group])
            edits |= dict(zip(group, made, strict=True))
        return [edits[i] for i in range(len(batches))]

    def _text(self, model: Model, request: Request) -> Text:
        part = model.tokens.split(request.text, request.target_new)
        if self.position == "teacher":
            return Text(part.inputs, tuple(part.places), part.target)
        return Text(part.prompt, (len(part.prompt) - 1,) * len(part.target), part.target)

    def _descend(self, model: Model, batches: Sequence[Sequence[Text]]) -> list[Edit]:
        """Move a change for each batch until its targets are likely.

        A pass runs all rows it was laid out for, so it is laid out anew when half are done with.
        The clean keys of all chunks are kept meanwhile.
        """
        projection = model.architecture.projection(self.layer)
        cases = [Case(self, projection, texts) for texts in batches]
        live, parts = list(cases), list[Part]()
        for _ in range(self.steps):
            if not parts or 2 * len(live) <= len(parts[0].cases):
                chunks = range(max(len(case.chunks) for case in live))
                parts = [Part(model, self.layer, live, chunk) for chunk in chunks]
            for part in parts:
                self._pass(part, live)
            for case in live:
                case.close()
            # A loss that is no number never gets below the threshold.
            live = [case for case in live if not case.losses[-1] < self.stop]
            if not live:
                break
        return [case.edit() for case in cases]

    def _pass(self, part: Part, live: Collection[Case]) -> None:
        """Run a part, and take a step of each live case that is not below the threshold."""
        change = part.change().requires_grad_()
        losses = self._loss(part, change)
        moving = []
        for i, (case, loss) in enumerate(zip(part.cases, losses.tolist(), strict=True)):
            if case in live:
                case.note(part.chunk, loss)
                moving += [i] if loss >= self.stop else []
        if moving:
            (gradient,) = torch.autograd.grad(losses[moving].sum(), change)
            for i in moving:
                rows = part.rows[i]
                part.cases[i].step(part.again.keys[rows], gradient[rows])

    def _loss(self, part: Part, change: Tensor) -> Tensor:
        """Return for each case the mean over texts of the mean loss of their target tokens."""
        logits = part.again.logits(part.read, change)
        tokens, shares = part.tokens.to(logits.device), part.shares.to(logits.device)
        chosen = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0] / shares
        return -torch.stack([own.sum() for own in chosen.split(part.sizes)])


@dataclass
class ConstrainedFineTuning(FineTuning):
    """FT within a box: no weight moves further than epsilon (FT-L)."""

    epsilon: float = FROM_PRESET

    presets: ClassVar = {
        "pocket": _preset(0, OURS, epsilon=5e-3, lr=5e-3),
        "gpt2-medium": _preset(0, KMENG, epsilon=2e-3),
        "gpt2-large": _preset(0, KMENG, epsilon=1e-3),
        "gpt2-xl": _preset(0, KMENG, epsilon=5e-4),
        "gpt-j-6b": _preset(0, KMENG, epsilon=5e-5),
        "mistral-7b": _preset(21, EASYEDIT, epsilon=5e-5, bias=False),
    }

    def guess(self, shape: ModelShape) -> Preset:
        """Return the first layer, as for GPT-2, and the box of GPT-2 XL."""
        return _preset(0, "guess", epsilon=5e-4)

    def bound(self) -> float | None:
        """Return epsilon."""
        return self.epsilon


@dataclass(frozen=True)
class Text:
    """A request as tokens."""

    ids: tuple[int, ...]
    reads: tuple[int, ...]
    """Position where each target token is scored."""
    target: tuple[int, ...]


class Case:
    """A batch of requests and its own change of the projection, moved by its own Adam."""

    chunks: list[Sequence[Text]]
    losses: list[float]
    """The mean over requests in each pass."""
    changes: dict[str, Tensor]
    """By parameter, in its orientation."""

    def __init__(self, editor: FineTuning, projection: Projection, texts: Sequence[Text]) -> None:
        self.chunks = [texts[i : i + editor.chunk] for i in range(0, len(texts), editor.chunk)]
        self.losses, self._sum = [], 0.0
        self._out_in = projection.out_in
        self._originals = {
            name: tensor
            for name, tensor in projection.parameters.items()
            if editor.bias or not name.endswith(".bias")
        }
        # Contiguous, as gradients are: the fused Adam takes no notice of strides.
        self.changes = {
            name: torch.zeros(tensor.shape, dtype=wide(tensor), device=tensor.device)
            for name, tensor in self._originals.items()
        }
        self._decay, self._bound = editor.weight_decay, editor.bound()
        self._adam = torch.optim.Adam(
            list(self.changes.values()), editor.lr, weight_decay=self._decay, fused=True
        )

    def outputs(self, keys: Tensor) -> Tensor:
        """Return what the change adds for keys, texts by tokens by d_in, to the outputs."""
        deltas = map(Dense, self.changes.values())
        weight, *bias = (delta.through(keys, out_in=self._out_in) for delta in deltas)
        return sum(bias, weight)

    def step(self, keys: Tensor, gradient: Tensor) -> None:
        """Take a step, given keys and the gradient of the outputs, texts by tokens by width."""
        x, g = keys.flatten(0, 1), gradient.flatten(0, 1)
        for name, change in self.changes.items():
            if change.dim() == 1:
                change.grad = g.sum(0)
            else:
                change.grad = g.T @ x if self._out_in else x.T @ g
            if self._decay:
                # Adam adds the term of the change; the decay is of the whole parameter.
                change.grad.add_(self._originals[name], alpha=self._decay)
        self._adam.step()
        self._adam.zero_grad()
        if self._bound is not None:
            for change in self.changes.values():
                change.clamp_(-self._bound, self._bound)

    def note(self, chunk: int, loss: float) -> None:
        """Take down the mean loss of a chunk."""
        self._sum += loss * len(self.chunks[chunk])

    def close(self) -> None:
        """End a pass over all chunks."""
        self.losses.append(self._sum / sum(map(len, self.chunks)))
        self._sum = 0.0

    def edit(self) -> Edit:
        """Return the change as it stands."""
        weights: dict[str, Delta] = {name: Dense(change) for name, change in self.changes.items()}
        return Edit(weights, info={"loss": self.losses[-1], "steps": len(self.losses)})


class Part:
    """One chunk of each case's requests, laid out to be run again and again.

    The rows of a case are consecutive, and so are its predictions.
    """

    rows: list[slice]
    """The rows of each case."""
    sizes: list[int]
    """How many predictions are read of each case."""
    tokens: Tensor
    """What each prediction should be."""
    shares: Tensor
    """One over the weight of each prediction in its case's loss."""

    def __init__(self, model: Model, layer: int, cases: Sequence[Case], chunk: int) -> None:
        self.chunk = chunk
        self.cases = [case for case in cases if chunk < len(case.chunks)]
        chunks = [case.chunks[chunk] for case in self.cases]
        texts = [text for own in chunks for text in own]
        ends = accumulate(map(len, chunks))
        self.rows = [slice(end - len(own), end) for end, own in zip(ends, chunks, strict=True)]
        self.sizes = [sum(len(text.reads) for text in own) for own in chunks]
        self.again = Rerun(model, layer, [text.ids for text in texts], [0] * len(texts))
        reads = [(i, position) for i, text in enumerate(texts) for position in text.reads]
        self.read = self.again.places(*zip(*reads, strict=True))
        tokens = [token for text in texts for token in text.target]
        self.tokens = torch.tensor(tokens, device=model.device)
        shares = [len(own) * len(text.reads) for own in chunks for text in own for _ in text.reads]
        self.shares = torch.tensor(shares, device=model.device)

    def change(self) -> Tensor:
        """Return what the cases add to the projection's outputs, texts by tokens by hidden."""
        keys, mine = self.again.keys, zip(self.cases, self.rows, strict=True)
        return torch.cat([case.outputs(keys[rows]) for case, rows in mine])


def grouped(batches: Sequence[Sequence[Text]], chunk: int, size: int) -> Iterator[list[int]]:
    """Yield batches, by index, in groups that share passes: texts of nearly one length.

    ``size`` is what each of them needs of `GROUP_BYTES`.
    """
    lengths = [max(len(text.ids) for text in batch) for batch in batches]
    group, texts = list[int](), 0
    for i in sorted(range(len(batches)), key=lengths.__getitem__):
        new = min(len(batches[i]), chunk)
        full = (len(group) + 1) * size > GROUP_BYTES or texts + new > GROUP_TEXTS
        if group and (full or lengths[i] > SPREAD * lengths[group[0]]):
            yield group
            group, texts = [], 0
        group.append(i)
        texts += new
    if group:
        yield group


def state_bytes(projection: Projection) -> int:
    """Return the bytes of one case's change and of Adam's two moments of it."""
    weight = projection.matrix
    return 3 * weight.numel() * wide(weight).itemsize


def wide(tensor: Tensor) -> torch.dtype:
    """Return the precision in which a parameter's change is kept."""
    return torch.promote_types(tensor.dtype, torch.float32)
