"""What the unedited model computed, used again: its predictions, and passes that start at a block.

An edit of block 5 leaves blocks 0 to 4 as they were, so its passes start with the hidden states of
the clean one, and with keys and values of tokens that are not run again. A model for which this
does not hold is found by a trial, `can_start`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..edits import UNEDITED, Edit
from .batch import Beginning, Prediction, TokenRow
from .hooks import Changes, Places, inputs_of, owner
from .packing import Pass, Tree, agrees, run_trees, trees_of

if TYPE_CHECKING:
    from .model import Model


TRIAL = ((1, 2, 3, 4, 5), (6, 2, 7, 1), (8, 3))
"""Texts of the trials, as tokens."""
NOWHERE = Places(torch.tensor([0]), torch.tensor([0]))


@contextmanager
def start_at_block(model: Model, block: int, hidden: Tensor) -> Iterator[None]:
    """Let the coming passes begin at a block, with these hidden states.

    The model's list of blocks is cut short for the while; all else is its own.
    """
    path, _, name = owner(model.architecture.blocks[0]).rpartition(".")
    parent = model.module.get_submodule(path)
    whole = getattr(parent, name)

    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if args:
            return (hidden, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": hidden}

    with whole[block].register_forward_pre_hook(hook, with_kwargs=True):
        setattr(parent, name, whole[block:])
        try:
            yield
        finally:
            setattr(parent, name, whole)


@torch.no_grad()
def can_start(model: Model, block: int) -> bool:
    """Tell whether a pass that starts at a block gives what the whole pass does, by a trial."""
    size = model.architecture.config.vocab_size
    batch = model.batch([[token % size for token in text] for text in TRIAL])
    read = batch.places(range(len(TRIAL)), [len(text) - 1 for text in TRIAL])
    with inputs_of([model.architecture.block(block)], len(TRIAL)) as (entered,):
        whole = model.logits(batch, read)

    def cut() -> Tensor:
        with start_at_block(model, block, entered[0]):
            return model.logits(batch, read)

    return agrees(model, whole, cut)


class Start(NamedTuple):
    """Where passes of an edit begin."""

    block: int
    projection: str = ""
    """The projection just below whose change is added to what goes into the block; or none."""


def start_of_edit(model: Model, edit: Edit) -> Start | None:
    """Return where passes of an edit can begin, given the clean ones; None if at the start."""
    architecture = model.architecture
    touched = {*map(owner, edit.weights), *edit.adaptors}
    blocks = {name: architecture.block_of(name) for name in touched}
    lowest = min((-1 if block is None else block for block in blocks.values()), default=-1)
    if lowest < 0 or not model.carries(edit):
        return None
    there = [name for name, block in blocks.items() if block == lowest]
    alone = there == [architecture.down(lowest)] and there[0] not in edit.adaptors
    start = start_at_projection(model, lowest) if alone else Start(lowest)
    return start if start and start.block > 0 and model.starts_at(start.block) else None


def start_at_projection(model: Model, layer: int) -> Start | None:
    """Return where passes can begin that change the output of a layer's projection."""
    architecture = model.architecture
    start = Start(layer)
    if layer + 1 < architecture.layers and "post_norm" not in architecture.flags:
        start = Start(layer + 1, architecture.projection(layer).name)
    return start if model.starts_at(start.block) else None


class CleanTexts:
    """What the unedited model makes of texts, kept as long as their cases are worked on.

    Hidden states are kept by slot, one for each distinct beginning of a text, so that a text's are
    found again however it is batched later.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.predictions: dict[Beginning, Prediction] = {}
        self._passes: list[tuple[Pass, dict[str, Tensor]]] = []
        """Each pass with what went into modules, a line for each of its slots."""
        self._whole: dict[str, Tensor] = {}
        """The same of all passes, put together when it is asked for."""
        self._children: dict[tuple[int, int], int] = {}
        """The slot of a token behind that of the token before."""
        self._count = 0

    def read(self, rows: Sequence[TokenRow], starts: Collection[Start] = ()) -> None:
        """Give rows their predictions, running those that lack some; keep what starts need."""
        names = {name for start in starts for name in self.names(start)}
        self._keep([row for row in rows if not self._knows(row)], names)
        for row in rows:
            row.found = {at: self.predictions[row.ids[: at + 1]] for at in row.wanted}

    def remember(self, texts: Sequence[Beginning], names: Collection[str]) -> None:
        """Run texts as far as some modules, and keep what goes into them."""
        self._keep([TokenRow(UNEDITED, ids, len(ids)) for ids in dict.fromkeys(texts)], names)

    def _knows(self, row: TokenRow) -> bool:
        known = ((self.predictions.get(row.ids[: at + 1]), w) for at, w in row.wanted.items())
        return all(found is not None and found.answers(want) for found, want in known)

    @torch.no_grad()
    def _keep(self, rows: Sequence[TokenRow], names: Collection[str]) -> None:
        """Run rows, as far as anything is wanted; keep what goes into modules, and its slots."""

        def run(trees: Sequence[Tree]) -> None:
            ran = Pass.of(self.model, trees)
            inputs, logits = self._run(ran, names, only=not ran.reads)
            if logits is not None:
                ran.take(logits, self.predictions)
            self._whole.clear()
            self._passes.append((ran, inputs))
            for tree in trees:
                for row, path in tree.rows:
                    slot = -1
                    for token, node in zip(row.ids, path, strict=True):
                        slot = self._children.setdefault((slot, token), self._count + node)
                    for at, found in row.found.items():
                        known = self.predictions.get(row.ids[: at + 1])
                        joined = found.joined(known) if known else found
                        self.predictions[row.ids[: at + 1]] = joined
                self._count += len(tree)

        run_trees(self.model, trees_of(self.model, rows), run)

    def slots(self, ids: Beginning) -> list[int] | None:
        """Return the slot of each token of a text or of a beginning of one; None if not here."""
        slots, slot = list[int](), -1
        for token in ids:
            if (slot := self._children.get((slot, token), -1)) < 0:
                return None
            slots.append(slot)
        return slots

    def inputs(self, *names: str) -> list[Tensor]:
        """Return what went into modules, slots by width."""
        for ran, inputs in self._passes:
            if lacking := [name for name in names if name not in inputs]:
                inputs |= self._run(ran, lacking)[0]
        for name in set(names) - self._whole.keys():
            parts = [inputs[name] for _, inputs in self._passes]
            self._whole[name] = torch.cat(parts)
            pieces = self._whole[name].split([len(part) for part in parts])
            for (_, inputs), piece in zip(self._passes, pieces, strict=True):
                inputs[name] = piece  # of the whole, so that nothing is held twice
        return [self._whole[name] for name in names]

    def entry(self, ran: Pass, start: Start, edits: Sequence[Edit] = ()) -> Tensor | None:
        """Return what goes into the block where a pass starts, trees by nodes by width.

        None if the pass has a text that was not run here, or one beyond a sliding window.
        """
        # A window may depend on a block's number, which is another where blocks are left out.
        longest = max(len(row.ids) for tree in ran.trees for row, _ in tree.rows)
        index = self._index(ran) if self.model.sees(longest) else None
        if index is None:
            return None
        entered, *keys = self.inputs(*self.names(start))
        hidden = entered[index.to(entered.device)]
        if keys and edits:
            module = self.model.module.get_submodule(start.projection)
            inputs = keys[0][index.to(keys[0].device)]
            changes = Changes(start.projection, module, edits, hidden.shape[1])
            return changes.added(inputs, hidden)
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

    def names(self, start: Start) -> list[str]:
        """Return the modules whose inputs a start needs."""
        block = self.model.architecture.blocks[start.block]
        return [block, start.projection] if start.projection else [block]

    @torch.no_grad()
    def _run(
        self, ran: Pass, names: Collection[str], *, only: bool = True
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Run a pass; return what went into modules, a line for each node, and the logits.

        With ``only``, it ends at the last of the modules, without logits.
        """
        modules, logits = [self.model.module.get_submodule(name) for name in names], None
        with inputs_of(modules, len(ran.trees), only=only) as seen:
            logits = self.model.logits(ran.batch, ran.places)
        pairs = ((name, kept) for name, (kept, *_) in zip(names, seen, strict=True))
        return {name: kept[ran.nodes.on(kept.device)] for name, kept in pairs}, logits
