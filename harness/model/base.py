"""The unedited model on the texts of some cases, run once for all edits that are compared with it.

It keeps what the model predicts, and what went into the blocks where edited passes begin: an edit
of block 5 leaves blocks 0 to 4 as they were, so its passes start with the hidden states of the
clean one. These are kept by slot, one for each distinct beginning of a text; a text's slots are
found again however it is batched later. A block that nobody asked for before is reached from the
nearest one below that is there.

A base belongs to one model as it stands and lives as long as its cases are worked on: nothing of
it is stored, since distributions and hidden states are large and quickly made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from ..edits import UNEDITED, Edit
from .hooks import Enough, Places, add_changes, inputs_of, spans_of
from .packing import Tree
from .passes import Pass, attempt, trees_of
from .resume import Cache, begun
from .worksheet import Beginning, Reading, Row

if TYPE_CHECKING:
    from .model import Model

NOWHERE = Places(torch.tensor([0]), torch.tensor([0]))


class Start(NamedTuple):
    """Where passes of an edit begin."""

    block: int
    projection: str = ""
    """The projection just below whose change is added to what goes into the block; or none."""


@dataclass(frozen=True)
class Done:
    """A pass that was run, and what it left: a line for each slot, in the order of its nodes."""

    ran: Pass
    inputs: dict[str, Tensor]
    """What went into modules, slots by width."""


class Base:
    """Clean passes of one model over texts."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.readings: dict[Beginning, Reading] = {}
        self._done: list[Done] = []
        self._slots: dict[Beginning, list[int]] = {}
        self._count = 0

    def read(self, rows: Sequence[Row], starts: Collection[Start] = ()) -> None:
        """Run the rows whose readings are not here, and keep what later starts need of them."""
        new = [row for row in rows if not self._knows(row)]
        names = {name for start in starts for name in self.names(start)}

        def run(trees: Sequence[Tree]) -> None:
            ran = Pass.of(self.model, trees)
            with inputs_of(self._modules(names), len(trees)) as seen:
                logits = self.model.logits(ran.batch, ran.places)
            self._keep(ran, names, seen)
            for (row, position), reading in ran.readings(logits, self.readings).items():
                here = row.ids[: position + 1]
                before = self.readings.get(here)
                self.readings[here] = reading.joined(before) if before else reading

        self._attempt(new, run)

    def remember(self, texts: Sequence[Beginning], names: Collection[str]) -> None:
        """Run texts as far as some modules, and keep what goes into them."""

        def run(trees: Sequence[Tree]) -> None:
            ran = Pass.of(self.model, trees)
            with inputs_of(self._modules(names), len(trees), only=True) as seen:
                self.model.logits(ran.batch, NOWHERE)
            self._keep(ran, names, seen)

        self._attempt(_rows(texts), run)

    def memory(
        self, texts: Sequence[Beginning], start: Start
    ) -> dict[Beginning, dict[int, tuple[Tensor, Tensor]]]:
        """Return keys and values of beginnings of texts, heads by tokens by width, by block.

        They are those of the blocks from the start on; the texts have to be here.
        """
        found: dict[Beginning, dict[int, tuple[Tensor, Tensor]]] = {}

        def run(trees: Sequence[Tree]) -> None:
            ran = Pass.of(self.model, trees, masked=True)
            cache = Cache(last=self.model.architecture.layers - 1)
            hidden = self.entry(ran, start)
            assert hidden is not None
            with suppress(Enough), begun(self.model, start.block, hidden):
                self.model.logits(ran.batch, NOWHERE, cache=cache)
            for i, tree in enumerate(trees):
                for row, path in tree.rows:
                    found[row.ids] = {
                        block: (keys[i][:, path], values[i][:, path])
                        for block, (keys, values) in cache.seen.items()
                    }

        self._attempt(_rows(texts), run)
        return found

    def slots(self, ids: Beginning) -> list[int] | None:
        """Return the slot of each token of a text or of a beginning of one; None if not here."""
        if (known := self._slots.get(ids)) is not None:
            return known
        longer = (text for text in self._slots if text[: len(ids)] == ids)
        return next((self._slots[text][: len(ids)] for text in longer), None)

    def inputs(self, *names: str) -> list[Tensor]:
        """Return what went into modules, slots by width."""
        for done in self._done:
            if lacking := [name for name in names if name not in done.inputs]:
                done.inputs.update(self._fetch(done, lacking))
        return [torch.cat([done.inputs[name] for done in self._done]) for name in names]

    def entry(self, ran: Pass, start: Start, edits: Sequence[Edit] = ()) -> Tensor | None:
        """Return what goes into the block where a pass starts, trees by nodes by width.

        None if the pass has a text that was not run here, or one beyond a sliding window: the
        model hides tokens by the number of a block, which is another where blocks are left out.
        """
        index = self._index(ran) if self.model.sees(ran.longest) else None
        if index is None:
            return None
        entered, *keys = self.inputs(*self.names(start))
        hidden = entered[index.to(entered.device)]
        if keys and edits:
            module = self.model.module.get_submodule(start.projection)
            inputs = keys[0][index.to(keys[0].device)]
            add_changes(start.projection, module, spans_of(edits), inputs, hidden)
        return hidden

    def _index(self, ran: Pass) -> Tensor | None:
        """Return the slot of every node of a pass; padding has some slot or other."""
        slots: list[int] = []
        for tree in ran.trees:
            at = [0] * len(tree)
            for row, path in tree.rows:
                known = self.slots(row.ids)
                if known is None:
                    return None
                for node, slot in zip(path, known, strict=True):
                    at[node] = slot
            slots += at
        index = torch.zeros_like(ran.batch.ids)
        nodes = ran.nodes
        index[nodes.rows, nodes.columns] = torch.tensor(slots, device=index.device)
        return index

    def _knows(self, row: Row) -> bool:
        known = [self.readings.get(row.ids[: at + 1]) for at in row.reads]
        wanted = row.reads.values()
        return all(k is not None and k.answers(r) for k, r in zip(known, wanted, strict=True))

    def names(self, start: Start) -> list[str]:
        """Return the modules whose inputs a start needs."""
        block = self.model.architecture.blocks[start.block]
        return [block, start.projection] if start.projection else [block]

    def _modules(self, names: Collection[str]) -> list[nn.Module]:
        return [self.model.module.get_submodule(name) for name in names]

    @torch.no_grad()
    def _attempt(self, rows: Sequence[Row], run: Callable[[Sequence[Tree]], None]) -> None:
        attempt(self.model, trees_of(self.model, rows), run)

    def _keep(self, ran: Pass, names: Collection[str], seen: Sequence[Sequence[Tensor]]) -> None:
        """Keep what a pass left in modules, and where each of its texts has its slots."""
        at, first = ran.nodes, self._count
        inputs = {name: _pick(kept[0], at) for name, kept in zip(names, seen, strict=True)}
        self._done.append(Done(ran, inputs))
        for tree in ran.trees:
            for row, path in tree.rows:
                self._slots[row.ids] = [first + node for node in path]
            first += len(tree)
        self._count = first

    @torch.no_grad()
    def _fetch(self, done: Done, names: Sequence[str]) -> dict[str, Tensor]:
        """Run a pass again as far as some modules, from the nearest block below that is kept."""
        model, ran, at = self.model, done.ran, done.ran.nodes
        blocks = model.architecture.blocks
        lowest = min(model.architecture.block_of(name) or 0 for name in names)
        below = [b for b in range(lowest + 1) if blocks[b] in done.inputs]
        modules = self._modules(names)  # by their names while all blocks are there
        with ExitStack() as stack:
            if below and model.sees(ran.longest) and model.begins(below[-1]):
                lines = done.inputs[blocks[below[-1]]]
                hidden = lines.new_zeros(*ran.batch.ids.shape, lines.shape[-1])
                hidden[at.on(hidden.device)] = lines
                stack.enter_context(begun(model, below[-1], hidden))
            seen = stack.enter_context(inputs_of(modules, len(ran.trees), only=True))
            model.logits(ran.batch, NOWHERE)
        return {name: _pick(kept[0], at) for name, kept in zip(names, seen, strict=True)}


def _rows(texts: Sequence[Beginning]) -> list[Row]:
    return [Row(UNEDITED, ids, len(ids)) for ids in dict.fromkeys(texts)]


def _pick(tensor: Tensor, at: Places) -> Tensor:
    """Return the lines at some places of a tensor, rows by columns by width."""
    return tensor[at.on(tensor.device)]
