"""The data of an evaluation: what to edit, what to ask, and what the model answered.

Everything here is frozen and free of torch, so tasks and metrics run without a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from .interfaces import Control

SUBJECT = "{}"


class Trimmed:
    """Base of what drops white space around its texts: `join` adds a space of its own."""

    def _trim(self, *names: str, blanks: str | None = None) -> None:
        """Trim texts, or tuples of texts; ``blanks`` are the characters if not all white space."""
        for name in names:
            given = getattr(self, name)
            one = isinstance(given, str)
            bare = given.strip(blanks) if one else tuple(text.strip(blanks) for text in given)
            object.__setattr__(self, name, bare)


@dataclass(frozen=True)
class Request(Trimmed):
    """One fact to write: after the edit the model continues ``text`` with ``target_new``.

    White space around a text is dropped. Raises `DataError` if the prompt of a request with a
    subject has not exactly one ``{}``, or prompt or ``target_new`` is empty.
    """

    prompt: str
    """The prompt, with ``{}`` in the place of the subject; without a subject, braces are text."""
    subject: str = ""
    target_new: str = ""
    """The object to write, which one space joins to the prompt."""
    target_true: str = ""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What an editor needs besides, by the names that `Editor.takes` has."""

    @classmethod
    def of(cls, prompt: str, target: str) -> Request:
        """Return a request without a subject."""
        return cls(prompt, target_new=target)

    def __post_init__(self) -> None:
        for text in (self.prompt, self.subject, self.target_new, self.target_true):
            # Half of a surrogate pair cannot be written.
            if not isinstance(text, str) or text.encode(errors="ignore").decode() != text:
                raise DataError(f"{text!r} is no text that a request can be made of")
        self._trim("prompt", "subject", "target_new", "target_true")
        if self.subject and (count := self.prompt.count(SUBJECT)) != 1:
            raise DataError(f"the prompt {self.prompt!r} has {count} places '{{}}' for the subject")
        for name in ("prompt", "target_new"):
            if not getattr(self, name):
                raise DataError(f"the request {self.prompt!r} has an empty {name}")

    @property
    def text(self) -> str:
        """The prompt with the subject filled in."""
        return self.prompt.replace(SUBJECT, self.subject, 1) if self.subject else self.prompt

    @property
    def statement(self) -> str:
        """The whole new fact as a text."""
        return join(self.text, self.target_new)

    @property
    def subject_end(self) -> int:
        """Where the subject ends in ``text``, in characters. Raises `DataError` if there is none."""
        if not self.subject:
            raise DataError(f"the request {self.prompt!r} has no subject")
        return self.prompt.index(SUBJECT) + len(self.subject)


def join(prompt: str, target: str) -> str:
    """Return the text that a model is scored on: the prompt, one space, the target."""
    return f"{prompt} {target}"


@dataclass(frozen=True)
class Prompted(Trimmed):
    """A prompt, without the white space around it."""

    prompt: str

    def __post_init__(self) -> None:
        self._trim("prompt")


@dataclass(frozen=True)
class Choose(Prompted):
    """Ask how likely each candidate is after the prompt; answered by `Scores`."""

    candidates: tuple[str, ...]
    """Texts; one space joins each to the prompt. White space around them is dropped."""

    def __post_init__(self) -> None:
        self._trim("prompt", "candidates")


@dataclass(frozen=True)
class Drift(Prompted):
    """Ask how far the edit moves the next-token distribution; answered by `Divergence`."""


@dataclass(frozen=True)
class NextToken(Prompted):
    """Ask for the whole next-token distribution; answered by `Distribution`."""


@dataclass(frozen=True)
class Generate(Prompted):
    """Ask for a continuation; answered by `Text`. The prompt keeps line breaks at its ends: a text may begin a line."""

    max_new_tokens: int = 50
    top_k: int = 1
    """1 is greedy; larger samples among the k likeliest tokens."""
    seed: int = 0
    max_tokens: int | None = None
    """The most tokens of prompt and continuation together; an edit's own prefix is not counted."""
    to_the_end: bool = False
    """Whether generation continues after an end-of-text token, until the context is full."""
    stop: str | tuple[str, ...] = ""
    """Ends the text before the first occurrence of this; white space at its beginning is ignored. Of several
    the first ends it wherever it stands, and the text comes with its tokens."""

    def __post_init__(self) -> None:
        self._trim("prompt", blanks=" \t")


Query: TypeAlias = Choose | Drift | NextToken | Generate


@dataclass(frozen=True)
class Scores:
    """Answer to `Choose`; each field has a tuple for every candidate, an item for every token."""

    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    """Natural logarithms, teacher-forced."""
    argmax: tuple[tuple[int, ...], ...]
    """The token that the model finds likeliest in each place."""

    def nll(self, candidate: int) -> float:
        """Mean negative log-probability of a candidate's tokens, in nats."""
        return -math.fsum(self.logprobs[candidate]) / len(self.logprobs[candidate])

    def prob(self, candidate: int) -> float:
        """Geometric mean of the probabilities of a candidate's tokens, in [0, 1]."""
        return math.exp(-self.nll(candidate))

    def exact(self, candidate: int) -> bool:
        """Tell whether every token of a candidate is the likeliest in its place."""
        return self.tokens[candidate] == self.argmax[candidate]


@dataclass(frozen=True)
class Divergence:
    """Answer to `Drift`: P is the unedited model's distribution, Q the one under the edit."""

    forward: float
    """KL(P || Q) in nats, at least 0."""
    reverse: float
    """KL(Q || P) in nats, at least 0."""
    vocabulary: int
    """Number of tokens that the distributions are over."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """Answer to `NextToken`; never stored."""

    logprobs: np.ndarray
    """Natural logarithms over the vocabulary."""
    log_partition: float
    """What to add to a log-probability to get the logit."""


@dataclass(frozen=True)
class Verdict:
    """What a judge says of a text."""

    status: Literal["decided", "undecided", "unparsed", "pending"]
    """undecided: the judge could not tell; counts as wrong. Not counted: unparsed (the judge's reply is no
    verdict), and pending (it failed, until it has judged)."""
    score: float | None = None
    """In [0, 1], 1 for a right reply; None if it is unparsed or pending."""
    reverted: bool = False
    """Whether the reply is what was right before the edit."""
    note: str = ""
    """How it was decided, or why not."""
    raw: str = ""
    """The judge's own reply, if it is a model; or what was compared."""
    ratings: Mapping[str, float] = field(default_factory=dict)
    """What it says of each aspect it was asked for, in [-1, 1]: see `edit_harness.Judge.kinds`."""
    served: str = ""
    """Which model judged, in its server's words; empty if no model did."""
    swapped: bool | None = None
    """Whether the verdict changed when two texts changed places; None if that was not tried."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """What it took: ``tokens`` (of prompts and replies), ``usd`` where the price is known."""

    @property
    def counts(self) -> bool:
        """Whether the text is counted: as right, as wrong, or as one that could not be decided."""
        return self.status in ("decided", "undecided")


@dataclass(frozen=True)
class Text:
    """Answer to `Generate`: the continuation without the prompt, and what a judge says of it."""

    text: str
    verdict: Verdict | None = None
    tokens: tuple[int, ...] = ()
    """Where the query has several stops: what was generated, up to the token that brings one."""


@dataclass(frozen=True)
class Marks:
    """One measure of a control's documents, and how their values are combined."""

    values: tuple[float, ...]
    """One for each document."""
    weights: tuple[float, ...] = ()
    """The weight of each document, such as its number of words; empty if all weigh 1."""
    how: Literal["mean", "perplexity", "bits"] = "mean"
    """The mean by weight; or, of log-likelihoods in nats: exp of minus that; minus that, in bits."""
    better: Literal["higher", "lower", ""] = "higher"


@dataclass(frozen=True)
class Graded:
    """Answer of a control that runs its own code: its measures, by document."""

    documents: str
    """A digest of the documents as they were asked, in order: only equal ones can be paired."""
    marks: Mapping[str, Marks]
    """By measure."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Measures without a number, each with the reason in a few words."""


Answer: TypeAlias = Scores | Divergence | Distribution | Text | Graded
Answers: TypeAlias = tuple[Sequence[Answer], Sequence[Answer]]
"""What a case's probes answered before and after the edit, each in their order."""


def is_finite(answer: Answer) -> bool:
    """Tell whether all numbers of an answer are finite."""
    if isinstance(answer, Scores):
        return all(math.isfinite(value) for part in answer.logprobs for value in part)
    if isinstance(answer, Divergence):
        return math.isfinite(answer.forward) and math.isfinite(answer.reverse)
    if isinstance(answer, Graded):
        return all(math.isfinite(value) for m in answer.marks.values() for value in m.values)
    return not isinstance(answer, Distribution) or math.isfinite(answer.log_partition)


@dataclass(frozen=True)
class Key:
    """What a judge needs to know to tell whether a text is right."""

    kind: str
    """What is asked for, such as ``"formula"``: see `edit_harness.Judge.kinds`."""
    right: str = ""
    """The right answer under the edit; empty: what the unedited model replied."""
    old: str = ""
    """The right answer without the edit."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else the judge of this kind needs; JSON-ready."""


@dataclass(frozen=True)
class Reply:
    """A text to be judged."""

    prompt: str
    text: str
    key: Key


@dataclass(frozen=True)
class Probe:
    """A query with the part it plays in the case, and tags to break results down by."""

    role: str
    query: Query
    tags: Mapping[str, str] = field(default_factory=dict)
    key: Key | None = None
    """If given, the text that the query yields is judged by it."""


@dataclass(frozen=True)
class Case:
    """The unit of evaluation: the requests that belong together and the probes of their effect."""

    id: str
    requests: tuple[Request, ...]
    probes: tuple[Probe, ...]
    tags: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    """Why its record cannot be used; such a case is listed and not run."""


@dataclass(frozen=True)
class Examined(Case):
    """A control that runs its own code: no probes, and one answer, `Graded`."""

    control: Control = field(kw_only=True)


Visit: TypeAlias = tuple[str, int]
"""A case's id and the state of the model that was asked: see `edit_harness.run.plan.Step`."""
