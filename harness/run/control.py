"""Watches whether a model survives many edits: how it predicts a text that no edit is about.

This is no metric of a task. What it measures is an edited model, not a case: every batch, and
every point of a sequence at which cases are measured. Single edits are asked only if one wishes,
and so is anything else: what other controls come to stands in `edit_harness.run.effects`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data import Case, Choose, Probe, Query, Scores
from ..folder.encoding import decode_answer
from ..interfaces import ModelSource

PREFIX = "control:"
"""What the ids of all controls begin with."""
ROLE = "control"
"""Of their probes."""
ID = f"{PREFIX}text"
COLLAPSE = 10.0
"""A model has collapsed if its perplexity is so many times that of the unedited model."""
TEXT = """The ferry leaves the island at seven in the morning, when the fog still lies on the water
and the lamps along the pier are burning. Most of the passengers are children on their way to
school, and a few farmers who carry baskets of eggs and cheese to the market. The crossing takes
forty minutes. In summer the deck is full and somebody always plays the accordion; in winter
everyone sits below, close to the engine, and talks about the weather and the price of wood. When
the boat reaches the town, the bells of the old church are ringing, and the baker has opened his
door. Nobody hurries. The last ferry goes back at six, and whoever misses it has to sleep at the
inn by the harbour, where the landlady keeps two small rooms and a good stove."""


def control(source: ModelSource, fits: Callable[[str], bool] = lambda text: True) -> Case:
    """Return the case of the text, without a request; a model may bring a text of its own kind.

    As many words of it are taken as ``fits`` says that the model has room for, and two at least.
    """
    file = source.data.get("text")
    words = (Path(file).read_text(encoding="utf-8") if file else TEXT).split()
    while len(words) > 2 and not fits(" ".join(words)):
        words.pop()
    first, *rest = words
    return case(ID.removeprefix(PREFIX), Choose(first, (" ".join(rest),)))


def case(name: str, query: Query) -> Case:
    """Return the case of a control that asks something."""
    return Case(PREFIX + name, (), (Probe(ROLE, query),))


def is_control(case: str) -> bool:
    """Tell whether an id is a control's, and no case's."""
    return case.startswith(PREFIX)


def perplexity(answer: Any) -> float:
    """Return exp of the mean negative log-probability of the text's tokens, all but the first word.

    ``answer`` is as a record stores it. The result is infinite if there is no finite one.
    """
    scores = decode_answer(answer)
    try:
        return 1 / scores.prob(0) if isinstance(scores, Scores) else math.inf
    except (TypeError, ZeroDivisionError):  # NaN is stored as None; a probability may round to 0
        return math.inf
