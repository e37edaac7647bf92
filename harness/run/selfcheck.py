"""Tries whether a run's first cases come out the same again, and in another order.

That is what ``--selfcheck`` does before the run; its rows are nobody's. It says nothing of batches and
sequences, where cases are meant to depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..data import Answer, Case, Text
from ..errors import PluginError
from ..folder.encoding import decode_answer
from ..folder.record import Record
from ..interfaces import Regime
from . import plan, runner
from .making import Tell
from .selftest import TOLERANCE, distance

if TYPE_CHECKING:
    from .evaluation import Evaluation

FIRST = 3
"""Cases that are tried."""


def check(evaluation: Evaluation, tell: Tell) -> None:
    """Tell of cases that come out otherwise a second time.

    Raises `PluginError` if they depend on their order by more than rounding.
    """
    cases = [case for case in evaluation.cases if not case.problem][:FIRST]
    once, again, turned = (_run(evaluation, order) for order in (cases, cases, cases[::-1]))
    if off := max((apart(once[name], again[name]) for name in once), default=0.0):
        tell(f"the same cases differ by {off:.2g} nats when they are run a second time")
    allowed = TOLERANCE[evaluation.model.precision]
    if not (off := max((apart(once[name], turned[name]) for name in once), default=0.0)) <= allowed:
        raise PluginError(
            f"editor {evaluation.label}: cases differ by {off:.2g} nats when their order is turned; "
            f"rounding makes at most {allowed:g}",
            "an editor keeps nothing of earlier requests; what `extend` needs goes into Edit.state",
        )


def _run(evaluation: Evaluation, cases: Sequence[Case]) -> dict[str, Record]:
    steps = plan.steps(cases, Regime(in_turn=evaluation.regime.in_turn))
    made = runner.run(evaluation.model, evaluation.editor.value, steps, {})
    return {record.case: record for record in made}


def apart(one: Record, other: Record) -> float:
    """Return by how many nats the answers of a case differ at most; infinity if it failed only once.

    What judges say of a text is none of them.
    """
    if one.status != other.status:
        return float("inf")
    pairs = zip(_answers(one), _answers(other), strict=True)
    return max((distance(*pair) for pair in pairs), default=0.0)


def _answers(record: Record) -> Iterator[Answer]:
    for answer in map(decode_answer, (*record.before, *record.after)):
        if answer is not None:
            yield replace(answer, verdict=None) if isinstance(answer, Text) else answer
