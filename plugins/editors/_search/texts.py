"""Requests as tokens, for passes that learn from them, and which requests share passes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from edit_harness import Request
from edit_harness.model.model import Model
from edit_harness.model.tokens import Continuation, Tokens

FactToken: TypeAlias = Literal["subject_first", "subject_last", "subject_first_after_last", "last"]
"""A token of a prompt at which a fact can be looked at or written, by the names of ROME's authors."""
GROUP_BYTES = 2 * 2**30
"""Most bytes of changes and their Adam moments that share passes, unless one case needs more."""
GROUP_TEXTS = 64
"""Most texts of a pass, unless one case's chunk has more."""
SPREAD = 1.5
"""Texts of a pass differ in length by this factor at most, or padding eats what sharing saves."""


@dataclass(frozen=True)
class Text:
    """A request as tokens."""

    ids: tuple[int, ...]
    reads: tuple[int, ...]
    """Position where each target token is scored."""
    target: tuple[int, ...]

    @classmethod
    def of(cls, parts: Continuation) -> Text:
        """Return a text whose target tokens are scored each after those before it."""
        return cls(parts.inputs, tuple(parts.places), parts.target)


def fact_token(
    tokens: Tokens, which: FactToken, request: Request, prompt: str | None = None, target: str = ""
) -> int:
    """Return the index of a token of a prompt, which is given as for `Tokens.subject_last`.

    The token after a subject that ends its prompt is the subject's last. The last token is the
    prompt's, before the target.
    """
    text, last = prompt or request.text, tokens.subject_last(request, prompt, target)
    if which == "subject_last":
        return last
    whole = tokens.encode(text, target)
    if which == "subject_first":
        end = len(tokens.frame.before) + text.index(request.text) + request.subject_end
        first = end - len(request.subject)
        # A character may be several tokens, of bytes.
        holding = (i for i, (start, end) in enumerate(whole.spans) if start <= first < end)
        return next(holding, whole.covering(first))
    end = len(tokens.split(text, target).prompt if target else whole.ids) - 1
    return end if which == "last" else min(last + 1, end)


def teacher_forced(model: Model, request: Request) -> Text:
    """Return a request's text, each target token scored after those before it."""
    return Text.of(model.tokens.split(request.text, request.target_new))


class Targets:
    """The target tokens of the texts of a pass, text after text."""

    def __init__(self, texts: Sequence[Text], device: torch.device) -> None:
        self.rows = [row for row, text in enumerate(texts) for _ in text.reads]
        """The row that each is read in."""
        self.positions = [position for text in texts for position in text.reads]
        self.tokens = torch.tensor([t for text in texts for t in text.target], device=device)

    def log_likelihoods(self, logits: Tensor) -> Tensor:
        """Return that of each token, in nats, from logits read there, tokens by vocabulary."""
        return logits.log_softmax(-1).gather(1, self.tokens[:, None])[:, 0]


def grouped(batches: Sequence[Sequence[Text]], chunk: int, size: int) -> Iterator[list[int]]:
    """Yield batches, by index, in groups that share passes: texts of nearly one length.

    ``chunk`` is how many texts of a batch a pass takes, ``size`` what a batch needs of
    `GROUP_BYTES`.
    """
    lengths = [max(len(text.ids) for text in batch) for batch in batches]
    group, texts = list[int](), 0
    for i in sorted(range(len(batches)), key=lengths.__getitem__):
        new = min(len(batches[i]), chunk)
        full = (len(group) + 1) * size > GROUP_BYTES or texts + new > GROUP_TEXTS
        if group and (full or lengths[i] > SPREAD * lengths[group[0]]):
            yield group
            group, texts = [], 0
        group.append(i)
        texts += new
    if group:
        yield group


def of_kinds(
    model: Model, kinds: Sequence[int], lengths: Sequence[int], copies: int = 1
) -> list[list[int]]:
    """Return texts, by index, in groups of one kind that a pass of the model may have.

    ``lengths`` are their tokens, ``copies`` the rows that each takes. A group is at least one text.
    """
    same: dict[int, list[int]] = {}
    for i, kind in enumerate(kinds):
        same.setdefault(kind, []).append(i)
    groups = []
    for own in same.values():
        rows = model.batch_tokens // max(lengths[i] for i in own)
        size = max(min(rows, model.batch_rows or rows) // copies, 1)
        groups += [own[i : i + size] for i in range(0, len(own), size)]
    return groups


def seeded(*parts: object) -> int:
    """Return a seed that depends on all that is given, and on nothing else."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
