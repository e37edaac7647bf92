"""The method of a causal trace: facts, states that are put back, and noise (Meng et al., 2022, section 2).

A prompt is run clean, and again with noise on the embeddings of its subject, which is forgotten by
that. Then one state of the noised run after the other is put back to what it was in the clean one:
the output of a block at one token, or the outputs of the MLPs, or attentions, of a window of
layers. The probability of the object says what each state brings back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edit_harness.data import Request
from edit_harness.errors import PluginError, UsageError
from edit_harness.model.model import Model
from edit_harness.model.tokens import Continuation

KINDS = ("hidden", "mlp", "attention")
"""States that can be put back: a block's output; outputs of MLPs, of attentions."""
SHARE = 10 / 48
"""The part of a model's layers that a window has by default; of GPT-2 XL it is ROME's."""
VOCABULARY = 8192
"""Embeddings that are read at once."""


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
        batch = model.batch([ids])
        with torch.no_grad():
            logits = model.logits(batch, batch.places([0], [len(ids) - 1]))
        return cls._of(model, request, Continuation(ids, (int(logits[0].argmax()),)), "")

    @classmethod
    def _of(cls, model: Model, request: Request, parts: Continuation, target: str) -> Fact:
        first = model.tokens.fact_token("subject_first", request, target=target)
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


@dataclass(frozen=True)
class Site:
    """Modules whose outputs are put back together at one token."""

    kind: str
    layer: int
    modules: tuple[str, ...]


def default_window(layers: int) -> int:
    """Return how many layers a window has of a model of so many."""
    return max(1, round(SHARE * layers))


def sites(model: Model, kinds: Sequence[str], window: int) -> list[Site]:
    """Return all sites of some kinds, layer by layer.

    A window reaches from half its width below a layer to just below half its width above, and is
    cut where the model ends. Raises `UsageError` for a window wider than the model, `PluginError`
    for a state that the model has not.
    """
    architecture = model.architecture
    if window > architecture.layers:
        raise UsageError(
            f"a window of {window} is wider than the model's {architecture.layers} layers",
            f"leave out --window: {default_window(architecture.layers)} layers",
        )
    named: dict[str, Callable[[int], str]] = {
        "hidden": lambda layer: architecture.blocks[layer],
        "mlp": lambda layer: architecture.projection(layer).name,
        "attention": lambda layer: architecture.attention(layer).name,
    }
    found = []
    for kind in kinds:
        wide = 1 if kind == "hidden" else window
        for layer in range(architecture.layers):
            first = max(0, layer - wide // 2)
            last = min(architecture.layers, layer + (wide + 1) // 2)
            try:
                modules = tuple(map(named[kind], range(first, last)))
            except PluginError as error:
                error.remedy = "trace what it has, such as --kinds hidden"
                raise
            found.append(Site(kind, layer, modules))
    return found


@torch.no_grad()
def spread(model: Model) -> float:
    """Return the standard deviation of all components of all embeddings of the vocabulary.

    It is that of what the embedding module puts out, so that noise has the scale it is added at.
    """
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
