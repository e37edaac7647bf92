"""How much there is to do: counted in characters that a model reads, never timed.

So the same plan is shared out in the same way wherever that is done. What is counted stands in for
tokens, which nobody has made yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..data import Case, Choose, Examined, Generate, Query

if TYPE_CHECKING:
    from .plan import Step

EDIT = 25
"""What finding an edit counts, in passes over its request: a search has about as many steps."""
TOKEN = 4
"""Characters of a token, for texts that are yet to be generated."""
EXAMINED = 20_000
"""What a control with code of its own counts: some hundred short questions, as nobody has read them."""


def of_edit(step: Step) -> int:
    """Return what it takes to find the edit of a step."""
    return EDIT * sum(len(r.text) + len(r.target_new) for r in step.requests)


def of_answers(case: Case) -> int:
    """Return what it takes to ask a case before and after the edit."""
    if isinstance(case, Examined):
        return EXAMINED
    return 2 * sum(_read(probe.query) for probe in case.probes)


def of_step(step: Step) -> int:
    """Return what a whole step takes."""
    return of_edit(step) + sum(map(of_answers, step.measure))


def _read(query: Query) -> int:
    if isinstance(query, Choose):
        return sum(len(query.prompt) + len(candidate) for candidate in query.candidates)
    generated = TOKEN * query.max_new_tokens if isinstance(query, Generate) else 0
    return len(query.prompt) + generated
