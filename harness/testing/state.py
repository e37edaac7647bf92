"""What an editor must leave as it was: of the model, and of the process.

The one is read by `edit_harness.run.integrity`, as in every run, the other by `edit_harness.registry.process`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..model.model import Model
from ..registry import process
from ..run import integrity


def state_of(model: Model) -> dict[str, Any]:
    """Return everything that an editor could leave behind, comparable by ``==``."""
    return {**integrity.read(model), **process.read()}


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bits of a tensor."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


@contextmanager
def left_alone(model: Model) -> Iterator[None]:
    """Fail if something about the model or the process is not as it was."""
    before = state_of(model)
    yield
    changed = process.changes(before, state_of(model))
    assert not changed, (
        f"changed and not restored: {'; '.join(changed)}. An edit is returned as data: put back in a "
        "`finally` what is changed for a while"
    )
