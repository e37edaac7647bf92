"""Words and marks of English text by the rules of the Penn Treebank.

What the word tokenizer of nltk yields, for whose sake this exists: published entropies are of its
tokens. Sentences, at whose end a full stop is a mark of its own, end as by Punkt without training:
there is no list of abbreviations here. It is no tokenizer of any model.
"""

from __future__ import annotations

import re
from itertools import pairwise

CLOSERS = r"[\])}>\"'»”’]"
STOP = re.compile(rf"(?P<word>\S*)(?P<mark>[.?!]){CLOSERS}*\s+(?=(?P<next>\S))")
OPENERS = r"[(\[{\"'*:;@]*"
INITIAL = re.compile(rf"{OPENERS}[^\W\d]")
NUMBER = re.compile(rf"{OPENERS}-?[.,]?\d[\d,.-]*")
ALONE = r" \g<0> "

BEFORE_BRACKETS = (
    (r"[«“‘„]|`+", ALONE),
    (r"^\"", " `` "),
    (r"(?<=[ (\[{<])(?:\"|'')", " `` "),
    (r"(?i)'(?!re|ve|ll|m|t|s|d|n)(?=\w\b)", "' "),
    (rf"(?<=[^.])\.(?=(?:{CLOSERS}| )*$)", ALONE),
    # The character behind is taken along, so that of two commas in a row one is parted.
    (r"([:,])(\D)", r" \1 \2"),
    (r"[:,]$", ALONE),
    (r"\.{2,}|[;@#$%&?!*]", ALONE),
    (r"(?<=[^'])' ", " ' "),
    (r"[\]\[(){}<>]|--", ALONE),
)
"""What is replaced in a sentence, in this order."""
AFTER_BRACKETS = (
    (r"[»”’]|''", ALONE),
    (r"\"", " '' "),
    (r"\s+", " "),
    (r"(?<=[^' ])('[sSmMdD]|') ", r" \1 "),
    (r"(?<=[^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r" \1 "),
    (r"(?i)\b(can)(not)\b|\b(d)('ye)\b|\b(gim|lem)(me)\b|\b(gon)(na)\b", r" \1\3\5\7 \2\4\6\8 "),
    (r"(?i)\b(got)(ta)\b|\b(more)('n)\b|\b(wan)(na)(?=\s)|(?<= )('t)(is|was)\b",
     r" \1\3\5\7 \2\4\6\8 "),
)  # fmt: skip
"""The same in the sentence with a space at both ends: clitics and words that have grown together."""


def tokens(text: str) -> list[str]:
    """Return the words and marks of a text in order; quotes are written `` and ''."""
    return [token for sentence in sentences(text) for token in _tokens(sentence)]


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the space between them."""
    starts = [0, *(found.end() for found in STOP.finditer(text) if _ends(found)), len(text)]
    parts = (text[start:end].strip() for start, end in pairwise(starts))
    return [part for part in parts if part]


def _ends(found: re.Match[str]) -> bool:
    """Tell whether a mark ends its sentence: not dots, nor a stop after initials or ordinals."""
    word, following = found["word"], found["next"]
    if found["mark"] != ".":
        return True
    if word.endswith("."):
        return False
    if INITIAL.fullmatch(word):
        return not following.isalpha()
    return not (NUMBER.fullmatch(word) and following.islower())


def _tokens(sentence: str) -> list[str]:
    for pattern, replacement in BEFORE_BRACKETS:
        sentence = re.sub(pattern, replacement, sentence)
    sentence = f" {sentence} "
    for pattern, replacement in AFTER_BRACKETS:
        sentence = re.sub(pattern, replacement, sentence)
    return sentence.split()
