"""From queries to rows of tokens and back: which rows to run, where to read, what they answer.

Queries that need the same row share it: two one-token candidates are read off the prompt alone,
and so is the next-token distribution. No forward pass happens here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from edit_harness.cases import (
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
from edit_harness.edits import UNEDITED, Edit
from edit_harness.tokens import Continuation, Tokens


@dataclass
class Read:
    """What to keep of the prediction at one position of a row."""

    position: int
    tokens: set[int] = field(default_factory=set)
    whole: bool = False

    def merge(self, other: Read) -> None:
        """Keep what the other read asks for too."""
        self.tokens |= other.tokens
        self.whole |= other.whole


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
    whole: Tensor | None
    """All log-probabilities, on the CPU."""
    log_partition: float

    @classmethod
    def of(cls, logits: Tensor, read: Read) -> Reading:
        """Read one position's logits."""
        log_partition = logits.logsumexp(-1)
        tokens = sorted(read.tokens)
        chosen = (logits[tokens] - log_partition).tolist()
        whole = (logits - log_partition).cpu() if read.whole else None
        argmax, partition = int(logits.argmax()), float(log_partition)
        return cls(argmax, dict(zip(tokens, chosen, strict=True)), whole, partition)


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
            yield [(self._whole(UNEDITED, query.prompt), -1)]
            yield [(self._whole(edit, query.prompt), -1)]

    def _score(self, edit: Edit, parts: Continuation) -> list[tuple[Spot, int]]:
        row = self._row(edit, parts.inputs, len(parts.prompt))
        spots = []
        for position, token in zip(parts.places, parts.target, strict=True):
            self._read(row, position).tokens.add(token)
            spots.append((Spot(row, position), token))
        return spots

    def _whole(self, edit: Edit, prompt: str) -> Spot:
        ids = self.tokens.encode(edit.prefix + prompt).ids
        row = self._row(edit, ids, len(ids))
        self._read(row, len(ids) - 1).whole = True
        return Spot(row, len(ids) - 1)

    def _row(self, edit: Edit, ids: tuple[int, ...], prompt_length: int) -> Row:
        effective = UNEDITED if edit.touches_nothing else edit
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
        found = [self.readings[part[0][0]] for part in parts]
        wholes = [reading.whole for reading in found if reading.whole is not None]
        if isinstance(query, Drift):
            return divergence(*wholes)
        return Distribution(wholes[0].numpy(), found[0].log_partition)


def divergence(base: Tensor, edited: Tensor) -> Divergence:
    """Return both divergences of two log-distributions, in nats, in float64.

    They are normalised anew, or rounding of the partition would drown small divergences. What it
    may still take below 0 is cut off there.
    """
    p, q = (log.double().log_softmax(-1) for log in (base, edited))
    forward = torch.clamp((p.exp() * (p - q)).sum(), min=0.0)
    reverse = torch.clamp((q.exp() * (q - p)).sum(), min=0.0)
    return Divergence(float(forward), float(reverse), len(base))
