"""The model guard: shows whether a model is still what it was before the first edit.

It compares what the model has (weights, modules, hooks, tokenizer and so on) by ``==``, and its answers to
fixed rows of tokens, which show what no comparison finds, such as another way to compute a layer. It puts
nothing back; `edit_harness.registry.guard` does, for settings of the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import LeakError, ResourceError
from ..model import weights
from ..model.weights import mark
from ..registry import guard
from . import failures

if TYPE_CHECKING:
    from ..model.model import Model

HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
GRADIENT_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
TOKENIZER = (
    "padding_side",
    "truncation_side",
    "model_max_length",
    "chat_template",
    "special_tokens_map",
    "clean_up_tokenization_spaces",
)
COMPUTING = {
    "torch": torch,
    "torch.nn.functional": nn.functional,
    "torch.Tensor": torch.Tensor,
}
"""Where the functions are that models compute with, and that code can replace."""
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
    parameters = dict(model.module.named_parameters(remove_duplicate=False))
    # The first difference is the one named, and a new module would also be new weights.
    return {
        **_modules(model.module),
        "weights": {name: _bits(model, name, p) for name, p in model.module.named_parameters()},
        "buffers": {name: _bits(model, name, b) for name, b in model.module.named_buffers()},
        # Every pass makes offloaded parameters anew.
        "parameters": {name: id(p) for name, p in parameters.items() if not p.is_meta},
        "where weights are kept": dict(_keeping(model.module)),
        "requires_grad": {name: p.requires_grad for name, p in parameters.items()},
        "gradients": {name: p.grad is not None for name, p in parameters.items()},
        "hooks of parameters": dict(_gradient_hooks(parameters)),
        "the model's configuration": _configuration(model.module),
        "how the model is asked": _asked(model),
        "the tokenizer": _tokenizer(model),
        "functions of torch": dict(_functions()),
    }


def _bits(model: Model, name: str, tensor: Tensor) -> tuple[Any, ...]:
    """Identify the content of a weight or a buffer."""
    return tensor.dtype, tensor.device, tensor.shape, mark(model.module, name)


def _keeping(module: nn.Module) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield the modules whose weights accelerate moves, with the hooks that do so."""
    for name, part in module.named_modules():
        if hooks := weights.hooks_of(part):
            yield name, [(id(h), id(getattr(h, "weights_map", None))) for h in hooks]


def _gradient_hooks(parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, list[int]]]:
    for name, parameter in parameters.items():
        for kind in GRADIENT_HOOKS:
            if hooks := getattr(parameter, kind, None):
                yield f"{kind[1:]} of {name}", list(hooks)


def _modules(module: nn.Module) -> dict[str, Any]:
    named = {name or "the model": m for name, m in module.named_modules(remove_duplicate=False)}
    return {
        "modules": {name: (id(m), id(type(m))) for name, m in named.items()},
        "forward functions": {name: _forward(m) for name, m in named.items()},
        "hooks": {
            f"{kind[1:]} of {name}": list(hooks)
            for name, m in named.items()
            for kind in HOOKS
            if (hooks := vars(m).get(kind))
        },
        "attributes of modules": {
            f"{name}.{key}": value
            for name, m in named.items()
            for key, value in vars(m).items()
            if type(value) in (bool, float, str) and key != "training"
        },
        "training mode": {name: m.training for name, m in named.items()},
    }


def _forward(module: nn.Module) -> tuple[int, int]:
    """Identify a module's own forward function, if it has one, and its class's."""
    return id(vars(module).get("forward")), id(type(module).forward)


def _configuration(module: nn.Module) -> dict[str, Any]:
    transformer: Any = module
    own = {**transformer.config.to_dict(), "attention": transformer.config._attn_implementation}
    generation = getattr(transformer, "generation_config", None)
    of_texts = generation.to_dict() if generation else {}
    return {**own, **{f"generation's {key}": value for key, value in of_texts.items()}}


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


def _functions() -> Iterator[tuple[str, int]]:
    for place, holder in COMPUTING.items():
        for name, value in vars(holder).items():
            if callable(value) and not name.startswith("_"):
                yield f"{place}.{name}", id(value)
