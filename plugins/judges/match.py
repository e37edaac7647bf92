"""Tells by comparing words whether a text is an answer, or has it in it.

Case, punctuation and the forms of Unicode do not matter; the signs of "C++", "C#", "3.5" and "-5" are parts
of words. Where a script has no spaces, or joins particles to names, each character is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from edit_harness import Judge, Key, Reply, Verdict

from .keys import check, refuse

ARTICLES = frozenset({"a", "an", "the"})
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u312f"  # kana, without the dot between names
    "\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff"  # Han, Hangul
)
LETTER = rf"[^\W{UNSPACED}]"
WORD = re.compile(
    rf"[{UNSPACED}]"
    # A sign stands before a number, and not between two, as in 1990-1995.
    rf"|(?:(?<![\w.-])-?\.?(?=\d))?{LETTER}(?:{LETTER}|[+#]|(?<=\d)[.,](?=\d))*"
)
SENTENCE = re.compile(r"\.(?=\s)")
"""Where a sentence may end: behind an abbreviation or an initial it need not."""
Words = tuple[str, ...]


@dataclass
class Match(Judge):
    """A reply is right if it equals a name of the answer, begins with it, or has it in it.

    Which of them is asked for stands in the key: equal, but for an article before either; sentence, the
    same of what stands before one of its full stops; within, as whole words. A reply that names both
    the right answer and the old one is right, and not reverted.
    """

    version: ClassVar[str] = "2"
    citation: ClassVar[str] = "ours; after the exact match of Rajpurkar et al., 2016 (SQuAD)"
    kinds: ClassVar[Mapping[str, str]] = {
        "match": "aliases and old_aliases (lists of texts, may be left out); how: equal, "
        "sentence or within"
    }

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply.

        Raises `PluginError` for a key of another kind, or one that is not as `kinds` says.
        """
        for reply in replies:
            _check(reply.key)
        return [_verdict(reply.text, reply.key) for reply in replies]


def words(text: str) -> Words:
    """Return the words of a text in lower case.

    A text that has no word, such as the name "!!!", is one word itself.
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\N{MINUS SIGN}", "-")
    return tuple(WORD.findall(folded) or folded.split())


def bare(found: Words) -> Words:
    """Return the words without an article at their beginning, unless it is all there is."""
    return found[1:] if len(found) > 1 and found[0] in ARTICLES else found


def equal(name: str, text: str) -> bool:
    """Tell whether two texts have the same words, but for an article at the beginning of either."""
    return bare(words(name)) == bare(words(text))


def begins(name: str, text: str) -> bool:
    """Tell whether a name equals what stands before one of a text's full stops, or all of it."""
    ends = (*(stop.start() for stop in SENTENCE.finditer(text)), len(text))
    return any(equal(name, text[:end]) for end in ends)


def within(name: str, text: str) -> bool:
    """Tell whether the words of a name stand in a text one after another."""
    part, whole = words(name), words(text)
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))


HOW = {"equal": equal, "sentence": begins, "within": within}


def _verdict(text: str, key: Key) -> Verdict:
    agree = HOW[key.about["how"]]

    def found(names: Iterable[str]) -> str:
        return next((name for name in names if words(name) and agree(name, text)), "")

    right = found([key.right, *key.about.get("aliases", ())])
    old = "" if right else found([key.old, *key.about.get("old_aliases", ())])
    note = f"it is {right or old!r}" if right or old else "it is no name of the answer"
    return Verdict("decided", float(bool(right)), bool(old), note, " ".join(words(text)))


def _check(key: Key) -> None:
    check(key, "the judge 'match'", Match.kinds, {"how": str})
    if key.about["how"] not in HOW:
        refuse(key, "how", Match.kinds)
    for name in ("aliases", "old_aliases"):
        if not isinstance(key.about.get(name, []), list | tuple):
            refuse(key, name, Match.kinds)
