"""From queries to rows of tokens and back: which rows to run, where to read, what they answer.

Queries that need the same row share it: two one-token candidates are read off the prompt alone,
and so is the next-token distribution. No forward pass happens here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..data import (
    Answer,
    Choose,
    Distribution,
    Divergence,
    Drift,
    Generate,
    NextToken,
    Query,
    Scores,
)
from ..edits import UNEDITED, Edit
from .tokens import Continuation, Tokens

Beginning: TypeAlias = tuple[int, ...]
"""A text's tokens up to one of them: all that a prediction of a causal model depends on."""
SLICE = 32
"""Predictions that are read at once."""


@dataclass
class Read:
    """What to keep of the prediction at one position of a row."""

    position: int
    tokens: set[int] = field(default_factory=set)
    whole: bool = False
    against: Beginning = ()
    """The text up to where the unedited model's prediction is compared with this one."""

    def merge(self, other: Read) -> None:
        """Keep what the other read asks for too."""
        self.tokens |= other.tokens
        self.whole |= other.whole
        self.against = self.against or other.against


@dataclass(eq=False)
class Row:
    """One sequence to run under one edit."""

    edit: Edit
    ids: tuple[int, ...]
    prompt_length: int
    reads: dict[int, Read] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """What was kept of one prediction."""

    argmax: int
    logprobs: Mapping[int, float]
    log_partition: float
    whole: Tensor | None = None
    """All log-probabilities, where the model computed them."""
    divergence: Divergence | None = None

    def joined(self, other: Reading) -> Reading:
        """Return this reading of a prediction with what another one kept besides."""
        whole = other.whole if self.whole is None else self.whole
        return replace(self, logprobs={**other.logprobs, **self.logprobs}, whole=whole)

    def answers(self, read: Read) -> bool:
        """Tell whether all that a read asks for is here."""
        return read.tokens <= self.logprobs.keys() and (self.whole is not None or not read.whole)


@torch.no_grad()
def take(
    logits: Tensor, reads: Sequence[Read], base: Mapping[Beginning, Reading]
) -> Iterator[Reading]:
    """Yield what each read keeps of its line of logits, reads by vocabulary.

    Divergences are computed here, so that no distribution of an edited model is kept for them. In
    slices, since a softmax takes as much memory as the logits themselves.
    """
    for start in range(0, len(reads), SLICE):
        yield from _take(logits[start : start + SLICE], reads[start : start + SLICE], base)


def _take(
    logits: Tensor, reads: Sequence[Read], base: Mapping[Beginning, Reading]
) -> Iterator[Reading]:
    log = logits.log_softmax(-1)
    likeliest = logits.argmax(-1, keepdim=True)
    partition = logits.gather(1, likeliest) - log.gather(1, likeliest)
    at = [(i, token) for i, read in enumerate(reads) for token in sorted(read.tokens)]
    lines, tokens = torch.tensor(at, dtype=torch.long).view(-1, 2).T.to(log.device)
    chosen: list[dict[int, float]] = [{} for _ in reads]
    for (i, token), value in zip(at, log[lines, tokens].tolist(), strict=True):
        chosen[i][token] = value
    drifts = _divergences(log, reads, base)
    found = zip(reads, chosen, likeliest[:, 0].tolist(), partition[:, 0].tolist(), strict=True)
    for i, (read, logprobs, argmax, constant) in enumerate(found):
        whole = log[i].clone() if read.whole else None
        yield Reading(argmax, logprobs, constant, whole, drifts.get(i))


def _divergences(
    log: Tensor, reads: Sequence[Read], base: Mapping[Beginning, Reading]
) -> dict[int, Divergence]:
    compared = [i for i, read in enumerate(reads) if read.against]
    if not compared:
        return {}
    wholes = [base[reads[i].against].whole for i in compared]
    unedited = torch.stack([whole.to(log.device) for whole in wholes if whole is not None])
    return dict(zip(compared, divergences(unedited, log[compared]), strict=True))


class Spot(NamedTuple):
    """A row and the position in it where a prediction is read."""

    row: Row
    position: int


class Worksheet:
    """The rows that a list of questions needs, and the answers once they have been read."""

    def __init__(self, tokens: Tokens, questions: Sequence[tuple[Edit, Query]]) -> None:
        self.tokens = tokens
        self.questions = questions
        self.readings: dict[tuple[Row, int], Reading] = {}
        self._rows: dict[tuple[int, tuple[int, ...], int], Row] = {}
        self._spots = [list(self._lay(edit, query)) for edit, query in questions]

    @property
    def rows(self) -> list[Row]:
        """The distinct rows to run."""
        return list(self._rows.values())

    def answers(self, generated: Iterator[Answer]) -> list[Answer]:
        """Return the answers in the order of the questions; generated texts are handed in."""
        return [
            next(generated) if isinstance(query, Generate) else self._answer(query, spots)
            for (_, query), spots in zip(self.questions, self._spots, strict=True)
        ]

    def _lay(self, edit: Edit, query: Query) -> Iterator[list[tuple[Spot, int]]]:
        """Lay out one query: a list of (where to read, which token) for each of its parts."""
        if isinstance(query, Choose):
            for candidate in query.candidates:
                parts = self.tokens.split(edit.prefix + query.prompt, candidate)
                yield self._score(edit, parts)
        elif isinstance(query, NextToken):
            yield [(self._whole(edit, query.prompt), -1)]
        elif isinstance(query, Drift):
            base = self._whole(UNEDITED, query.prompt)
            if edit.changes_nothing:
                yield [(base, -1)]
            else:
                row = self._prompt(edit, query.prompt)
                self._read(row, len(row.ids) - 1).against = base.row.ids
                yield [(Spot(row, len(row.ids) - 1), -1)]

    def _score(self, edit: Edit, parts: Continuation) -> list[tuple[Spot, int]]:
        row = self._row(edit, parts.inputs, len(parts.prompt))
        spots = []
        for position, token in zip(parts.places, parts.target, strict=True):
            self._read(row, position).tokens.add(token)
            spots.append((Spot(row, position), token))
        return spots

    def _whole(self, edit: Edit, prompt: str) -> Spot:
        row = self._prompt(edit, prompt)
        self._read(row, len(row.ids) - 1).whole = True
        return Spot(row, len(row.ids) - 1)

    def _prompt(self, edit: Edit, prompt: str) -> Row:
        ids = self.tokens.encode(edit.prefix + prompt).ids
        return self._row(edit, ids, len(ids))

    def _row(self, edit: Edit, ids: tuple[int, ...], prompt_length: int) -> Row:
        effective = UNEDITED if edit.changes_nothing else edit
        key = (id(effective), ids, prompt_length)
        return self._rows.setdefault(key, Row(effective, ids, prompt_length))

    def _read(self, row: Row, position: int) -> Read:
        return row.reads.setdefault(position, Read(position))

    def _answer(self, query: Query, parts: Sequence[Sequence[tuple[Spot, int]]]) -> Answer:
        if isinstance(query, Choose):
            return Scores(
                tokens=tuple(tuple(token for _, token in part) for part in parts),
                logprobs=tuple(
                    tuple(self.readings[spot].logprobs[token] for spot, token in part)
                    for part in parts
                ),
                argmax=tuple(
                    tuple(self.readings[spot].argmax for spot, _ in part) for part in parts
                ),
            )
        reading = self.readings[parts[0][0][0]]
        if reading.divergence is not None and isinstance(query, Drift):
            return reading.divergence
        assert reading.whole is not None
        if isinstance(query, Drift):
            return Divergence(0.0, 0.0, len(reading.whole))
        return Distribution(reading.whole.cpu().numpy(), reading.log_partition)


def divergences(base: Tensor, edited: Tensor) -> list[Divergence]:
    """Return both divergences of each pair of log-distributions, in nats, in float64.

    They are normalised anew, or rounding of the partition would drown small divergences. What it
    may still take below 0 is cut off there.
    """
    p, q = (log.double().log_softmax(-1) for log in (base, edited))
    forward = torch.clamp((p.exp() * (p - q)).sum(-1), min=0.0).tolist()
    reverse = torch.clamp((q.exp() * (q - p)).sum(-1), min=0.0).tolist()
    return [Divergence(f, r, base.shape[-1]) for f, r in zip(forward, reverse, strict=True)]
