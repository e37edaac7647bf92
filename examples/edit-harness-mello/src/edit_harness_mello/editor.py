"""MeLLo: a question is taken apart, and each part's answer held against the edited facts.

After Zhong et al. (2023), MQuAKE, section 5. The unedited model writes a sub-question and answers
it, and anew where the nearest edited fact contradicts it. What it wrote goes before the prompt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from edit_harness import Choose, DataError, Editor, Generate, Request, Scores, Text
from edit_harness.edits import Edit
from edit_harness.model import Model
from edit_harness.registry.settings import Count, Share
from edit_harness_plugins.texts import Weights, words

LINE = 32  # the most tokens of a line that the model writes
OWN = Path(__file__).with_name("demonstrations.txt")


@dataclass(eq=False)
class Chain:
    """Writes the chain that goes before a prompt."""

    facts: Mapping[str, str]
    """Each fact as it is told, by its prompt."""
    demonstrations: str
    """Whole chains, with an empty line between them."""
    hops: int
    threshold: float
    confirm: bool
    _model: Model = field(init=False, repr=False)
    _fronts: dict[str, str] = field(init=False, repr=False)

    def prepare(self, model: Model) -> None:
        """Take the model that writes, whose chains are none of another model's."""
        self._model, self._fronts = model, {}

    def __call__(self, prompt: str) -> str:
        """Return the chain for a prompt, written once; nothing if there is no part and no fact."""
        if prompt not in self._fronts:
            self._fronts[prompt] = self._chain(question_of(prompt))
        return self._fronts[prompt]

    def nearest(self, question: str) -> str:
        """Return the fact likest to a question, or nothing below the threshold."""
        weights, store = self._index
        counts = weights.counts([question])
        # A word that is nowhere in the index makes the question less like every fact.
        known = counts.sum() / max(len(words(question)), 1)
        likeness = known * (store @ weights.vectors(counts).toarray()[0])
        best = int(likeness.argmax())
        return list(self.facts.values())[best] if likeness[best] >= self.threshold else ""

    @cached_property
    def _index(self) -> tuple[Weights, Any]:
        weights = Weights.fitted([*self.facts, *self.demonstrations.splitlines()])
        return weights, weights.vectors(weights.counts(self.facts))

    def _chain(self, question: str) -> str:
        text = f"Question: {question}\n"
        for hop in range(self.hops):
            name, _, part = (line := self._line(text)).partition(": ")
            if name != "Subquestion":
                if hop:
                    return text + f"{line}\n" * (name == "Final answer")
                part = question  # what the model doesn't take apart is its own only part
                if not self.nearest(part):
                    return ""
            text = self._hop(text, part)
        return text

    def _hop(self, text: str, part: str) -> str:
        """Return the chain with a sub-question and its answer behind it."""
        answer = self._line(text := f"{text}Subquestion: {part}\nGenerated answer:")
        text += f" {answer}\n"
        if fact := self.nearest(part):
            text += f"Retrieved fact: {fact}\nContradiction:"
            contradicts = not self.confirm or self._says_yes(text)
            text += f" {'yes' if contradicts else 'no'}\nIntermediate answer:"
            return f"{text} {self._line(text) if contradicts else answer}\n"
        return f"{text}Intermediate answer: {answer}\n"

    def _line(self, text: str) -> str:
        """Return the line that the unedited model writes next."""
        (answer,) = self._model.answer([(Edit(), Generate(self._shown(text), LINE, stop="\n"))])
        assert isinstance(answer, Text)
        return answer.text.strip()

    def _says_yes(self, text: str) -> bool:
        (answer,) = self._model.answer([(Edit(), Choose(self._shown(text), ("yes", "no")))])
        assert isinstance(answer, Scores)
        return answer.nll(0) < answer.nll(1)

    def _shown(self, text: str) -> str:
        """Return a chain behind as many demonstrations as the model has room for."""
        shots, tokens = self.demonstrations.split("\n\n"), self._model.tokens
        for count in range(len(shots), 0, -1):
            whole = "\n\n".join([*shots[:count], text])
            with suppress(DataError):  # too long
                if len(tokens.encode(whole).ids) + LINE <= (tokens.limit or float("inf")):
                    return whole
        return text


def question_of(prompt: str) -> str:
    """Return the last line of a prompt, which alone is the question, without "Q:" and "A:"."""
    return re.sub(r"^Q:\s*|\s*A:$", "", prompt.strip().rpartition("\n")[2])


@dataclass
class Mello(Editor):
    """Keeps facts, and puts a chain of sub-questions before each prompt; no weight changes."""

    hops: Count = 4
    """The most sub-questions."""
    threshold: Share = 0.25
    """The least likeness (a cosine of TF-IDF vectors) of a fact's prompt and a sub-question."""
    confirm: bool = True
    """Whether the model is asked if a fact contradicts its answer; else every fact found does."""
    demonstrations: str = ""
    """A file of chains, with an empty line between them; the package's own if empty."""

    needs: ClassVar[str] = "a model that follows demonstrations; no subject"
    citation: ClassVar[str] = "Zhong et al. (2023), MQuAKE: Assessing Knowledge Editing, EMNLP"

    @property
    def variant(self) -> str:
        """What tables say in brackets."""
        return "" if self.confirm else "unconfirmed"

    @property
    def provenance(self) -> Mapping[str, str]:
        """The digest of the demonstrations."""
        return {"demonstrations": hashlib.sha256(self._shots().encode()).hexdigest()}

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return a memory of the facts."""
        return self.extend(model, Edit(), requests)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the memory with the new facts in it; of one prompt the last holds."""
        known = previous.prefix.facts if isinstance(previous.prefix, Chain) else {}
        facts = {**known, **{request.text: request.statement for request in requests}}
        how = self._shots(), self.hops, self.threshold, self.confirm
        return replace(previous, prefix=Chain(facts, *how))

    def _shots(self) -> str:
        try:
            return Path(self.demonstrations or OWN).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the demonstrations cannot be read: {error}") from None
