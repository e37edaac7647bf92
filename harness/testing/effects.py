"""What an edit does to a tiny model, and whether two edits do the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..cases import Answer, Choose, Distribution, NextToken, Query, Request, Scores
from ..edits import Edit
from ..model.model import Model
from .facts import FACTS
from .state import bits


def questions() -> list[Query]:
    """Return queries on the facts, with candidates of more than one token."""
    chosen = [Choose(f.text, (f.target_new, f.target_true)) for f in FACTS]
    return [*chosen, *(NextToken(f.text) for f in FACTS)]


def gain(model: Model, edit: Edit, fact: Request) -> float:
    """Return by how many nats an edit makes the target likelier."""
    query = Choose(fact.text, (fact.target_new,))
    before, after = model.answer([(Edit(), query), (edit, query)])
    assert isinstance(before, Scores)
    assert isinstance(after, Scores)
    return before.nll(0) - after.nll(0)


def same_weights(one: Edit, two: Edit) -> bool:
    """Tell whether two edits change the same weights by the same bits."""
    return one.weights.keys() == two.weights.keys() and all(
        type(delta) is type(two.weights[name])
        and all(
            bits(t) == bits(getattr(two.weights[name], part)) for part, t in vars(delta).items()
        )
        for name, delta in one.weights.items()
    )


def tensors_of(edit: Edit) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors of an edit, each with the name of what it belongs to."""
    for name, part in (*edit.weights.items(), *edit.adaptors.items()):
        held = vars(part).values() if hasattr(part, "__dict__") else ()
        yield from ((name, each) for each in held if isinstance(each, torch.Tensor))
    yield from edit.state.items()


def assert_same_answers(model: Model, one: Edit, two: Edit, *, rtol: float, atol: float) -> None:
    """Fail if a model answers questions on the facts differently under two edits."""
    for query in questions():
        assert_close(*model.answer([(one, query), (two, query)]), rtol=rtol, atol=atol)


def assert_close(one: Answer, two: Answer, *, rtol: float, atol: float) -> None:
    """Fail if two answers of the same kind are not nearly equal."""
    left, right = (
        np.concatenate([*map(np.asarray, a.logprobs)])
        if isinstance(a, Scores)
        else np.asarray(a.logprobs)
        for a in (one, two)
        if isinstance(a, Scores | Distribution)
    )
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)
