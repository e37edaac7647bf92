"""What the checks of editors share: their base, requests, interruptions, and what an edit changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from ..data import Answer, Case, Choose, Drift, NextToken, Probe, Query, Request, Scores
from ..edits import Edit
from ..folder.record import Record
from ..interfaces import Editor, Regime
from ..model.hooks import prompted
from ..model.model import Model
from ..registry import guard
from ..registry.settings import configure, shape_of
from ..run import integrity, plan
from ..run.clean import CleanPass
from ..run.measure import Work
from . import suite
from .suite import Suite
from .tiny import tiny_model

FACTS = (
    Request("{} lives in", "Ann", "Rome", "Oslo"),
    Request("The firm of {} is", "Bob", "Saab", "Fiat"),
)
"""What editors are asked to write."""
ODD = (
    Request("{} lives in", "Zoë Müller-Łukasz", "Paris"),
    Request("The {so-called} home of {} is", "the {strange} one", "Rome", "{Oslo}"),
    Request("{} goes to", "X", "Rome, the capital of Italy, and then to Paris and to Oslo", "Oslo"),
    Request("Where does {} live? In", 'Ann "O\'Neil" \\ Bob', "Sankt Gallen"),
    Request("{} は", "東京", "大阪"),
)
"""Requests that a task may have: braces, accents, quotes, other scripts, a subject of one letter at the
very start, a long target, no true object."""


UNSTRUCTURED = Request.of(
    "What does dict = {} do?", "It makes an empty dict, which is then filled."
)
"""For editors that need no subject."""


def as_cases(requests: Sequence[Request]) -> list[Case]:
    """Return a case for each request, that asks for its objects and for a divergence elsewhere."""
    drift = Probe("neighborhood", Drift("Ada plays"))
    asked = [(r, Probe("efficacy", Choose(r.text, (r.target_new, "Oslo")))) for r in requests]
    return [
        Case(f"case-{n}", (request,), (probe, drift)) for n, (request, probe) in enumerate(asked)
    ]


class EditorSuite(Suite):
    """The base of all checks of editors."""

    editor: Editor
    family: ClassVar[str] = "gpt2"
    """The family of the tiny model: "gpt2" or "llama"."""
    trains: ClassVar[bool] = True
    """Set to False if a random model cannot show the edit's effect, as with prompting."""

    @pytest.fixture
    def model(self) -> Model:
        """Return a fresh tiny model; override it to use another."""
        torch.set_num_threads(1)
        return tiny_model(self.family)

    def ready(self, model: Model) -> Editor:
        """Return a copy of the editor that is configured for the model, checked and prepared."""
        shape = shape_of(model.module.config, model.source.family)
        editor = configure(copy.copy(self.editor), shape, type(self.editor).__name__).editor
        editor.check(model)
        editor.prepare(model)
        return editor

    def skip_unless_trains(self) -> None:
        """Skip what a random model cannot show."""
        if not self.trains:
            pytest.skip("a random model cannot show it")


def forward_counter(
    model: Model, monkeypatch: pytest.MonkeyPatch, fail_at: int = 0
) -> Callable[[], int]:
    """Count the forward passes from now on; raise `Interrupted` instead of number ``fail_at``."""
    forward, count = model.module.forward, 0

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == fail_at:
            raise Interrupted
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.module, "forward", counting)
    return lambda: count


class Interrupted(Exception):
    """What a forward pass raises when a check interrupts an editor."""


def questions() -> list[Query]:
    """Return queries on the facts, with candidates of more than one token."""
    chosen = [Choose(f.text, (f.target_new, f.target_true)) for f in FACTS]
    return [*chosen, *(NextToken(f.text) for f in FACTS)]


def recorded(
    model: Model, editor: Editor, cases: Sequence[Case], regime: Regime, size: int
) -> list[Record]:
    """Return the records of a run of cases, in chunks of a size."""
    work = Work(CleanPass(model), editor, {})
    chunks = plan.chunks(plan.steps(cases, regime), size)
    return [record for chunk in chunks for record in work.records(chunk)]


def fronts(model: Model, edit: Edit) -> list[str]:
    """Return the facts' prompts with what an edit puts before them."""
    model.check(edit)
    return [prompted(edit, fact.text) for fact in FACTS]


def gain(model: Model, edit: Edit, fact: Request) -> float:
    """Return by how many nats an edit makes the target likelier."""
    query = Choose(fact.text, (fact.target_new,))
    before, after = model.answer([(Edit(), query), (edit, query)])
    assert isinstance(before, Scores)
    assert isinstance(after, Scores)
    return before.nll(0) - after.nll(0)


def same_weights(one: Edit, two: Edit) -> bool:
    """Tell whether two edits change the same weights by the same bits."""
    first, second = (
        {
            name: [bits(tensor) for tensor in vars(delta).values()]
            for name, delta in e.weights.items()
        }
        for e in (one, two)
    )
    return first == second


def tensors_of(edit: Edit) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors of an edit, each with the name of what it belongs to."""
    for name, part in (*edit.weights.items(), *edit.adaptors.items()):
        held = vars(part).values() if hasattr(part, "__dict__") else ()
        yield from ((name, each) for each in held if isinstance(each, torch.Tensor))
    yield from edit.state.items()


def assert_same_answers(
    model: Model, one: Edit, two: Edit, *, rtol: float, atol: float, how: str = ""
) -> None:
    """Fail if a model answers questions on the facts differently under two edits."""
    for query in questions():
        first, second = model.answer([(one, query), (two, query)])
        assert_close(first, second, rtol, atol, how)


def assert_close(one: Answer, two: Answer, rtol: float, atol: float, how: str = "") -> None:
    """Fail if the log-probabilities of two answers are not nearly equal."""

    def values(answer: Any) -> np.ndarray:
        nested = answer.logprobs
        return np.concatenate(
            [*map(np.asarray, nested if isinstance(answer, Scores) else [nested])]
        )

    np.testing.assert_allclose(values(one), values(two), rtol, atol, err_msg=how)


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bits of a tensor."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def left_alone(model: Model) -> AbstractContextManager[None]:
    """Fail if something about the model or the process is not as it was."""
    how = ". An edit is returned as data: put back in a `finally` what is changed for a while"
    return suite.left_alone(lambda: {**integrity.read(model), **guard.read()}, how)


def assert_written(model: Model, edit: Edit, fact: Request) -> None:
    """Fail unless an edit makes a request's new object likelier."""
    found = gain(model, edit, fact)
    assert found > 0, (
        f"{fact.statement!r} gained {found:.3g} nats where it should have become likelier; set "
        "trains = False if a random model cannot show the effect"
    )
