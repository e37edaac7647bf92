"""The model guard: shows whether a model is still what it was before the first edit.

It compares what the model has (weights, modules, hooks, tokenizer and so on) by ``==``, and its answers to
fixed rows of tokens, which show what no comparison finds, such as another way to compute a layer. It puts
nothing back; `edit_harness.registry.guard` does, for settings of the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import LeakError, ResourceError
from ..model.weights import hooks_of, mark
from ..registry import guard
from . import failures

if TYPE_CHECKING:
    from ..model.model import Model

GRADIENT_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
TOKENIZER = (
    "padding_side",
    "truncation_side",
    "model_max_length",
    "chat_template",
    "special_tokens_map",
    "clean_up_tokenization_spaces",
)
SAMPLE = "  Ada's 12 naïve coöps — ÅNGSTRÖM, once more:\t東京!"
"""A text whose tokens show a change of a tokenizer's rules."""

LENGTHS = ((2, 8), (3, 5))
"""Tokens of the rows to ask, by batch: each batch pads a row, and needs little memory."""


class ModelGuard:
    """Remembers a model as it is now."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._state = read(model)
        self._logits = self._answers()

    def check(self) -> None:
        """Compare what the model has, without asking it anything. Raises `LeakError`."""
        if changed := guard.changes(self._state, read(self.model)):
            raise LeakError(changed[0] + (f" and {len(changed) - 1} more" * (len(changed) > 1)))

    def verify(self) -> None:
        """Compare what the model has and answers. Raises `LeakError`, and `DeviceLostError` if the device fails."""
        self.check()
        what = "what it answers to a fixed text"
        try:
            logits = failures.frugally(self._answers)
        except Exception as error:  # its code may be another one now
            failures.check_device(error)
            if failures.out_of_memory(error):
                raise ResourceError(
                    "memory does not suffice for two short texts", "free some, and start again"
                ) from error
            raise LeakError(what) from error
        # By their bits, so that NaN equals itself.
        bits = [each.contiguous().view(torch.uint8) for each in (logits, self._logits)]
        if logits.shape != self._logits.shape or not torch.equal(*bits):
            raise LeakError(what)

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


def read(model: Model) -> dict[str, Any]:
    """Return everything of a model that an editor could change, by kind and name."""
    named = model.module.named_modules(remove_duplicate=False)
    modules = {name or "the model": module for name, module in named}
    # The first difference is the one named, and a new module would also be new weights.
    return {
        "modules": {n: (id(m), id(type(m)), id(type(m).forward)) for n, m in modules.items()},
        "attributes of modules": {
            f"{name}.{key}": value
            for name, module in modules.items()
            for key, value in _attributes(module)
        },
        "weights": {name: _bits(model, name, p) for name, p in model.module.named_parameters()},
        "buffers": {name: _bits(model, name, b) for name, b in model.module.named_buffers()},
        "parameters": {
            name: _parameter(p) for name, p in model.module.named_parameters(remove_duplicate=False)
        },
        # Accelerate's hooks, and what they load from.
        "where weights are kept": {
            name: [(id(hook), id(getattr(hook, "weights_map", None))) for hook in hooks_of(module)]
            for name, module in modules.items()
        },
        "how the model is asked": _asked(model),
        "the tokenizer": _tokenizer(model),
    }


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield a module's hooks, its own functions and its settings."""
    for key, value in vars(module).items():
        if key.endswith("_hooks"):
            yield key, list(value or ())
        elif callable(value) or type(value) in (bool, float, str):
            yield key, id(value) if callable(value) else value


def _parameter(parameter: nn.Parameter) -> tuple[Any, ...]:
    """Identify a parameter, but for its content; every pass makes offloaded ones anew."""
    hooks = [list(getattr(parameter, kind, None) or ()) for kind in GRADIENT_HOOKS]
    own = None if parameter.is_meta else id(parameter)
    return own, parameter.requires_grad, parameter.grad is not None, *hooks


def _bits(model: Model, name: str, tensor: Tensor) -> tuple[Any, ...]:
    """Identify the content of a weight or a buffer."""
    return tensor.dtype, tensor.device, tensor.shape, mark(model.module, name)


def _asked(model: Model) -> dict[str, Any]:
    """Return settings of the harness's own model, and functions set in the place of its methods."""
    own = {key: id(value) for key, value in vars(model).items() if callable(value)}
    return {**own, "padding": model.padding, "rows of a batch": model.batch_rows}


def _tokenizer(model: Model) -> dict[str, Any]:
    tokens, tokenizer = model.tokens, model.tokens.tokenizer
    said = {name: str(getattr(tokenizer, name, None)) for name in TOKENIZER}
    return {
        **said,
        "identity": id(tokenizer),
        "vocabulary": len(tokenizer),
        "frame": tokens.frame,
        "limit": tokens.limit,
        "tokens": list(tokenizer(SAMPLE)["input_ids"]),
    }
