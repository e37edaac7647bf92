"""Queries as rows of token ids, rows as the tensors of a pass, and predictions as answers.

Queries that need the same row share it: two one-token candidates are read off the prompt alone,
and so is the next-token distribution. No forward pass happens here; how texts share a row stands
in `packing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

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
from .hooks import Places
from .tokens import Tokens

Beginning: TypeAlias = tuple[int, ...]
"""A text's tokens up to one of them: all that a prediction of a causal model depends on."""
SLICE = 32
"""Predictions that are read at once."""


@dataclass(frozen=True)
class Batch:
    """Rows of token ids, padded to one width."""

    ids: Tensor
    mask: Tensor
    """1 where a row has a token, rows by columns; or what to add to attention scores, in 4-D."""
    starts: Tensor
    """Column of each row's first token."""
    position_ids: Tensor
    """The place of each column in its text."""

    def places(self, rows: Sequence[int], positions: Sequence[int]) -> Places:
        """Return where positions, counted from each row's first token, lie in the batch."""
        index = torch.tensor(rows, device=self.ids.device)
        return Places(index, self.starts[index] + torch.tensor(positions, device=self.ids.device))


def padded(rows: Sequence[Sequence[int]], *, left: bool, device: torch.device) -> Batch:
    """Pad rows to the width of the longest, on the left or on the right."""
    width = max(len(row) for row in rows)
    pads = [width - len(row) for row in rows]
    padded = [
        [0] * pad + list(row) if left else [*row, *[0] * pad]
        for pad, row in zip(pads, rows, strict=True)
    ]
    ids = torch.tensor(padded, device=device)
    starts = torch.tensor(pads if left else [0] * len(rows), device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    columns = torch.arange(width, device=device) - starts[:, None]
    mask = ((columns >= 0) & (columns < lengths[:, None])).long()
    return Batch(ids, mask, starts, position_ids=(mask.cumsum(1) - 1).clamp(min=0))


@dataclass
class Wanted:
    """What to keep of the prediction at one position of a row."""

    position: int
    tokens: set[int] = field(default_factory=set)
    whole: bool = False
    against: Beginning = ()
    """The text up to where the unedited model's prediction is compared with this one."""

    def merge(self, other: Wanted) -> None:
        """Keep what the other asks for too."""
        self.tokens |= other.tokens
        self.whole |= other.whole
        self.against = self.against or other.against


@dataclass(eq=False)
class TokenRow:
    """One sequence to run under one edit."""

    edit: Edit
    ids: tuple[int, ...]
    prompt_length: int
    wanted: dict[int, Wanted] = field(default_factory=dict)

    def want(self, position: int) -> Wanted:
        """Return what to keep at a position, to be added to."""
        return self.wanted.setdefault(position, Wanted(position))


Place: TypeAlias = tuple[TokenRow, int]
"""A row and the position in it where a prediction is read."""


@dataclass(frozen=True)
class Prediction:
    """What was kept of one prediction."""

    argmax: int
    logprobs: Mapping[int, float]
    log_partition: float
    whole: Tensor | None = None
    """All log-probabilities, where the model computed them."""
    divergence: Divergence | None = None

    def joined(self, other: Prediction) -> Prediction:
        """Return this with what another one of the same text kept besides."""
        whole = other.whole if self.whole is None else self.whole
        return replace(self, logprobs={**other.logprobs, **self.logprobs}, whole=whole)

    def answers(self, wanted: Wanted) -> bool:
        """Tell whether all that is wanted is here."""
        has_whole = self.whole is not None or not wanted.whole
        return wanted.tokens <= self.logprobs.keys() and has_whole


class QueryBatch:
    """The rows that a list of questions needs, and the answers once predictions have been read."""

    def __init__(self, tokens: Tokens, questions: Sequence[tuple[Edit, Query]]) -> None:
        self.tokens = tokens
        self.questions = questions
        self.predictions: dict[Place, Prediction] = {}
        self._rows: dict[tuple[int, tuple[int, ...], int], TokenRow] = {}
        self._parts = [list(self._parts_of(edit, query)) for edit, query in questions]

    @property
    def rows(self) -> list[TokenRow]:
        """The distinct rows to run."""
        return list(self._rows.values())

    def answers(self, generated: Iterator[Answer]) -> list[Answer]:
        """Return the answers in the order of the questions; generated texts are handed in."""
        return [
            next(generated) if isinstance(query, Generate) else self._answer(query, parts)
            for (_, query), parts in zip(self.questions, self._parts, strict=True)
        ]

    def _parts_of(self, edit: Edit, query: Query) -> Iterator[list[tuple[Place, int]]]:
        """Yield for each part of a query where to read which tokens."""
        if isinstance(query, Choose):
            for candidate in query.candidates:
                parts = self.tokens.split(edit.prefix + query.prompt, candidate)
                row = self._row(edit, parts.inputs, len(parts.prompt))
                scored = list(zip(parts.places, parts.target, strict=True))
                for position, token in scored:
                    row.want(position).tokens.add(token)
                yield [((row, position), token) for position, token in scored]
        elif isinstance(query, NextToken) or (isinstance(query, Drift) and edit.changes_nothing):
            yield [(self._whole(edit, query.prompt), -1)]
        elif isinstance(query, Drift):
            unedited, _ = self._whole(UNEDITED, query.prompt)
            row = self._prompt(edit, query.prompt)
            row.want(len(row.ids) - 1).against = unedited.ids
            yield [((row, len(row.ids) - 1), -1)]

    def _whole(self, edit: Edit, prompt: str) -> Place:
        """Keep the whole distribution behind a prompt."""
        row = self._prompt(edit, prompt)
        row.want(len(row.ids) - 1).whole = True
        return row, len(row.ids) - 1

    def _prompt(self, edit: Edit, prompt: str) -> TokenRow:
        ids = self.tokens.encode(edit.prefix + prompt).ids
        return self._row(edit, ids, len(ids))

    def _row(self, edit: Edit, ids: tuple[int, ...], prompt_length: int) -> TokenRow:
        effective = UNEDITED if edit.changes_nothing else edit
        key = (id(effective), ids, prompt_length)
        return self._rows.setdefault(key, TokenRow(effective, ids, prompt_length))

    def _answer(self, query: Query, parts: Sequence[Sequence[tuple[Place, int]]]) -> Answer:
        found = self.predictions
        if isinstance(query, Choose):
            return Scores(
                tokens=tuple(tuple(token for _, token in part) for part in parts),
                logprobs=tuple(
                    tuple(found[place].logprobs[token] for place, token in part) for part in parts
                ),
                argmax=tuple(tuple(found[place].argmax for place, _ in part) for part in parts),
            )
        prediction = found[parts[0][0][0]]
        if prediction.divergence is not None and isinstance(query, Drift):
            return prediction.divergence
        assert prediction.whole is not None
        if isinstance(query, Drift):
            return Divergence(0.0, 0.0, len(prediction.whole))
        return Distribution(prediction.whole.cpu().numpy(), prediction.log_partition)


@torch.no_grad()
def predict(
    logits: Tensor, wanted: Sequence[Wanted], base: Mapping[Beginning, Prediction]
) -> Iterator[Prediction]:
    """Yield what each keeps of its line of logits, wanted by vocabulary.

    Divergences are computed here, so that no distribution of an edited model is kept for them. In
    slices, since a softmax takes as much memory as the logits themselves.
    """
    for start in range(0, len(wanted), SLICE):
        yield from _predict(logits[start : start + SLICE], wanted[start : start + SLICE], base)


def _predict(
    logits: Tensor, wanted: Sequence[Wanted], base: Mapping[Beginning, Prediction]
) -> Iterator[Prediction]:
    log = logits.log_softmax(-1)
    likeliest = logits.argmax(-1, keepdim=True)
    partition = logits.gather(1, likeliest) - log.gather(1, likeliest)
    at = [(i, token) for i, read in enumerate(wanted) for token in sorted(read.tokens)]
    lines, tokens = torch.tensor(at, dtype=torch.long).view(-1, 2).T.to(log.device)
    chosen: list[dict[int, float]] = [{} for _ in wanted]
    for (i, token), value in zip(at, log[lines, tokens].tolist(), strict=True):
        chosen[i][token] = value
    drifts = _divergences(log, wanted, base)
    found = zip(wanted, chosen, likeliest[:, 0].tolist(), partition[:, 0].tolist(), strict=True)
    for i, (read, logprobs, argmax, constant) in enumerate(found):
        whole = log[i].clone() if read.whole else None
        yield Prediction(argmax, logprobs, constant, whole, drifts.get(i))


def _divergences(
    log: Tensor, wanted: Sequence[Wanted], base: Mapping[Beginning, Prediction]
) -> dict[int, Divergence]:
    compared = [i for i, read in enumerate(wanted) if read.against]
    if not compared:
        return {}
    wholes = [base[wanted[i].against].whole for i in compared]
    unedited = torch.stack([whole.to(log.device) for whole in wholes if whole is not None])
    return dict(zip(compared, divergences(unedited, log[compared]), strict=True))


def divergences(base: Tensor, edited: Tensor) -> list[Divergence]:
    """Return both divergences of each pair of log-distributions, in nats, in float64.

    They are normalised anew, or rounding of the partition would drown small divergences. What it
    may still take below 0 is cut off there.
    """
    p, q = (log.double().log_softmax(-1) for log in (base, edited))
    forward = torch.clamp((p.exp() * (p - q)).sum(-1), min=0.0).tolist()
    reverse = torch.clamp((q.exp() * (q - p)).sum(-1), min=0.0).tolist()
    return [Divergence(f, r, base.shape[-1]) for f, r in zip(forward, reverse, strict=True)]
