"""The passes of a causal trace: many facts, noises, layers and tokens in each, every row with its own.

Nothing below a state that is put back is run again: passes begin at its block, with the hidden
states that the noised run left there, where the model allows it (`resume`). What can be put back,
and what noise is, stands in `causal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from edit_harness.model import hooks, passes, resume
from edit_harness.model.batch import Batch
from edit_harness.model.hooks import Places
from edit_harness.model.model import Model

from . import causal
from .causal import Fact, Method, Site, Traced


def trace(model: Model, facts: Sequence[Fact], method: Method) -> Iterator[Traced]:
    """Yield what was traced of each fact, in order.

    Raises `UsageError` and `PluginError` as `causal.sites` does, and `torch.OutOfMemoryError` where a
    single text is too much.
    """
    places = causal.sites(model, method.kinds, method.window)
    scale = method.noise * causal.spread(model)
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
        self.noise = [scale * causal.noise(fact, method, width) for fact in facts]

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


@contextmanager
def _replacing(module: nn.Module, places: Places, values: Tensor, rows: int) -> Iterator[None]:
    """Put values, one vector for each place, in the place of what comes out of a module."""

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        whole = hooks.by_row(hooks.first(output), rows)
        changed = whole.index_put(places.on(whole.device), values.to(whole))
        return hooks.with_first(output, changed.view_as(hooks.first(output)))

    with hooks.registered(module, hook):
        yield
