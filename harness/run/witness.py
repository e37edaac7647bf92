"""Shows whether a model is still what it was before the first edit: by what it is, and by what it answers.

What it is, bit for bit, is read. Its answers to fixed rows of tokens show what no reading finds, such
as another way to compute the same layers. Both must be equal; nothing here puts anything back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import LeakError, ResourceError
from ..registry import guard as process
from . import failures, leaks

if TYPE_CHECKING:
    from ..model.model import Model

LENGTHS = ((2, 8), (3, 5))
"""Tokens of the rows, by batch: one has to be padded, and may need as little memory as any."""


class Witness:
    """A model as it was when this was made."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._state = leaks.read(model)
        self._logits = self._answers()

    def check(self) -> None:
        """Raise `LeakError` if something of the model is not as it was; it is asked nothing."""
        if changed := process.changes(self._state, leaks.read(self.model)):
            raise LeakError(changed[0] + (f" and {len(changed) - 1} more" * (len(changed) > 1)))

    def verify(self) -> None:
        """Compare all. Raises `LeakError`, and `DeviceLostError` if the device fails."""
        self.check()
        what = "what it answers to a fixed text"
        try:
            logits = self._frugally()
        except Exception as error:  # in whatever way it computes now
            failures.check_device(error)
            if failures.out_of_memory(error):
                raise ResourceError(
                    "memory does not suffice for two short texts", "free some, and start again"
                ) from error
            raise LeakError(what) from error
        self._compare(logits, what)

    def resembles(self, other: Witness) -> None:
        """Raise `LeakError` if the same model, loaded again, answers otherwise than this one did."""
        self._compare(other._logits, "what it answers after it was loaded again")

    def _compare(self, logits: Tensor, what: str) -> None:
        same = logits.shape == self._logits.shape and torch.equal(
            _bits(logits), _bits(self._logits)
        )
        if not same:
            raise LeakError(what)

    def _frugally(self) -> Tensor:
        """Answer once more, after what nobody needs was freed, if memory does not suffice."""
        try:
            return self._answers()
        except Exception as error:
            if not failures.out_of_memory(error):
                raise
        failures.free_memory()
        return self._answers()

    @torch.no_grad()
    def _answers(self) -> Tensor:
        """Return the logits behind fixed rows of tokens, rows by vocabulary."""
        return torch.cat([self._batch(lengths) for lengths in LENGTHS])

    def _batch(self, lengths: Sequence[int]) -> Tensor:
        size = self.model.architecture.config.vocab_size
        rows = [[(7 * n + 3 * j + 1) % size for j in range(n)] for n in lengths]
        batch = self.model.batch(rows)
        places = batch.places(range(len(rows)), [len(row) - 1 for row in rows])
        return self.model.logits(batch, places).clone()


def _bits(tensor: Tensor) -> Tensor:
    """Return the bits, so that NaN equals itself."""
    return tensor.contiguous().view(torch.uint8)
