"""Activation patching in shared passes: many facts, noises, layers and tokens in each, a row for each.

Nothing below a state that is put back is run again: passes begin at its block, with the hidden
states that the noised run left there, where the model allows it (`edit_harness.model.resume`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
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

from .method import Fact, Method, Site, Traced, noise, sites, spread


def trace(model: Model, facts: Sequence[Fact], method: Method) -> Iterator[Traced]:
    """Yield what was traced of each fact, in order.

    Raises what `sites` raises, and `torch.OutOfMemoryError` where a single text is too much.
    """
    places = sites(model, method.kinds, method.window)
    scale = method.noise * spread(model)
    groups: list[list[Fact]] = [[]]
    for fact in facts:
        if method.samples * sum(map(len, (*groups[-1], fact))) > model.batch_tokens:
            groups.append([])
        groups[-1].append(fact)
    for group in filter(None, groups):
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


class _Group:
    """Facts whose states are held at once: the clean run's, and those that noised blocks begin with.

    Either has a vector for each token of each text, one text after another, by module.
    """

    def __init__(
        self,
        model: Model,
        facts: Sequence[Fact],
        sites: Sequence[Site],
        method: Method,
        scale: float,
    ) -> None:
        self.model, self.facts, self.samples = model, facts, method.samples
        self.first = [0, *accumulate(map(len, facts))]
        self.clean: dict[str, Tensor] = {}
        self.noised: dict[str, Tensor] = {}
        self.starts: dict[int, list[Site]] = {}
        seen = model.sees(max(map(len, facts)))  # else a sliding window counts its blocks
        for site in sites:
            begins = site.block and seen and model.begins(site.block)
            self.starts.setdefault(site.block if begins else 0, []).append(site)
        module: Any = model.module
        self.embedding = module.get_input_embeddings()
        width = self.embedding.embedding_dim
        self.noise = [scale * noise(fact, method, width) for fact in facts]

    @torch.no_grad()
    def traced(self) -> Iterator[Traced]:
        """Yield the facts' probabilities."""
        clean = self._run([_Row(i, fact, i) for i, fact in enumerate(self.facts)], self._as_it_is)
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
        for start, group in self.starts.items():
            states = (
                (fact, which, sample, site, token)
                for site in group
                for which, fact in enumerate(self.facts)
                for sample in range(self.samples)
                for token in range(fact.subject.start, len(fact.parts.prompt))
            )
            rows = [_Row(number, *state) for number, state in enumerate(states)]
            probabilities = self._run(rows, partial(self._put_back, start))
            for row, probability in zip(rows, probabilities, strict=True):
                assert row.site is not None
                where = row.sample, row.token, row.site.layer
                found[row.site.kind][row.which][where] = probability
        return found

    def _run(self, rows: Sequence[_Row], around: Around) -> np.ndarray:
        """Return the probability of each row's target in passes with something around them."""
        found = np.empty(len(rows))

        def run(some: Sequence[_Row]) -> None:
            batch = self.model.batch([row.fact.parts.inputs for row in some])
            with around(batch, some):
                found[[row.number for row in some]] = self._probabilities(batch, some)

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

    def _tokens(
        self, batch: Batch, rows: Sequence[_Row], *, noised: bool = False
    ) -> tuple[Places, Tensor]:
        """Return where all tokens of rows lie in a batch, and among the vectors that are held."""
        at = [(i, token) for i, row in enumerate(rows) for token in range(len(row))]
        first = [self.first[row.which] for row in rows]
        if noised:
            first = [
                self.samples * start + row.sample * len(row)
                for start, row in zip(first, rows, strict=True)
            ]
        lines = torch.tensor([first[i] + token for i, token in at])
        return batch.places(*zip(*at, strict=True)), lines

    @contextmanager
    def _as_it_is(self, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Keep what comes out of the sites' modules."""
        places, lines = self._tokens(batch, rows)

        def keep(name: str, _: nn.Module, __: Any, output: Any) -> None:
            # Copied at once: a model may add to it in place (Falcon).
            whole = hooks.by_row(hooks.first(output), len(rows))
            _put(self.clean, name, self.first[-1], lines, whole[places.on(whole.device)])

        with ExitStack() as stack:
            every = (site for group in self.starts.values() for site in group)
            for name in {name for site in every for name in site.modules}:
                stack.enter_context(hooks.registered(self._module(name), partial(keep, name)))
            yield

    @contextmanager
    def _forgetting(self, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Add each row's noise, and keep what goes into the blocks where passes begin."""
        names = [self.model.architecture.blocks[start] for start in self.starts if start]
        modules = [self._module(name) for name in names]
        with self._noising(batch, rows), hooks.inputs_of(modules, len(rows)) as seen:
            yield
        places, lines = self._tokens(batch, rows, noised=True)
        for name, (found,) in zip(names, seen, strict=True):
            size = self.samples * self.first[-1]
            _put(self.noised, name, size, lines, found[places.on(found.device)])

    @contextmanager
    def _put_back(self, start: int, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Begin noised passes at a block, and give each row its site's clean states at its token."""
        with ExitStack() as stack:
            # Modules are found by their names while all blocks are there.
            for name in sorted({name for row in rows if row.site for name in row.site.modules}):
                own = [i for i, row in enumerate(rows) if row.site and name in row.site.modules]
                lines = torch.tensor([self.first[rows[i].which] + rows[i].token for i in own])
                values = self.clean[name][lines.to(self.clean[name].device)]
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
        kept = self.noised[self.model.architecture.blocks[start]]
        places, lines = self._tokens(batch, rows, noised=True)
        hidden = kept.new_zeros(*batch.ids.shape, kept.shape[-1])
        hidden[places.on(hidden.device)] = kept[lines.to(kept.device)]
        return hidden

    def _module(self, name: str) -> nn.Module:
        return self.model.module.get_submodule(name)


def _put(kept: dict[str, Tensor], name: str, size: int, lines: Tensor, values: Tensor) -> None:
    """Keep vectors of a module, of which there will be ``size``."""
    if name not in kept:
        kept[name] = values.new_empty(size, values.shape[-1])
    kept[name][lines.to(values.device)] = values


@contextmanager
def _replacing(module: nn.Module, places: Places, values: Tensor, rows: int) -> Iterator[None]:
    """Put values, one vector for each place, in the place of what comes out of a module."""

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        whole = hooks.by_row(hooks.first(output), rows)
        changed = whole.index_put(places.on(whole.device), values.to(whole))
        return hooks.with_first(output, changed.view_as(hooks.first(output)))

    with hooks.registered(module, hook):
        yield
