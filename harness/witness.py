"""Shows whether a model is still what it was before the first edit: by what it is, and by what it answers.

What it is, bit for bit, is read after every chunk. Its answers to fixed rows of tokens are compared
now and then: they show what no reading finds, such as another way to compute the same layers. Both
must be equal; nothing here puts anything back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from edit_harness import leaks, process
from edit_harness.errors import LeakError

if TYPE_CHECKING:
    from edit_harness.model import Model

EVERY = 50
"""Records after which the answers are compared: as many can be withdrawn at most, and a chunk."""
NAMED = 2
"""Kinds of things that an error names."""
LENGTHS = (2, 3, 5, 8, 8, 5, 3, 2)
"""Tokens of the rows."""


class Witness:
    """A model as it was when this was made; ``unseen`` counts the records since the last comparison."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.unseen = 0
        self._state = leaks.read(model)
        self._logits = self._answers()

    def check(self) -> None:
        """Raise `LeakError` if something of the model is not as it was; it is asked nothing."""
        if changed := process.changes(self._state, leaks.read(self.model)):
            more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            raise LeakError("; ".join(changed[:NAMED]) + more)

    @property
    def due(self) -> bool:
        """Whether the answers should be compared."""
        return self.unseen >= EVERY

    def verify(self) -> None:
        """Compare all. Raises `LeakError`."""
        self.check()
        self._compare(self._answers(), "what it answers to a fixed text")
        self.unseen = 0

    def resembles(self, other: Witness) -> None:
        """Raise `LeakError` if the same model, loaded again, answers otherwise than this one did."""
        self._compare(other._logits, "what it answers after it was loaded again")

    def _compare(self, logits: Tensor, what: str) -> None:
        same = logits.shape == self._logits.shape and torch.equal(
            _bits(logits), _bits(self._logits)
        )
        if not same:
            raise LeakError(what)

    @torch.no_grad()
    def _answers(self) -> Tensor:
        """Return the logits behind fixed rows of tokens, rows by vocabulary."""
        size = self.model.architecture.config.vocab_size
        rows = [[(7 * i + 3 * j + 1) % size for j in range(n)] for i, n in enumerate(LENGTHS)]
        batch = self.model.batch(rows)
        places = batch.places(range(len(rows)), [len(row) - 1 for row in rows])
        return self.model.logits(batch, places).clone()


def _bits(tensor: Tensor) -> Tensor:
    """Return the bits, so that NaN equals itself."""
    return tensor.contiguous().view(torch.uint8)
