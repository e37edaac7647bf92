"""Queries as rows of token ids, rows as the tensors of a pass, and predictions as answers.

Queries that need the same row share it: one-token candidates are read off the prompt alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..data import Answer, Choose, Distribution, Divergence, Drift, Generate, Query, Scores
from ..edits import UNEDITED, Edit
from .hooks import Places, prompted
from .tokens import Tokens

Beginning: TypeAlias = tuple[int, ...]
"""A text's tokens up to one of them: all that a prediction of a causal model depends on."""


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
    tensors: list[Any] = [torch.tensor(row) for row in rows]
    side = "left" if left else "right"
    ids = pad_sequence(tensors, batch_first=True, padding_side=side).to(device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    starts = (ids.shape[1] - lengths) * left
    columns = torch.arange(ids.shape[1], device=device) - starts[:, None]
    mask = ((columns >= 0) & (columns < lengths[:, None])).long()
    return Batch(ids, mask, starts, position_ids=(mask.cumsum(1) - 1).clamp(min=0))


@dataclass
class Wanted:
    """What to keep of one prediction."""

    tokens: set[int] = field(default_factory=set)
    whole: bool = False
    against: Beginning = ()
    """The text behind which the unedited model predicts what this prediction is compared with."""

    def merge(self, other: Wanted) -> None:
        """Keep what the other asks for too."""
        self.tokens |= other.tokens
        self.whole |= other.whole
        self.against = self.against or other.against


@dataclass(frozen=True)
class Prediction:
    """What was kept of one prediction."""

    argmax: int
    logprobs: Mapping[int, float]
    log_partition: float
    whole: Tensor | None = None
    """All log-probabilities, if they were wanted."""
    divergence: Divergence | None = None

    def joined(self, other: Prediction) -> Prediction:
        """Return this with what another one of the same text kept besides."""
        whole = other.whole if self.whole is None else self.whole
        return replace(self, logprobs={**other.logprobs, **self.logprobs}, whole=whole)

    def answers(self, wanted: Wanted) -> bool:
        """Tell whether all that is wanted is here."""
        has_whole = self.whole is not None or not wanted.whole
        return has_whole and wanted.tokens <= self.logprobs.keys()


@dataclass(eq=False)
class TokenRow:
    """One sequence to run under one edit: what is wanted at its positions, and what was found."""

    edit: Edit
    ids: tuple[int, ...]
    prompt_length: int
    wanted: dict[int, Wanted] = field(default_factory=dict)
    found: dict[int, Prediction] = field(default_factory=dict)

    def want(self, position: int) -> Wanted:
        """Return what to keep at a position, to be added to."""
        return self.wanted.setdefault(position, Wanted())


Target: TypeAlias = tuple[TokenRow, int, int]
"""A row, a position in it, and the token whose log-probability is read there; or -1."""


class QueryBatch:
    """The rows that a list of questions needs, and the answers once predictions were found."""

    def __init__(self, tokens: Tokens, questions: Sequence[tuple[Edit, Query]]) -> None:
        self.tokens = tokens
        self._rows: dict[tuple[Edit, tuple[int, ...], int], TokenRow] = {}
        self._reads = [(query, self._reads_of(edit, query)) for edit, query in questions]

    @property
    def rows(self) -> list[TokenRow]:
        """The distinct rows to run."""
        return list(self._rows.values())

    def answers(self, generated: Iterator[Answer]) -> list[Answer]:
        """Return the answers in the order of the questions; generated texts are handed in."""
        return [
            next(generated) if isinstance(query, Generate) else _answer(query, reads)
            for query, reads in self._reads
        ]

    def _reads_of(self, edit: Edit, query: Query) -> list[list[Target]]:
        """Return what to read for each candidate of a query, or at the end of its prompt."""
        if isinstance(query, Generate):
            return []
        if isinstance(query, Choose):
            return [self._scored(edit, query.prompt, each) for each in query.candidates]
        drifts = isinstance(query, Drift) and not edit.changes_nothing
        row = unedited = self._prompt(UNEDITED if drifts else edit, query.prompt)
        row.want(len(row.ids) - 1).whole = True
        if drifts:
            row = self._prompt(edit, query.prompt)
            row.want(len(row.ids) - 1).against = unedited.ids
        return [[(row, len(row.ids) - 1, -1)]]

    def _scored(self, edit: Edit, prompt: str, candidate: str) -> list[Target]:
        """Want the tokens of a candidate behind a prompt."""
        parts = self.tokens.split(prompted(edit, prompt), candidate)
        row = self._row(edit, parts.inputs, len(parts.prompt))
        reads = [(row, at, token) for at, token in zip(parts.places, parts.target, strict=True)]
        for _, position, token in reads:
            row.want(position).tokens.add(token)
        return reads

    def _prompt(self, edit: Edit, prompt: str) -> TokenRow:
        ids = self.tokens.encode(prompted(edit, prompt)).ids
        return self._row(edit, ids, len(ids))

    def _row(self, edit: Edit, ids: tuple[int, ...], prompt_length: int) -> TokenRow:
        effective = UNEDITED if edit.changes_nothing else edit
        row = TokenRow(effective, ids, prompt_length)
        return self._rows.setdefault((effective, ids, prompt_length), row)


def _answer(query: Query, reads: Sequence[Sequence[Target]]) -> Answer:
    """Make an answer of what was found at its reads."""
    if isinstance(query, Choose):
        parts = [[(row.found[at], token) for row, at, token in part] for part in reads]
        return Scores(
            tokens=tuple(tuple(token for _, token in part) for part in parts),
            logprobs=tuple(tuple(p.logprobs[token] for p, token in part) for part in parts),
            argmax=tuple(tuple(p.argmax for p, _ in part) for part in parts),
        )
    row, last, _ = reads[0][0]
    prediction = row.found[last]
    if prediction.divergence is not None and isinstance(query, Drift):
        return prediction.divergence
    assert prediction.whole is not None
    if isinstance(query, Drift):  # of no edit
        return Divergence(0.0, 0.0, len(prediction.whole))
    return Distribution(prediction.whole.cpu().numpy(), prediction.log_partition)


@torch.no_grad()
def predict(
    logits: Tensor, wanted: Sequence[Wanted], base: Mapping[Beginning, Prediction]
) -> list[Prediction]:
    """Return what each keeps of its line of logits, and its divergence from the unedited ``base``.

    No distribution of an edited model is kept for the latter.
    """
    log = logits.log_softmax(-1)
    likeliest = logits.argmax(-1, keepdim=True)
    partition = logits.gather(1, likeliest) - log.gather(1, likeliest)
    at = [(i, token) for i, want in enumerate(wanted) for token in sorted(want.tokens)]
    lines, tokens = torch.tensor(at, dtype=torch.long).view(-1, 2).T.to(log.device)
    chosen: list[dict[int, float]] = [{} for _ in wanted]
    for (i, token), value in zip(at, log[lines, tokens].tolist(), strict=True):
        chosen[i][token] = value
    drifts: dict[int, Divergence] = {}
    if compared := [i for i, want in enumerate(wanted) if want.against]:
        wholes = [base[wanted[i].against].whole for i in compared]
        unedited = torch.stack([whole.to(log.device) for whole in wholes if whole is not None])
        drifts = dict(zip(compared, divergences(unedited, log[compared]), strict=True))
    found = zip(wanted, chosen, likeliest[:, 0].tolist(), partition[:, 0].tolist(), strict=True)
    return [
        Prediction(argmax, logprobs, rest, log[i].clone() if want.whole else None, drifts.get(i))
        for i, (want, logprobs, argmax, rest) in enumerate(found)
    ]


def divergences(base: Tensor, edited: Tensor) -> list[Divergence]:
    """Return both divergences of each pair of log-distributions, in nats, in float64.

    Distributions are normalised anew, or rounding would drown small divergences.
    """
    p, q = (log.double().log_softmax(-1) for log in (base, edited))
    forward = torch.clamp((p.exp() * (p - q)).sum(-1), min=0.0).tolist()
    reverse = torch.clamp((q.exp() * (q - p)).sum(-1), min=0.0).tolist()
    return [Divergence(f, r, base.shape[-1]) for f, r in zip(forward, reverse, strict=True)]
