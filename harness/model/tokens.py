"""Texts to token ids: one encoding of a whole text, split by character.

Neither a target nor a prefix is tokenized alone: tokens may cross their ends. No torch here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from ..data import Request
from ..errors import DataError


@dataclass(frozen=True)
class Encoding:
    """The tokens of a text, special ones included, with the span of characters of each."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]

    def covering(self, character: int) -> int:
        """Return the index of the last token that holds a character, or the one merged with it."""
        spans = enumerate(self.spans)
        found = [i for i, (start, end) in spans if start <= character and start < end]
        if not found:
            raise DataError(f"no token holds character {character} of the text")
        return found[-1]


@dataclass(frozen=True)
class Continuation:
    """A prompt's tokens and those of the target after it, from one encoding of both."""

    prompt: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        """What a model reads to predict every token of the target."""
        return (self.prompt + self.target)[:-1]

    @property
    def places(self) -> range:
        """Positions in `inputs` whose predictions are the target's tokens."""
        return range(len(self.prompt) - 1, len(self.inputs))


@dataclass(frozen=True)
class Frame:
    """What stands around a prompt, and between it and the target."""

    before: str = ""
    after: str = ""
    gap: str = " "


PLAIN = Frame()
CLEANING = (
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
)
"""Settings of a tokenizer that change what tokens are as a text, and stand outside of its rules."""
REMEMBERED = 20_000
"""Texts whose tokens are kept."""


class Tokens:
    """A tokenizer of transformers behind the three questions that the harness asks."""

    def __init__(self, tokenizer: Any, limit: int | None = None, frame: Frame = PLAIN) -> None:
        self.tokenizer, self.limit, self.frame = tokenizer, limit, frame
        # A chat template writes the special tokens itself.
        self._options = {"add_special_tokens": False} if self.chats else {}
        if not getattr(tokenizer, "is_fast", False):
            raise DataError(
                "the model's tokenizer does not say which characters its tokens hold",
                "convert it to a fast one: tokenizer.json",
            )
        # A text is asked about before and after, for every candidate and for its divergence.
        self._known = lru_cache(REMEMBERED)(self._encoded)

    @property
    def chats(self) -> bool:
        """Whether prompts stand in a chat template."""
        return self.frame != PLAIN

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what the tokenizer does, to texts and back: its rules and its vocabulary."""
        tokenizer = self.tokenizer
        rules = tokenizer.backend_tokenizer.to_str()
        kind = f"{type(tokenizer).__name__} {tokenizer.special_tokens_map} {rules}"
        kind += repr(self.frame) if self.chats else ""
        # Only the names that are set, so that digests of before these settings stay.
        kind += "".join(name for name in CLEANING if getattr(tokenizer, name, False))
        return hashlib.sha256(kind.encode()).hexdigest()

    def encode(self, prompt: str, target: str = "") -> Encoding:
        """Encode a prompt, with a target behind it or none, in its frame, without an EOS.

        Raises `DataError` if there are no tokens, and `TooLongError` for too many.
        """
        text = self._framed(prompt) + (self.frame.gap + target if target else "")
        encoding = self._known(text)
        if not encoding.ids:
            raise DataError(f"the text {text!r} has no tokens")
        if self.limit and len(encoding.ids) > self.limit:
            raise TooLongError(
                f"{len(encoding.ids)} tokens are more than the model's {self.limit} positions: "
                f"{text[:60]!r}..."
            )
        return encoding

    def split(self, prompt: str, target: str) -> Continuation:
        """Encode a prompt and a target together, and cut at the first token that ends in the target.

        Raises `DataError` if the target has no tokens, or no token comes before it.
        """
        encoding, length = self.encode(prompt, target), len(self._framed(prompt))
        ends = (i for i, (_, end) in enumerate(encoding.spans) if end > length)
        first = next(ends, None)
        if first is None:
            raise DataError("the target has no tokens of its own")
        if first == 0:
            raise DataError("the first token of the text reaches into the target")
        return Continuation(encoding.ids[:first], encoding.ids[first:])

    def subject_last(self, request: Request, prompt: str | None = None, target: str = "") -> int:
        """Return the index of the subject's last token in a prompt, with a target behind it or none.

        ``prompt`` contains the request's text, and is that by default.
        """
        text = request.text if prompt is None else prompt
        ends = len(self.frame.before) + text.index(request.text) + request.subject_end
        return self.encode(text, target).covering(ends - 1)

    def _framed(self, prompt: str) -> str:
        return self.frame.before + prompt + self.frame.after

    def _encoded(self, text: str) -> Encoding:
        """Return a text's tokens up to the last that holds characters, so without EOS."""
        encoded = self.tokenizer(text, return_offsets_mapping=True, **self._options)
        ids, spans = tuple(encoded["input_ids"]), tuple(map(tuple, encoded["offset_mapping"]))
        stop = max((i + 1 for i, (start, end) in enumerate(spans) if end > start), default=0)
        return Encoding(ids[:stop], spans[:stop])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens left out."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def continuation(self, ids: Sequence[int], new: Sequence[int]) -> str:
        """Return the text that new tokens add to a text; a tokenizer may drop a first space."""
        before, whole = self.decode(ids), self.decode([*ids, *new])
        return whole[len(before) :] if whole.startswith(before) else self.decode(new)


class TooLongError(DataError):
    """A text with more tokens than the model has positions."""
