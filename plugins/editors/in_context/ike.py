"""IKE: the new fact behind examples of edits, in front of every prompt (Zheng et al., 2023).

An example edit gives up to three demonstrations: a fact is repeated (copy), holds in other words (update), or
leaves the rest alone (retain). As in EasyEdit, the likest to the new fact come first, whatever their kinds;
the paper takes a fixed share of each. The authors' likeness is that of MiniLM's sentence embeddings; without
it TF-IDF serves, and tables say so, as they do where a context has room for fewer demonstrations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from edit_harness import DataError, PluginError, Request, join
from edit_harness.edits import Edit
from edit_harness.files import sha256_of
from edit_harness.model.model import Model
from edit_harness.model.tokens import TooLongError
from edit_harness.model.weights import of_tensors
from edit_harness.registry.settings import Count, Natural
from edit_harness_plugins.texts import Weights

from .._search import bases
from .._search.bases import Prepared
from . import lessons
from .lessons import Lesson
from .prompt import WORDINGS, Prompt

WORDS = WORDINGS["fact"]
END = "\n\n"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"

Retriever = Callable[[str], np.ndarray]
"""Gives a text's likeness to each demonstration."""


@dataclass(frozen=True)
class Shared(bases.Shared):
    """What all edits of one model share."""

    demonstrations: tuple[str, ...]
    prompts: tuple[str, ...]
    """Which edit each demonstration is of."""
    likeness: Retriever
    count: int
    """How many demonstrations an edit gets."""


@dataclass
class Ike(Prepared[Shared]):
    """Puts demonstrations and the facts before the prompt."""

    k: Count = 16
    """Demonstrations of an edit, if there is room."""
    retriever: Literal["minilm", "tfidf"] = "tfidf"
    """How demonstrations like a request are found: MiniLM's embeddings, or words in common."""
    data: str = ""
    """Example edits: a file in the layout of zsRE or CounterFact, or ``zsre``; by default those
    that the model brings along."""
    room: Natural = 200
    """Tokens that are left for the facts and for what is asked, its answer included."""

    needs: ClassVar[str] = "example edits, not those that are tested"
    citation: ClassVar[str] = "Zheng et al. (2023), Can We Edit Factual Knowledge by ICL?"

    @property
    def variant(self) -> str:
        """Name the retriever, if it is not the paper's, and how many demonstrations there are."""
        notes = ["TF-IDF"] if self.retriever == "tfidf" else []
        if self._shared and self._shared.count < self.k:
            notes.append(f"{self._shared.count} of {self.k} demonstrations")
        return ", ".join(notes)

    def find(self, model: Model) -> Shared:
        """Read the example edits, and find out how many demonstrations the model has room for.

        Raises `DataError` without examples, or if not even one has room, and `PluginError` without
        the retriever's package.
        """
        path = lessons.find(self.data, model.source)
        each = [(text, own.prompt) for own in lessons.read(path) for text in demonstrations(own)]
        texts, prompts = tuple(text for text, _ in each), tuple(prompt for _, prompt in each)
        count = fitting(model, texts, self.k, self.room)
        if not count:
            raise DataError(
                f"the model's {model.tokens.limit} positions have no room for a demonstration "
                f"beside {self.room} tokens for facts and questions",
                "leave less room (--editor-args room=100), or use the editor prompt",
            )
        digests = {"lessons": sha256_of(path)}
        if self.retriever == "minilm":
            encoder = sentence_encoder()
            digests["retriever"] = of_tensors(sorted(encoder.state_dict().items()))
            likeness = embedded(encoder, texts)
        else:
            likeness = tfidf(texts)
        found = {"store": len(texts), "demonstrations": count}
        return Shared(digests, found, texts, prompts, likeness, count)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return a prefix of the demonstrations nearest to the first fact, and of all facts."""
        return self.extend(model, Edit(), requests)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return the prefix with the new facts behind the old ones.

        The demonstrations stay those of the first fact, but for any of an edit now asked for.
        """
        shared = self.ready(model)
        prefix = str(previous.prefix) or "".join(nearest(shared, requests[0]))
        asked = {request.text for request in requests}
        for text, prompt in zip(shared.demonstrations, shared.prompts, strict=True):
            if prompt in asked:
                prefix = prefix.replace(text, "")
        return Prompt("fact").extend(model, Edit(prefix=prefix), requests)


def demonstrations(lesson: Lesson) -> list[str]:
    """Return how to copy a fact, how to tell it in other words, and what it leaves alone."""
    fact = join(lesson.prompt, lesson.target)
    shown = [fact, join(lesson.other, lesson.other_answer)]
    if lesson.rephrasings:
        shown.insert(1, join(lesson.rephrasings[0], lesson.target))
    return [framed(fact, text) for text in shown]


def framed(fact: str, text: str) -> str:
    """Return one demonstration."""
    return f"{WORDS.before}{fact}{WORDS.after}{WORDS.closing}{text}{END}"


def nearest(shared: Shared, request: Request) -> list[str]:
    """Return the demonstrations most like a request, those of the same prompt left out.

    The likest come first; of equally like ones, those that stand first in the file.
    """
    order = np.argsort(-shared.likeness(framed(request.statement, request.text)), kind="stable")
    others = [i for i in order if shared.prompts[i] != request.text]
    return [shared.demonstrations[i] for i in others[: shared.count]]


def fitting(model: Model, texts: Sequence[str], most: int, room: int) -> int:
    """Return how many demonstrations fit whichever they are: as many as of the longest ones.

    Each is counted with the special tokens that only the first one has.
    """
    limit = model.tokens.limit
    if limit is None:
        return min(most, len(texts))
    longest = sorted((_length(model, text, limit) for text in texts), reverse=True)[:most]
    return int((np.cumsum(longest) <= limit - room).sum())


def _length(model: Model, text: str, limit: int) -> int:
    try:
        return len(model.tokens.encode(text).ids)
    except TooLongError:
        return limit + 1


def tfidf(texts: Sequence[str]) -> Retriever:
    """Return the cosine of TF-IDF vectors, weighted by how rare a word is in these texts."""
    weights = Weights.fitted(texts)
    store = weights.vectors(weights.counts(texts))
    return lambda text: store @ weights.vectors(weights.counts([text])).toarray()[0]


def embedded(encoder: Any, texts: Sequence[str]) -> Retriever:
    """Return the cosine of sentence embeddings."""
    store = encoder.encode(list(texts), normalize_embeddings=True)
    return lambda text: store @ encoder.encode([text], normalize_embeddings=True)[0]


def sentence_encoder() -> Any:
    """Return MiniLM. Raises `PluginError` without its package, `DataError` if it is out of reach."""
    try:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(MINILM)
    except ImportError:
        raise PluginError(
            "retriever=minilm needs the package sentence-transformers",
            "pip install 'edit-harness[ike]', or --editor-args retriever=tfidf",
        ) from None
    except OSError as error:
        raise DataError(
            f"{MINILM} cannot be loaded: {error}",
            "fetch it while online, or go without: --editor-args retriever=tfidf",
        ) from None
