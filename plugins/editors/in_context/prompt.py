"""PROMPT: in-context editing, the new fact stated in front of every prompt.

The wording is that of EasyEdit's documentation or of its code (the two differ); "imagine" is the plainest, for
models that follow no instructions. An answer follows its prompt in the same line, as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from edit_harness import Editor, Request
from edit_harness.edits import Edit
from edit_harness.model.model import Model


class Wording(NamedTuple):
    """The text before the facts, around each fact, and between the facts and the prompt."""

    opening: str
    before: str
    after: str
    closing: str


WORDINGS = {
    "instruction": Wording(
        "Please acknowledge the following new facts and use them to answer the question:\n",
        "New Fact:",
        ".\n",
        "Prompt:",
    ),
    "fact": Wording("", "New Fact: ", "\n", "Prompt: "),
    "imagine": Wording("", "Imagine that ", ". ", ""),
}


@dataclass
class Prompt(Editor):
    """Puts the facts before the prompt."""

    wording: Literal["instruction", "fact", "imagine"] = "instruction"
    """How a fact is told: with an instruction before it, as "New Fact:", or after "Imagine that"."""

    needs: ClassVar[str] = "a model that heeds what stands before a prompt"
    citation: ClassVar[str] = "Zheng et al. (2023), Can We Edit Factual Knowledge by ICL?"

    @property
    def variant(self) -> str:
        """Name another wording than the documentation's."""
        return "" if self.wording == "instruction" else f"wording={self.wording}"

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the facts as a prefix."""
        return self.extend(model, Edit(), requests)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the prefix with the new facts behind the old ones."""
        words, before = WORDINGS[self.wording], str(previous.prefix)
        start = before.removesuffix(words.closing) or words.opening
        facts = "".join(words.before + r.statement + words.after for r in requests)
        return Edit(prefix=start + facts + words.closing)
