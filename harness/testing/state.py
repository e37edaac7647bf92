"""What an editor must leave as it was: of the model, and of the process.

What a process has is read by `edit_harness.process`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from edit_harness import process
from edit_harness.digests import of_config
from edit_harness.model import Model

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
)
TOKENIZER = ("padding_side", "truncation_side", "model_max_length", "chat_template", "pad_token")


def state_of(model: Model) -> dict[str, Any]:
    """Return everything that an editor could leave behind, comparable by ``==``."""
    return {
        **_of_modules(model),
        **_of_parameters(model),
        **_of_surroundings(model),
        **process.read(),
    }


def _of_modules(model: Model) -> dict[str, Any]:
    modules = dict(model.module.named_modules())
    name = {"": "the model"}
    return {
        "hooks": {
            f"{h[1:]} of {name.get(n, n)}": list(getattr(m, h))
            for n, m in modules.items()
            for h in HOOKS
        },
        "modules": {n: (id(m), "forward" in vars(m)) for n, m in modules.items()},
        "training mode": {name.get(n, n): m.training for n, m in modules.items()},
    }


def _of_parameters(model: Model) -> dict[str, Any]:
    parameters = dict(model.module.named_parameters())
    return {
        "weights": {n: bits(t) for n, t in model.module.state_dict().items()},
        "parameters": {n: id(p) for n, p in parameters.items()},
        "requires_grad": {n: p.requires_grad for n, p in parameters.items()},
        "gradients": {n: p.grad is not None for n, p in parameters.items()},
        "hooks of parameters": {n: list(p._backward_hooks or ()) for n, p in parameters.items()},
    }


def _of_surroundings(model: Model) -> dict[str, Any]:
    tokenizer = model.tokens.tokenizer
    return {
        "the model's configuration": of_config(model.module.config),
        "the tokenizer": {name: getattr(tokenizer, name, None) for name in TOKENIZER},
        "the vocabulary": len(tokenizer),
    }


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
