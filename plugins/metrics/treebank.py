"""Words and marks of English text by the rules of the Penn Treebank.

What nltk's word tokenizer yields: published entropies are of its tokens. Sentences end as by Punkt without
training: there is no list of abbreviations here.
"""

from __future__ import annotations

import re
from itertools import pairwise

OPENERS, CLOSERS = r"[(\[{\"'*:;@]*", r"[\])}>\"'»”’]"
STOP = re.compile(rf"(?P<word>\S*)(?P<mark>[.?!]){CLOSERS}*\s+(?=(?P<next>\S))")
"""A mark at the end of a word, with the next one's first character."""
INITIAL = re.compile(rf"{OPENERS}[^\W\d]")
NUMBER = re.compile(rf"{OPENERS}-?[.,]?\d[\d,.-]*")

ALONE = r" \g<0> "
MARKS = (
    (r"[«“‘„]|`+", ALONE),
    (r"^\"|(?<=[ (\[{<])(?:\"|'')", " `` "),
    # A quote before a word of one letter that is no clitic.
    (r"(?i)'(?=[^\Wmtsdn]\b)", "' "),
    (rf"(?<=[^.])\.(?=(?:{CLOSERS}| )*$)", ALONE),
    # The character behind is taken along, so that of two commas in a row one is parted.
    (r"([:,])(\D)", r" \1 \2"),
    (r"[:,]$|\.{2,}|[;@#$%&?!*]", ALONE),
    (r"(?<=[^'])' ", " ' "),
    (r"[\]\[(){}<>]|--|[»”’]", ALONE),
    (r"\"|''", " '' "),
)
"""What is replaced in a sentence, in this order."""
CLITICS = tuple(
    re.compile(rf"(?i)(?<=[^' ])(?:{kind})(?= )") for kind in ("'s|'m|'d|'", "'ll|'re|'ve|n't")
)
"""Parted one kind after the other: of two in a row both are."""
GROWN = ("can not", "d 'ye", "gim me", "gon na", "got ta", "lem me", "more 'n", "wan na", "'t is",
         "'t was")  # fmt: skip
"""Words that are written as one, and where they part."""
PARTS = re.compile(
    "|".join(rf"(?i:(?<!\w){first}(?={second}\b))" for first, second in map(str.split, GROWN))
)
"""The first part of such a word."""


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
    for pattern, replacement in MARKS:
        sentence = re.sub(pattern, replacement, sentence)
    sentence = f" {' '.join(sentence.split())} "
    for clitic in CLITICS:
        sentence = clitic.sub(r" \g<0>", sentence)
    return PARTS.sub(ALONE, sentence).split()
