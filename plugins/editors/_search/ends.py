"""What goes into modules at the last tokens of texts, each text under an edit of its own.

For editors that change one block after the other: what arrives at a block depends on what they
changed below it, for each edit in its own way. Rows of many edits share a forward pass, and the
blocks below the first change are run once. No gradients and no predictions: a search runs with
`rerun`, and evaluation with `Model.answer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from edit_harness.edits import Edit
from edit_harness.model.base import NOWHERE, Base, Start
from edit_harness.model.hooks import at_least_fp32, inputs_of
from edit_harness.model.model import Model
from edit_harness.model.packing import Tree
from edit_harness.model.passes import Pass, attempt, trees_of
from edit_harness.model.resume import begun
from edit_harness.model.worksheet import Beginning, Row


class Ends:
    """Texts whose last tokens are looked at again and again while edits grow.

    ``lowest`` is the lowest layer that any of the edits changes.
    """

    def __init__(self, model: Model, texts: Sequence[Beginning], lowest: int) -> None:
        self.model, self.texts = model, texts
        self._base = Base(model)
        self._start = Start(lowest) if lowest > 0 and model.begins(lowest) else None
        if self._start:
            self._base.remember(texts, self._base.names(self._start))

    @torch.no_grad()
    def inputs(self, edits: Sequence[Edit], names: Sequence[str]) -> list[Tensor]:
        """Return what goes into each named module, texts by width, in fp32 or more.

        ``edits`` has one for each text; texts of one and the same object share rows.
        """
        modules = [self.model.module.get_submodule(name) for name in names]
        rows = [Row(e, ids, len(ids)) for e, ids in zip(edits, self.texts, strict=True)]
        found: dict[Row, tuple[Tensor, ...]] = {}

        def run(trees: Sequence[Tree]) -> None:
            ran = Pass.of(self.model, trees)
            firsts = [tree.rows[0][0] for tree in trees]
            hidden = self._base.entry(ran, self._start) if self._start else None
            with ExitStack() as stack:
                own = [row.edit for row in firsts]
                lengths = [row.prompt_length for row in firsts]
                stack.enter_context(self.model.edited_rows(ran.batch, own, lengths))
                seen = stack.enter_context(inputs_of(modules, len(trees), only=True))
                if self._start and hidden is not None:
                    stack.enter_context(begun(self.model, self._start.block, hidden))
                self.model.logits(ran.batch, NOWHERE)
            ends = {row: (i, path[-1]) for i, tree in enumerate(trees) for row, path in tree.rows}
            places = ran.batch.places(*zip(*ends.values(), strict=True))
            lines = [kept[places.on(kept.device)] for (kept,) in seen]
            found.update(zip(ends, zip(*lines, strict=True), strict=True))

        attempt(self.model, trees_of(self.model, rows), run)
        columns = zip(*(found[row] for row in rows), strict=True)
        return [at_least_fp32(torch.stack(column)).to(self.model.device) for column in columns]
