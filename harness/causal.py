"""Causal tracing: through which states of a model a fact is recalled (Meng et al., 2022, section 2).

A prompt is run clean, and again with noise on the embeddings of its subject, which is forgotten by
that. Then one state of the noised run after the other is put back to what it was in the clean one:
the output of a block at one token, or the outputs of the MLPs, or attentions, of a window of
layers. The probability of the object says what each state brings back.

Nothing below a state that is put back is run again: passes begin at its block, with the hidden
states that the noised run left there, where the model allows it (`resume`). A pass has many rows,
each with its own fact, noise, token and layer. What is made of the numbers stands in `effects`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from edit_harness import hooks, passes, resume
from edit_harness.batch import Batch
from edit_harness.cases import Request
from edit_harness.errors import PluginError, UsageError
from edit_harness.hooks import Places
from edit_harness.model import Model
from edit_harness.tokens import Continuation

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
        return cls(request.text, parts, _subject(model, request, request.target_new))

    @classmethod
    def recalled(cls, model: Model, request: Request) -> Fact:
        """Return the fact whose target is the one token that the model itself finds likeliest."""
        ids = model.tokens.encode(request.text).ids
        batch = model.batch([ids])
        with torch.no_grad():
            logits = model.logits(batch, batch.places([0], [len(ids) - 1]))
        parts = Continuation(ids, (int(logits[0].argmax()),))
        return cls(request.text, parts, _subject(model, request, ""))


@dataclass(frozen=True)
class Method:
    """How facts are traced.

    ``window`` layers are put back at once, of MLPs and of attentions; ``noise`` is the standard
    deviation of the noise in those of the model's embeddings, see `spread`.
    """

    kinds: Sequence[str] = KINDS
    window: int = 1
    noise: float = 3.0
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
    """Modules whose outputs are put back together at one token, and the lowest block of theirs."""

    kind: str
    layer: int
    block: int
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
                remedy = "trace what it has, such as --kinds hidden"
                raise PluginError(error.cause, remedy) from None
            found.append(Site(kind, layer, first, modules))
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


def trace(model: Model, facts: Sequence[Fact], method: Method) -> Iterator[Traced]:
    """Yield what was traced of each fact, in order.

    Raises `UsageError` and `PluginError` as `sites` does, and `torch.OutOfMemoryError` where a
    single text is too much.
    """
    places = sites(model, method.kinds, method.window)
    scale = method.noise * spread(model)
    group: list[Fact] = []
    for fact in facts:
        if group and method.samples * sum(map(len, (*group, fact))) > model.batch_tokens:
            yield from _Group(model, group, places, method, scale).traced()
            group = []
        group.append(fact)
    if group:
        yield from _Group(model, group, places, method, scale).traced()


@dataclass(frozen=True)
class _Row:
    """A row of a pass: a fact, one of its noises, and what is put back at which token."""

    number: int
    fact: Fact
    which: int
    """The fact's place in its group."""
    sample: int = 0
    site: Site | None = None
    token: int = 0

    def __len__(self) -> int:
        return len(self.fact)


Around: TypeAlias = Callable[[Batch, Sequence[_Row]], AbstractContextManager[None]]


@dataclass
class _Lines:
    """Vectors of all tokens of texts, one text after another, at several modules."""

    starts: Sequence[int]
    """Where each text's lines begin; at the end, how many there are."""
    values: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of_lengths(cls, lengths: Sequence[int]) -> _Lines:
        """Return room for texts of so many tokens."""
        return cls([0, *accumulate(lengths)])

    def numbers(self, texts: Sequence[int]) -> Tensor:
        """Return the numbers of some texts' lines."""
        return torch.cat([torch.arange(self.starts[i], self.starts[i + 1]) for i in texts])

    def keep(self, name: str, lines: Tensor, values: Tensor) -> None:
        """Keep vectors as lines of a module."""
        if name not in self.values:
            self.values[name] = values.new_empty(self.starts[-1], values.shape[-1])
        self.values[name][lines.to(values.device)] = values

    def get(self, name: str, lines: Tensor) -> Tensor:
        """Return lines of a module."""
        kept = self.values[name]
        return kept[lines.to(kept.device)]


class _Group:
    """Facts whose states are held at once: the clean run's, and those that noised blocks begin with."""

    def __init__(
        self,
        model: Model,
        facts: Sequence[Fact],
        sites: Sequence[Site],
        method: Method,
        scale: float,
    ) -> None:
        self.model, self.facts, self.samples = model, facts, method.samples
        lengths = [len(fact) for fact in facts]
        self.clean = _Lines.of_lengths(lengths)
        self.noised = _Lines.of_lengths([n for n in lengths for _ in range(self.samples)])
        self.starts: dict[int, list[Site]] = {}
        for site in sites:
            self.starts.setdefault(_start(model, site.block, max(lengths)), []).append(site)
        module: Any = model.module
        self.embedding = module.get_input_embeddings()
        width = self.embedding.embedding_dim
        self.noise = [scale * noise(fact, method, width) for fact in facts]

    @torch.no_grad()
    def traced(self) -> Iterator[Traced]:
        """Yield the facts' probabilities."""
        whole = [_Row(i, fact, i) for i, fact in enumerate(self.facts)]
        clean = self._run(whole, self._as_it_is)
        every = [(fact, i, s) for i, fact in enumerate(self.facts) for s in range(self.samples)]
        noised = self._run([_Row(n, *row) for n, row in enumerate(every)], self._forgetting)
        noised = noised.reshape(len(self.facts), self.samples)
        restored = self._restored(noised)
        for i, fact in enumerate(self.facts):
            own = {kind: values[i] for kind, values in restored.items()}
            yield Traced(fact, float(clean[i]), noised[i], own)

    def _restored(self, noised: np.ndarray) -> dict[str, list[np.ndarray]]:
        """Return the probabilities with each state put back, by kind, of each fact.

        What stands before the subject is as in the clean run, and brings nothing back.
        """
        layers = self.model.architecture.layers
        found = {
            kind: [
                np.tile(each[:, None, None], (1, len(fact.parts.prompt), layers))
                for fact, each in zip(self.facts, noised, strict=True)
            ]
            for kind in dict.fromkeys(s.kind for group in self.starts.values() for s in group)
        }
        for start, places in self.starts.items():
            rows = self._rows(places)
            around = partial(self._put_back, start)
            for row, probability in zip(rows, self._run(rows, around), strict=True):
                assert row.site is not None
                where = row.sample, row.token, row.site.layer
                found[row.site.kind][row.which][where] = probability
        return found

    def _rows(self, places: Sequence[Site]) -> list[_Row]:
        """Return a row for every state that is put back, at the subject's first token or after it."""
        every = (
            (fact, which, sample, site, token)
            for site in places
            for which, fact in enumerate(self.facts)
            for sample in range(self.samples)
            for token in range(fact.subject.start, len(fact.parts.prompt))
        )
        return [_Row(number, *row) for number, row in enumerate(every)]

    def _run(self, rows: Sequence[_Row], around: Around) -> np.ndarray:
        """Return the probability of each row's target in passes with something around them."""
        found = np.empty(len(rows))

        def run(some: Sequence[_Row]) -> None:
            batch = self.model.batch([row.fact.parts.inputs for row in some])
            with around(batch, some):
                probabilities = self._probabilities(batch, some)
            found[[row.number for row in some]] = probabilities

        passes.halved(self.model, rows, run)
        return found

    def _probabilities(self, batch: Batch, rows: Sequence[_Row]) -> np.ndarray:
        """Return the product of the probabilities of the tokens of each row's target."""
        parts = [row.fact.parts for row in rows]
        reads = [(i, place) for i, part in enumerate(parts) for place in part.places]
        wanted = torch.tensor([[t] for part in parts for t in part.target])
        logits = self.model.logits(batch, batch.places(*zip(*reads, strict=True)))
        found = logits.log_softmax(-1).gather(1, wanted.to(logits.device)).double().cpu()
        return np.array([x.sum().exp() for x in found.split([len(p.target) for p in parts])])

    @contextmanager
    def _as_it_is(self, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Keep what comes out of the sites' modules."""
        lines = self.clean.numbers([row.which for row in rows])
        places = _tokens(batch, rows)
        with ExitStack() as stack:
            for name in {
                name for group in self.starts.values() for s in group for name in s.modules
            }:
                keep = partial(self._keep, name, lines, places, len(rows))
                stack.enter_context(hooks.registered(self._module(name), keep))
            yield

    def _keep(
        self,
        name: str,
        lines: Tensor,
        places: Places,
        rows: int,
        _: nn.Module,
        __: Any,
        output: Any,
    ) -> None:
        """Copy what comes out of a module at once: a model may add to it in place (Falcon)."""
        whole = hooks.by_row(hooks.first(output), rows)
        self.clean.keep(name, lines, whole[places.on(whole.device)])

    @contextmanager
    def _forgetting(self, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Add each row's noise, and keep what goes into the blocks where passes begin."""
        names = [self.model.architecture.blocks[start] for start in self.starts if start]
        modules = [self._module(name) for name in names]
        with self._noising(batch, rows), hooks.inputs_of(modules, len(rows)) as seen:
            yield
        lines = self.noised.numbers([row.which * self.samples + row.sample for row in rows])
        for name, (found,) in zip(names, seen, strict=True):
            self.noised.keep(name, lines, found[_tokens(batch, rows).on(found.device)])

    @contextmanager
    def _put_back(self, start: int, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Begin noised passes at a block, and give each row its site's clean states at its token."""
        with ExitStack() as stack:
            # Modules are found by their names while all blocks are there.
            for name in sorted({name for row in rows if row.site for name in row.site.modules}):
                own = [i for i, row in enumerate(rows) if row.site and name in row.site.modules]
                lines = [self.clean.starts[rows[i].which] + rows[i].token for i in own]
                values = self.clean.get(name, torch.tensor(lines))
                places = batch.places(own, [rows[i].token for i in own])
                stack.enter_context(_replacing(self._module(name), places, values, len(rows)))
            if start:
                hidden = self._entering(start, batch, rows)
                stack.enter_context(resume.begun(self.model, start, hidden))
            else:
                stack.enter_context(self._noising(batch, rows))
            yield

    def _noising(self, batch: Batch, rows: Sequence[_Row]) -> AbstractContextManager[None]:
        at = [(i, token) for i, row in enumerate(rows) for token in row.fact.subject]
        values = torch.cat([self.noise[row.which][row.sample] for row in rows])
        places = batch.places(*zip(*at, strict=True))
        return hooks.adding(self.embedding, places, values, len(rows))

    def _entering(self, start: int, batch: Batch, rows: Sequence[_Row]) -> Tensor:
        """Return what goes into a block under each row's noise, rows by columns by width."""
        lines = self.noised.numbers([row.which * self.samples + row.sample for row in rows])
        found = self.noised.get(self.model.architecture.blocks[start], lines)
        hidden = found.new_zeros(*batch.ids.shape, found.shape[-1])
        hidden[_tokens(batch, rows).on(hidden.device)] = found
        return hidden

    def _module(self, name: str) -> nn.Module:
        return self.model.module.get_submodule(name)


def _start(model: Model, block: int, longest: int) -> int:
    """Return the block where passes begin that change a block; 0 where they cannot begin later.

    A model with a sliding window counts its blocks, so that none may be left out.
    """
    return block if block and model.sees(longest) and model.begins(block) else 0


def _tokens(batch: Batch, rows: Sequence[_Row]) -> Places:
    """Return where all tokens of rows lie, row after row."""
    at = [(i, token) for i, row in enumerate(rows) for token in range(len(row))]
    return batch.places(*zip(*at, strict=True))


def _subject(model: Model, request: Request, target: str) -> range:
    """Return the tokens of a request's subject in its prompt."""
    first = model.tokens.fact_token("subject_first", request, target=target)
    return range(first, model.tokens.subject_last(request, target=target) + 1)


@contextmanager
def _replacing(module: nn.Module, places: Places, values: Tensor, rows: int) -> Iterator[None]:
    """Put values, one vector for each place, in the place of what comes out of a module."""

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        whole = hooks.by_row(hooks.first(output), rows)
        changed = whole.index_put(places.on(whole.device), values.to(whole))
        return hooks.with_first(output, changed.view_as(hooks.first(output)))

    with hooks.registered(module, hook):
        yield
