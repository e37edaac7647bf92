"""MEMORY: facts are kept beside the model, and those that a prompt is about are put in front of it.

The baseline that edited models are to beat (Chen et al., 2024, section 4, as SCR; retrieval in general). What
is put in front depends on the prompt: the likest facts above a threshold, or nothing, so that other prompts are
answered as before. Likeness is the cosine of TF-IDF vectors, in which words that the unedited model writes
often weigh little; or that of sentence embeddings. Facts of one prompt replace each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array

from edit_harness import Choose, Request, Scores
from edit_harness.edits import UNEDITED, Edit
from edit_harness.files import digest
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, Share
from edit_harness_plugins.texts import Weights, words

from .._search import bases
from .._search.bases import Prepared
from .._search.contexts import sampled
from .ike import Retriever, embedded, sentence_encoder
from .prompt import WORDINGS

WRITTEN, LENGTH = 100, 24
"""Texts of the unedited model that say which words are common, and their tokens."""
QUESTION = "Fact: {}\nQuestion: {}\nIs the question about the fact? Answer:"


@dataclass(eq=False)
class Facts:
    """What goes before a prompt: the facts that are likest to it."""

    statements: Mapping[str, str]
    """Each fact as it is told, by its prompt."""
    common: Sequence[str]
    """Texts that say which words are common."""
    k: int
    threshold: float
    wording: str
    similarity: str
    confirm: bool

    def prepare(self, model: Model) -> None:
        """Take the model that confirms facts; what another one confirmed is forgotten."""
        self._model = model
        self._fronts.clear()

    def __call__(self, prompt: str) -> str:
        """Return the facts before the prompt, the likest last, or nothing."""
        if prompt not in self._fronts:
            chosen = self.found(prompt)
            told = [self.statements[key] for key in chosen if self._confirmed(key, prompt)]
            own = WORDINGS[self.wording]
            facts = "".join(own.before + each + own.after for each in told)
            self._fronts[prompt] = own.opening + facts + own.closing if told else ""
        return self._fronts[prompt]

    def found(self, prompt: str) -> list[str]:
        """Return the prompts of the likest facts, the likest last."""
        if not self.statements:
            return []
        likeness = self.likeness(prompt)
        about = np.flatnonzero(likeness >= self.threshold)
        best = about[np.argsort(likeness[about], kind="stable")]
        return [self._prompts[i] for i in best[-self.k :]]

    def likeness(self, prompt: str) -> np.ndarray:
        """Return the cosine of a prompt with each fact's, in the order of the facts."""
        if self.similarity == "minilm":
            return self._embedded(prompt)
        weights, store = self._indexed
        known = weights.counts([prompt])
        vector = weights.vectors(known)
        length = np.linalg.norm(known.data * weights.idf[known.indices])
        # A word that is in no fact and no common text makes the prompt less like all of them.
        unknown = sum(word not in weights.columns for word in words(prompt))
        whole = np.hypot(length, np.sqrt(unknown) * weights.idf.max()) or 1.0
        return (store @ vector.toarray()[0]) * length / whole

    def _confirmed(self, key: str, prompt: str) -> bool:
        """Tell whether the unedited model says that the fact is what is asked about."""
        if not self.confirm:
            return True
        asked = Choose(QUESTION.format(self.statements[key], prompt), ("Yes", "No"))
        (answer,) = self._model.answer([(UNEDITED, asked)])
        assert isinstance(answer, Scores)
        return answer.nll(0) < answer.nll(1)

    @cached_property
    def _fronts(self) -> dict[str, str]:
        return {}

    @cached_property
    def _prompts(self) -> list[str]:
        return list(self.statements)

    @cached_property
    def _indexed(self) -> tuple[Weights, csr_array]:
        weights = Weights.fitted([*self._prompts, *self.common])
        return weights, weights.vectors(weights.counts(self._prompts))

    @cached_property
    def _embedded(self) -> Retriever:
        return embedded(sentence_encoder(), self._prompts)


@dataclass(frozen=True)
class Shared(bases.Shared):
    """What all edits of one model share."""

    common: tuple[str, ...]


@dataclass
class Memory(Prepared[Shared]):
    """Keeps facts, and puts those that a prompt is about before it."""

    k: Count = 1
    """The most facts before a prompt."""
    threshold: Share = 0.25
    """The least cosine of a fact's prompt with what is asked."""
    similarity: Literal["tfidf", "minilm"] = "tfidf"
    """Words in common, or MiniLM's sentence embeddings."""
    confirm: bool = False
    """Whether the model itself is asked if a fact is relevant, as in SCR."""
    wording: Literal["instruction", "fact", "imagine"] = "instruction"
    """How a fact is told: see the editor prompt."""
    seed: int = 0
    """Seed of the texts that say which words are common."""

    needs: ClassVar[str] = "a model that heeds what stands before a prompt; no subject"
    citation: ClassVar[str] = (
        "Chen et al. (2024), Lifelong Knowledge Editing requires Better Regularization"
    )

    @property
    def variant(self) -> str:
        """Name what is not as by default."""
        return ", ".join(
            [*(["minilm"] * (self.similarity == "minilm")), *(["confirmed"] * self.confirm)]
        )

    def find(self, model: Model) -> Shared:
        """Let the unedited model write texts, which say what words are common."""
        texts = sampled(model, (LENGTH,), WRITTEN, self.seed)[1:]
        return Shared({"common": digest(texts)}, {}, texts)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return a memory of the facts."""
        return self.extend(model, Edit(), requests)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the memory with the new facts in it."""
        known = previous.prefix.statements if isinstance(previous.prefix, Facts) else {}
        statements = {**known, **{request.text: request.statement for request in requests}}
        how = self.k, self.threshold, self.wording, self.similarity, self.confirm
        return replace(previous, prefix=Facts(statements, self.ready(model).common, *how))
