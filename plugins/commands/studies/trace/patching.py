"""Causal tracing by activation patching (Meng et al., 2022, section 2), many rows in each pass.

A prompt is run clean, and again with noise on the embeddings of its subject. Then one state of the noised
run after the other is put back to what it was in the clean one: the output of a block at one token, or
those of the MLPs, or attentions, of a window of layers. The probability of the object says what it brings back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from edit_harness.data import NextToken, Request
from edit_harness.edits import UNEDITED
from edit_harness.errors import PluginError, UsageError
from edit_harness.model import hooks, packing
from edit_harness.model.batch import Batch
from edit_harness.model.hooks import Places
from edit_harness.model.model import Model
from edit_harness.model.tokens import Continuation
from edit_harness_plugins.editors._search.texts import fact_token

KINDS = ("hidden", "mlp", "attention")
"""States that can be put back: a block's output; outputs of MLPs, of attentions."""
VOCABULARY = 8192


@dataclass(frozen=True)
class Fact:
    """A prompt, its subject's tokens and the target whose probability is followed."""

    text: str
    parts: Continuation
    subject: range

    def __len__(self) -> int:
        """Return how many tokens the model reads."""
        return len(self.parts.inputs)

    @classmethod
    def of(cls, model: Model, request: Request) -> Fact:
        """Return a request's fact, the target being ``target_new``. Raises `DataError`."""
        parts = model.tokens.split(request.text, request.target_new)
        return cls._of(model, request, parts, request.target_new)

    @classmethod
    def recalled(cls, model: Model, request: Request) -> Fact:
        """Return the fact whose target is the one token that the model itself finds likeliest."""
        ids = model.tokens.encode(request.text).ids
        found: Any = model.answer([(UNEDITED, NextToken(request.text))])[0]
        return cls._of(model, request, Continuation(ids, (int(found.logprobs.argmax()),)), "")

    @classmethod
    def _of(cls, model: Model, request: Request, parts: Continuation, target: str) -> Fact:
        first = fact_token(model.tokens, "subject_first", request, target=target)
        last = model.tokens.subject_last(request, target=target)
        return cls(request.text, parts, range(first, last + 1))


@dataclass(frozen=True)
class Method:
    """How facts are traced."""

    kinds: Sequence[str] = KINDS
    window: int = 1
    """How many layers are put back at once, of MLPs and of attentions."""
    noise: float = 3.0
    """The standard deviation of the noise in those of the model's embeddings, see `spread`."""
    samples: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Traced:
    """The probabilities of a fact's target, the product of those of its tokens."""

    fact: Fact
    clean: float
    noised: np.ndarray
    """One for each noise."""
    restored: dict[str, np.ndarray]
    """By kind: noises by tokens of the prompt by layers."""


def default_window(layers: int) -> int:
    """Return how many layers a window has by default; of GPT-2 XL as many as ROME's."""
    return max(1, round(10 / 48 * layers))


@dataclass(frozen=True)
class Site:
    """Modules whose outputs are put back together at one token."""

    kind: str
    layer: int
    modules: tuple[str, ...]


def sites(model: Model, kinds: Sequence[str], window: int) -> list[Site]:
    """Return all sites of some kinds, layer by layer; windows are cut where the model ends.

    Raises `UsageError` for one wider than the model, `PluginError` for a state that it has not.
    """
    architecture = model.architecture
    if window > architecture.layers:
        raise UsageError(
            f"a window of {window} is wider than the model's {architecture.layers} layers",
            f"leave out --window: {default_window(architecture.layers)} layers",
        )
    try:
        modules: dict[str, Callable[[int], str]] = {
            "hidden": lambda layer: architecture.blocks[layer],
            "mlp": lambda layer: architecture.projection(layer).name,
            "attention": lambda layer: architecture.attention(layer).name,
        }
        named = {kind: list(map(modules[kind], range(architecture.layers))) for kind in kinds}
    except PluginError as error:
        error.remedy = "trace what it has, such as --kinds hidden"
        raise
    found = []
    for kind, names in named.items():
        wide = 1 if kind == "hidden" else window
        for layer in range(architecture.layers):
            around = slice(max(0, layer - wide // 2), layer + (wide + 1) // 2)
            found.append(Site(kind, layer, tuple(names[around])))
    return found


@torch.no_grad()
def spread(model: Model) -> float:
    """Return the standard deviation of what the embedding module puts out, over the vocabulary."""
    module: Any = model.module
    embedding = module.get_input_embeddings()
    size = model.architecture.config.vocab_size
    count, total, squares = 0, 0.0, 0.0
    for start in range(0, size, VOCABULARY):
        ids = torch.arange(start, min(start + VOCABULARY, size), device=model.device)
        values = embedding(ids[None]).double()
        count += values.numel()
        total += float(values.sum())
        squares += float(values.square().sum())
    return float(np.sqrt(squares / count - (total / count) ** 2))


def noise(fact: Fact, method: Method, width: int) -> Tensor:
    """Return standard normal noise, noises by subject tokens by width; each fact has its own seed."""
    what = f"{method.seed} {fact.subject} {fact.text}"
    seed = int.from_bytes(hashlib.sha256(what.encode()).digest()[:8], "big") >> 1
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(method.samples, len(fact.subject), width, generator=generator)


def trace(model: Model, facts: Sequence[Fact], method: Method) -> Iterator[Traced]:
    """Yield what was traced of each fact. Raises what `sites` raises, and `torch.OutOfMemoryError`."""
    places = sites(model, method.kinds, method.window)
    scale = method.noise * spread(model)
    groups: list[list[Fact]] = [[]]
    for fact in facts:
        if method.samples * sum(map(len, (*groups[-1], fact))) > model.batch_tokens:
            groups.append([])
        groups[-1].append(fact)
    for group in filter(None, groups):
        yield from _Group(model, group, method, scale).traced(places)


@dataclass(frozen=True)
class _Row:
    """A row of a pass: a fact, one of its noises, and the token whose state is put back."""

    number: int
    fact: Fact
    which: int
    sample: int = 0
    token: int = 0

    def __len__(self) -> int:
        return len(self.fact)


Around: TypeAlias = Callable[[Batch, Sequence[_Row]], AbstractContextManager[None]]


class _Group:
    """Facts whose clean states are held at once: for each module its vectors, one text after another."""

    def __init__(self, model: Model, facts: Sequence[Fact], method: Method, scale: float) -> None:
        self.model, self.facts, self.samples = model, facts, method.samples
        self.first = [0, *accumulate(map(len, facts))]
        self.clean: dict[str, Tensor] = {}
        module: Any = model.module
        self.embedding = module.get_input_embeddings()
        width = self.embedding.embedding_dim
        self.noise = [scale * noise(fact, method, width) for fact in facts]

    @torch.no_grad()
    def traced(self, sites: Sequence[Site]) -> Iterator[Traced]:
        """Yield the facts' probabilities: clean, noised, and with the states of each site put back."""
        every = list(enumerate(self.facts))
        names = {name for site in sites for name in site.modules}
        texts = [_Row(i, fact, i) for i, fact in every]
        clean = self._run(texts, partial(self._keeping, names))
        rows = [(fact, i, sample) for i, fact in every for sample in range(self.samples)]
        noised = self._run([_Row(n, *row) for n, row in enumerate(rows)], self._noising)
        noised = noised.reshape(len(self.facts), self.samples)
        depth = self.model.architecture.layers
        restored: list[dict[str, np.ndarray]] = [
            {
                kind: np.tile(noised[i][:, None, None], (1, len(fact.parts.prompt), depth))
                for kind in dict.fromkeys(site.kind for site in sites)
            }
            for i, fact in every
        ]
        states = [
            (*row, token)
            for row in rows
            for token in range(row[0].subject.start, len(row[0].parts.prompt))
        ]
        patched = [_Row(n, *state) for n, state in enumerate(states)]
        for site in sites:
            found = self._run(patched, partial(self._putting_back, site))
            for row, probability in zip(patched, found, strict=True):
                restored[row.which][site.kind][row.sample, row.token, site.layer] = probability
        for i, fact in every:
            yield Traced(fact, float(clean[i]), noised[i], restored[i])

    def _run(self, rows: Sequence[_Row], around: Around) -> np.ndarray:
        found = np.empty(len(rows))

        def run(some: Sequence[_Row]) -> None:
            batch = self.model.batch([row.fact.parts.inputs for row in some])
            with around(batch, some):
                found[[row.number for row in some]] = self._probabilities(batch, some)

        packing.run_halving(self.model, rows, run)
        return found

    def _probabilities(self, batch: Batch, rows: Sequence[_Row]) -> np.ndarray:
        parts = [row.fact.parts for row in rows]
        reads = [(i, place) for i, part in enumerate(parts) for place in part.places]
        wanted = torch.tensor([[t] for part in parts for t in part.target])
        logits = self.model.logits(batch, batch.places(*zip(*reads, strict=True)))
        found = logits.log_softmax(-1).gather(1, wanted.to(logits.device)).double().cpu()
        return np.array([x.sum().exp() for x in found.split([len(p.target) for p in parts])])

    @contextmanager
    def _keeping(self, names: Iterable[str], batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        at = [(i, token) for i, row in enumerate(rows) for token in range(len(row))]
        places = batch.places(*zip(*at, strict=True))
        lines = torch.tensor([self.first[rows[i].which] + token for i, token in at])

        def keep(name: str, _: Tensor, outputs: Tensor) -> None:
            # Copied at once: a model may add to it in place (Falcon).
            values = outputs[places.on(outputs.device)]
            if name not in self.clean:
                self.clean[name] = values.new_empty(self.first[-1], values.shape[-1])
            self.clean[name][lines.to(values.device)] = values

        with ExitStack() as stack:
            for name in names:
                keeping = partial(keep, name)
                stack.enter_context(hooks.changing(self._module(name), len(rows), keeping))
            yield

    def _noising(self, batch: Batch, rows: Sequence[_Row]) -> AbstractContextManager[None]:
        at = [(i, token) for i, row in enumerate(rows) for token in row.fact.subject]
        values = torch.cat([self.noise[row.which][row.sample] for row in rows])
        places = batch.places(*zip(*at, strict=True))
        return hooks.adding(self.embedding, places, values, len(rows))

    @contextmanager
    def _putting_back(self, site: Site, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        lines = torch.tensor([self.first[row.which] + row.token for row in rows])
        places = batch.places(range(len(rows)), [row.token for row in rows])
        with ExitStack() as stack:
            stack.enter_context(self._noising(batch, rows))
            for name in site.modules:
                values = self.clean[name][lines.to(self.clean[name].device)]
                stack.enter_context(_replacing(self._module(name), places, values, len(rows)))
            yield

    def _module(self, name: str) -> nn.Module:
        return self.model.module.get_submodule(name)


def _replacing(
    module: nn.Module, places: Places, values: Tensor, rows: int
) -> AbstractContextManager[Any]:
    def replaced(_: Tensor, outputs: Tensor) -> Tensor:
        return outputs.index_put(places.on(outputs.device), values.to(outputs))

    return hooks.changing(module, rows, replaced)
