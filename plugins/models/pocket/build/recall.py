"""Whether a model knows facts: greedy agreement with the whole object."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edit_harness import Choose, Scores
from edit_harness.edits import UNEDITED
from edit_harness.model.model import Model
from edit_harness_plugins.builders.triples import Fact
from edit_harness_plugins.commands.authoring import Knows


def knowing(model: Model) -> Knows:
    """Return what tells builders of data whether the model knows an object."""

    def knows(asked: Sequence[tuple[str, str]]) -> list[bool]:
        answers = model.answer([(UNEDITED, Choose(prompt, (target,))) for prompt, target in asked])
        return [isinstance(answer, Scores) and answer.exact(0) for answer in answers]

    return knows


def known_facts(
    knows: Knows, facts: Sequence[Fact], prompts: Callable[[Fact], Sequence[str]]
) -> list[Fact]:
    """Return the facts whose object the model names after each of their prompts."""
    asked = [(fact, prompt) for fact in facts for prompt in prompts(fact)]
    answers = knows([(prompt, fact.object) for fact, prompt in asked])
    missed = {fact for (fact, _), right in zip(asked, answers, strict=True) if not right}
    return [fact for fact in facts if fact not in missed]
