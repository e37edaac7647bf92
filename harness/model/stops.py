"""Where a text ends whose query names a stop: the cut, and telling early that it has come.

The cut is made in the text, so that it does not hang on how the stop falls into tokens. Here is
neither sampling nor a model; tokens that end a text by themselves, such as EOS, are the affair of
`edit_harness.model.generation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .tokens import Tokens

BROKEN = "\ufffd"
"""What a part of a character is decoded to."""


def place(text: str, stop: str) -> int:
    """Return where the first stop behind the white space at a text's beginning stands, or -1."""
    return text.find(stop, len(text) - len(text.lstrip())) if stop else -1


def cut(text: str, stop: str) -> str:
    """Return the text before its first stop; all of it if there is none, or no stop is asked for."""
    return text if (at := place(text, stop)) < 0 else text[:at]


class Watch:
    """Tells whether a continuation has its stop, without decoding all of it for every token.

    Only a token in whose own text the stop's last character stands can bring the stop, or one that
    ends a character begun before it. Where a tokenizer hides that, as SentencePiece does with a space
    at the beginning, the stop is found later, which costs time and changes no text. Where what follows
    a stop could undo it, as bytes that make no character do behind a byte, the text ends all the same.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self._texts: dict[int, str] = {}

    def stopped(self, prompt: Sequence[int], new: Sequence[int], stop: str) -> bool:
        """Tell whether the last of the new tokens brings the stop."""
        if not stop or not new or not self._may_end(new[-1], stop):
            return False
        return place(self.tokens.continuation(prompt, new), stop) >= 0

    def _may_end(self, token: int, stop: str) -> bool:
        if token not in self._texts:
            self._texts[token] = self.tokens.decode([token])
        text = self._texts[token]
        return stop[-1] in text or BROKEN in text
