"""Editors that leave something behind, each in a way of its own, when they come to one of six cases.

What they do elsewhere is honest: the same edits as `Honest`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from edit_harness import Case, Choose, Editor, Probe, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import ModelSource, Task
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.run import evaluation
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.spec import RunSpec

WHERE = "transformer.h.0.mlp.c_proj"
NAMES = ("Ada", "Bob", "Ann", "Danielle", "Paris", "Rome")
AT = "Ann"
"""The subject at which harm is done."""


class Few(Task):
    """Six cases that a tiny model can be asked."""

    metrics = ("success",)

    def cases(self) -> Iterator[Case]:
        for name in NAMES:
            request = Request("{} lives in", name, "Paris", "Rome")
            choice = Choose(request.text, ("Paris", "Rome"))
            yield Case(name, (request,), (Probe("efficacy", choice),))


def evaluation_of(editor: Editor, model: Model, **settings: Any) -> evaluation.Evaluation:
    """Return what a run of an editor on the cases needs."""
    plugins = Plugins.installed()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))
    return evaluation.assemble(plugins, model, benchmark, RunSpec(editor, Few(), **settings))


@dataclass
class Honest(Editor):
    """A rank-one change whose direction follows from the subject."""

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        projection = model.architecture.projection(0)
        inputs, outputs = projection.matrix.shape
        noise = torch.Generator().manual_seed(sum(map(ord, requests[0].subject)))
        left = torch.randn(inputs, 1, generator=noise)
        right = torch.randn(1, outputs, generator=noise)
        return Edit(projection.low_rank(left, right))


@dataclass
class Saboteur(Honest):
    """Does harm to the model of one case."""

    harm: ClassVar[Callable[[Model], object]]

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        edit = super().edit(model, requests)
        if requests[0].subject == AT:
            type(self).harm(model)
        return edit


def saboteur(harm: Callable[[Model], object]) -> Saboteur:
    """Return an editor that does some harm."""
    name = harm.__name__.strip("_")
    made = type(name, (Saboteur,), {"harm": staticmethod(harm), "__module__": __name__})
    return made()


def weight(model: Model) -> nn.Parameter:
    """Return the parameter that is tampered with."""
    return model.parameter(f"{WHERE}.weight")


def inner(model: Model) -> Any:
    """Return the module that is tampered with."""
    return model.module.get_submodule(WHERE)


@torch.no_grad()
def adds_in_place(model: Model) -> None:
    weight(model)[3, 5] += 1e-3


@torch.no_grad()
def swaps_two_elements(model: Model) -> None:
    values = weight(model)
    values[0, 0], values[7, 9] = values[7, 9].clone(), values[0, 0].clone()


@torch.no_grad()
def turns_a_zero_negative(model: Model) -> None:
    """The values compare equal; the bits are others."""
    model.parameter("transformer.h.0.mlp.c_fc.bias").data[0] *= -1


def leaves_a_hook(model: Model) -> None:
    inner(model).register_forward_hook(lambda module, args, output: output)


def leaves_a_gradient_hook(model: Model) -> None:
    weight(model).requires_grad_(True).register_hook(lambda gradient: gradient)
    weight(model).requires_grad_(False)


def replaces_a_module(model: Model) -> None:
    model.module.get_submodule("transformer.h.0.mlp").c_proj = nn.Sequential(inner(model))


def replaces_a_forward(model: Model) -> None:
    plain = inner(model).forward
    inner(model).forward = lambda *args: plain(*args) * 1.0


def leaves_a_buffer(model: Model) -> None:
    inner(model).register_buffer("seen", torch.ones(2))


def turns_to_training(model: Model) -> None:
    inner(model).train()


def requires_gradients(model: Model) -> None:
    weight(model).requires_grad_(True)


def pads_elsewhere(model: Model) -> None:
    model.tokens.tokenizer.padding_side = "left"


def adds_a_token(model: Model) -> None:
    model.tokens.tokenizer.add_tokens(["<edited>"])


def answers_itself(model: Model) -> None:
    model.answer = lambda questions, base=None: []


CAUGHT: dict[Callable[[Model], None], str] = {
    adds_in_place: f"weights ({WHERE}.weight)",
    swaps_two_elements: f"weights ({WHERE}.weight)",
    turns_a_zero_negative: "weights (transformer.h.0.mlp.c_fc.bias)",
    leaves_a_hook: f"attributes of modules ({WHERE}._forward_hooks)",
    leaves_a_gradient_hook: f"parameters ({WHERE}.weight)",
    replaces_a_module: f"modules ({WHERE} and 1 more) and",
    replaces_a_forward: f"attributes of modules ({WHERE}.forward)",
    leaves_a_buffer: f"buffers ({WHERE}.seen)",
    turns_to_training: f"attributes of modules ({WHERE}.training)",
    requires_gradients: f"parameters ({WHERE}.weight)",
    pads_elsewhere: "the tokenizer (padding_side)",
    adds_a_token: "the tokenizer (vocabulary)",
    answers_itself: "how the model is asked (answer)",
}
"""Harm that is seen right after it is done, and what it is called."""


def attends_otherwise(model: Model) -> None:
    """What no reading of the model finds: it is in a table of transformers."""
    kind = model.module.config._attn_implementation
    plain = ALL_ATTENTION_FUNCTIONS[kind]

    def attend(*args: Any, **kwargs: Any) -> Any:
        output, *rest = plain(*args, **kwargs)
        return (output * 1.001, *rest)

    ALL_ATTENTION_FUNCTIONS[kind] = attend


def sets_a_dtype(model: Model) -> None:
    torch.set_default_dtype(torch.float64)


def seeds(model: Model) -> None:
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)


PUT_BACK: dict[Callable[[Model], None], tuple[str, ...]] = {
    sets_a_dtype: ("the default dtype",),
    seeds: ("Python's random state", "numpy's random state", "torch's random state"),
}
"""Harm to the process, which is put back and noted."""
