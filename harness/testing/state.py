"""What an editor must leave as it was: of the model, and of the process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from edit_harness.model import Model


def state_of(model: Model) -> dict[str, Any]:
    """Return everything that an editor could leave behind, comparable by ``==``."""
    modules = dict(model.module.named_modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    parameters = dict(model.module.named_parameters())
    return {
        "weights": {n: bits(t) for n, t in model.module.state_dict().items()},
        "hooks": {(n, h): list(getattr(m, h)) for n, m in modules.items() for h in hooks},
        "modules": {n: id(m) for n, m in modules.items()},
        "training mode": {n: m.training for n, m in modules.items()},
        "requires_grad": {n: p.requires_grad for n, p in parameters.items()},
        "gradients": [n for n, p in parameters.items() if p.grad is not None],
        "torch's random state": bits(torch.random.get_rng_state()),
        "numpy's random state": str(np.random.get_state()),
        "Python's random state": random.getstate(),
        "default dtype": torch.get_default_dtype(),
        "gradient mode": torch.is_grad_enabled(),
    }


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bits of a tensor."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


@contextmanager
def left_alone(model: Model) -> Iterator[None]:
    """Fail if something about the model or the process is not as it was."""
    before = state_of(model)
    yield
    after = state_of(model)
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"changed and not restored: {', '.join(changed)}"
