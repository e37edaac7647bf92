"""GRACE: a codebook beside one linear map (Hartvigsen et al., 2023, section 2).

The input at a prompt's last token is a key; its value, searched so that the target follows, is put out
instead of the map's own output wherever a later prompt ends within the radius. Only the last prompt token is
replaced (EasyEdit's ``replace_last``). All keys come first, then radii, then one search for all values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, ModelShape, Preset, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Origin
from edit_harness.model.hooks import at_least_fp32
from edit_harness.model.model import Model
from edit_harness.model.reuse import CleanTexts
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive

from .._search.bases import Batched, in_groups
from .._search.suffix import SuffixForward
from .._search.texts import Targets, Text, of_kinds, seeded, teacher_forced
from ..sources import EASYEDIT, OURS
from .codebook import Book

HARTVIGSEN = "Thartvigsen/GRACE"


def _preset(layer: int, source: str, origin: Origin = "ported", **values: Any) -> Preset:
    llama = {"layer": layer, "module": "down", "steps": 50, "epsilon": 1.0}
    return Preset({**llama, **values}, source, origin)


@dataclass
class Grace(Batched):
    """Keeps the new outputs beside the model, and looks each prompt's end up in them."""

    layer: Natural = FROM_PRESET
    """The layer whose outputs are replaced."""
    module: Literal["down", "up"] = FROM_PRESET
    """down: the MLP's output projection; up: the first linear map of the MLP."""
    steps: Count = FROM_PRESET
    """Adam's steps for a request; there is no early end."""
    lr: Positive = 1.0
    """Adam's rate."""
    epsilon: NotNegative = FROM_PRESET
    """Radius of a new entry, in the space of the map's inputs."""
    start: Literal["cold", "warm"] = "cold"
    """Where a value's search begins: cold, at random in [0, 1); warm, at the clean output."""
    seed: int = 0
    """Seed of cold starts, together with the text of the request."""

    presets: ClassVar = {
        "pocket": _preset(4, OURS, "tuned", steps=20),
        "pocket-context": _preset(3, OURS, "tuned", steps=20),
        "gpt2-xl": _preset(35, HARTVIGSEN, "paper", steps=100, module="up"),
        "gpt-j-6b": _preset(25, EASYEDIT, steps=200),
        "llama-2-7b": _preset(27, EASYEDIT),
        "llama-3-8b": _preset(27, "EasyEdit's values for Llama 2 7B", "guessed"),
        "mistral-7b": _preset(27, "EasyEdit's values for Llama 2 7B", "guessed"),
        "qwen2-7b": _preset(18, EASYEDIT),
        "qwen2.5-7b": _preset(18, EASYEDIT),
    }
    needs: ClassVar[str] = "a prompt and a target, no subject"
    citation: ClassVar[str] = (
        "Hartvigsen et al. (2023), Aging with GRACE: Lifelong Model Editing with Discrete "
        "Key-Value Adaptors"
    )

    def guess(self, shape: ModelShape) -> Preset:
        """Return the layer at three quarters of the depth, the rest as for Llama 2."""
        return _preset(
            int(0.75 * shape.layers), "layer by depth, the rest as for Llama 2", "guessed"
        )

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no such map."""
        self._map(model)

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return a codebook for each batch; all values are searched together."""
        return self._grow(model, [Edit()] * len(batches), batches)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the codebook of ``previous`` with the requests taken in.

        Raises `PluginError` if the previous edit is none that this editor could have made.
        """
        with model.applied(previous):
            (edit,) = self._grow(model, [previous], [requests])
        return edit

    def first_value(self, request: Request, clean: Tensor) -> Tensor:
        """Return where the search for a new entry's value begins, of the shape of the clean one."""
        if self.start == "warm":
            return clean
        noise = torch.Generator().manual_seed(seeded(f"{self.seed} {request.statement}"))
        return torch.rand(len(clean), generator=noise)

    def _grow(
        self, model: Model, previous: Sequence[Edit], batches: Sequence[Sequence[Request]]
    ) -> list[Edit]:
        """Return each edit with its batch of requests taken in."""
        if not any(batches):
            return list(previous)
        module = self._map(model)
        texts = [[teacher_forced(model, request) for request in batch] for batch in batches]
        prompts = [text.ids[: text.reads[0] + 1] for own in texts for text in own]
        keys = inputs_at(model, module, prompts).split([len(own) for own in texts])
        books = [
            Book(edit, module, own, self.epsilon, model.dtype)
            for edit, own in zip(previous, keys, strict=True)
        ]
        lessons = [
            Lesson(book, *book.take(text.target), text, request)
            for book, own, batch in zip(books, texts, batches, strict=True)
            for text, request in zip(own, batch, strict=True)
        ]
        while lessons:
            firsts: dict[tuple[Book, int], Lesson] = {}
            for each in lessons:
                firsts.setdefault((each.book, each.entry), each)
            # The first lesson of each entry can share a search.
            self._learn(model, module, list(firsts.values()))
            lessons = [each for each in lessons if firsts[each.book, each.entry] is not each]
        return [
            book.edit(edit, self.steps) if batch else edit
            for book, edit, batch in zip(books, previous, batches, strict=True)
        ]

    def _learn(self, model: Model, module: str, lessons: Sequence[Lesson]) -> None:

        def start(i: int, clean: Tensor) -> Tensor:
            known = lessons[i].book.values.get(lessons[i].entry)
            if known is None or lessons[i].anew:
                return self.first_value(lessons[i].request, clean)
            return known

        texts = [lesson.text for lesson in lessons]
        found = search(model, self.layer, module, texts, start, self.steps, self.lr)
        for lesson, each in zip(lessons, found, strict=True):
            lesson.book.values[lesson.entry] = each.value
            lesson.book.losses.append(each.losses[-1])

    def _map(self, model: Model) -> str:
        architecture, up = model.architecture, self.module == "up"
        return (architecture.mlp(self.layer)[0] if up else architecture.projection(self.layer)).name


@dataclass(frozen=True, eq=False)
class Lesson:
    """A request that an entry's value is to learn."""

    book: Book
    entry: int
    anew: bool
    """Whether what the entry has learned so far is forgotten."""
    text: Text
    request: Request


@dataclass(frozen=True)
class Found:
    """An output, of the map's width, and the loss before each step towards it."""

    value: Tensor
    losses: tuple[float, ...]


def inputs_at(model: Model, module: str, texts: Sequence[tuple[int, ...]]) -> Tensor:
    """Return what goes into a module at the last token of each text, texts by d_in."""
    base = CleanTexts(model)
    base.remember(texts, {module})
    (inputs,) = base.inputs(module)
    last = [slots[-1] for text in texts if (slots := base.slots(text))]
    return at_least_fp32(inputs[last]).to(model.device)


def search(
    model: Model,
    layer: int,
    module: str,
    texts: Sequence[Text],
    start: Callable[[int, Tensor], Tensor],
    steps: int,
    lr: float,
) -> list[Found]:
    """Find the output for each text, at the token where its first target token is predicted.

    The output itself is moved, over the bare text, by Adam's steps on the target's mean loss alone.
    ``start`` takes the index of a text and its clean output, and returns where the search begins.
    """

    def of(group: Sequence[int]) -> list[Found]:
        chosen = [texts[i] for i in group]
        firsts = [text.reads[0] for text in chosen]
        again = SuffixForward(model, layer, [t.ids for t in chosen], firsts, changed=[module])
        (clean,) = again.values()
        values = torch.stack([start(i, own).to(clean) for i, own in zip(group, clean, strict=True)])
        values = values.detach().clone().requires_grad_()
        optimizer = torch.optim.Adam([values], lr=lr)
        targets, losses = Targets(chosen, model.device), []
        read = again.places(targets.rows, targets.positions)
        for _ in range(steps):
            likely = targets.log_likelihoods(again.logits(read, (values - clean)[:, None]))
            loss = -likely.view(len(chosen), -1).mean(1)
            losses.append(loss.tolist())
            optimizer.zero_grad()
            loss.sum().backward()
            optimizer.step()
        each = zip(values.detach(), zip(*losses, strict=True), strict=True)
        return [Found(value.clone(), own) for value, own in each]

    targets, lengths = [len(text.target) for text in texts], [len(text.ids) for text in texts]
    return in_groups(of_kinds(model, targets, lengths), of)
