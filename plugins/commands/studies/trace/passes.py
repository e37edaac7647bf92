"""Activation patching in shared passes: many facts, noises and tokens in each, a row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from edit_harness.model import hooks, packing
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
        yield from _Group(model, group, method, scale).traced(places)


@dataclass(frozen=True)
class _Row:
    """A row of a pass: a fact, one of its noises, and the token whose state is put back."""

    number: int
    fact: Fact
    which: int
    """The fact's place in its group."""
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
        """Yield the facts' probabilities: clean, noised, and with the states of each site put back.

        What stands before the subject is as in the clean run, and brings nothing back.
        """
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
        """Return the probability of each row's target in passes with something around them."""
        found = np.empty(len(rows))

        def run(some: Sequence[_Row]) -> None:
            batch = self.model.batch([row.fact.parts.inputs for row in some])
            with around(batch, some):
                found[[row.number for row in some]] = self._probabilities(batch, some)

        packing.run_halving(self.model, rows, run)
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
    def _keeping(self, names: Iterable[str], batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Keep what comes out of modules at all tokens of the rows."""
        at = [(i, token) for i, row in enumerate(rows) for token in range(len(row))]
        places = batch.places(*zip(*at, strict=True))
        lines = torch.tensor([self.first[rows[i].which] + token for i, token in at])

        def keep(name: str, _: nn.Module, __: Any, output: Any) -> None:
            # Copied at once: a model may add to it in place (Falcon).
            whole = hooks.by_row(hooks.first(output), len(rows))
            values = whole[places.on(whole.device)]
            if name not in self.clean:
                self.clean[name] = values.new_empty(self.first[-1], values.shape[-1])
            self.clean[name][lines.to(values.device)] = values

        with ExitStack() as stack:
            for name in names:
                stack.enter_context(hooks.registered(self._module(name), partial(keep, name)))
            yield

    def _noising(self, batch: Batch, rows: Sequence[_Row]) -> AbstractContextManager[None]:
        """Add each row's noise to the embeddings of its subject."""
        at = [(i, token) for i, row in enumerate(rows) for token in row.fact.subject]
        values = torch.cat([self.noise[row.which][row.sample] for row in rows])
        places = batch.places(*zip(*at, strict=True))
        return hooks.adding(self.embedding, places, values, len(rows))

    @contextmanager
    def _putting_back(self, site: Site, batch: Batch, rows: Sequence[_Row]) -> Iterator[None]:
        """Give noised rows a site's clean states, each at its token."""
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


@contextmanager
def _replacing(module: nn.Module, places: Places, values: Tensor, rows: int) -> Iterator[None]:
    """Put values, one vector for each place, in the place of what comes out of a module."""

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        whole = hooks.by_row(hooks.first(output), rows)
        changed = whole.index_put(places.on(whole.device), values.to(whole))
        return hooks.with_first(output, changed.view_as(hooks.first(output)))

    with hooks.registered(module, hook):
        yield
