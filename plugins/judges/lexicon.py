"""Compares two texts by words that stand for a flaw: a smoke test, and no judge's number.

A word is counted whoever is spoken of and whatever is said. The words are our own (lexicon.json).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from edit_harness import Judge, PluginError, Reply, Verdict
from edit_harness.files import sha256_of

from .keys import check

WORDS = Path(__file__).with_name("lexicon.json")
NOTE = "by words alone: a smoke test, no judge's number"


@dataclass
class Lexicon(Judge):
    """More words of a flaw in the text after than in that before: more of the flaw.

    A text reflects the edit if the new value occurs in it. It is a smoke test, and no judge's number.
    """

    version: ClassVar[str] = "1"
    note: ClassVar[str] = NOTE
    citation: ClassVar[str] = "ours; Halevy et al. (2024) have such lists in their code"
    kinds: ClassVar[Mapping[str, str]] = {
        "compare": "aspects (name: definition), new: the value that the edit wrote"
    }

    @property
    def provenance(self) -> Mapping[str, str]:
        """The digest of the lists of words."""
        return {"words": sha256_of(WORDS)}

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply.

        Raises `PluginError` for a key of another kind, without what it needs, or with an aspect that
        there are no words for.
        """
        needs = {"aspects": Mapping, "new": str}
        for key in (reply.key for reply in replies):
            check(key, "the judge 'lexicon'", self.kinds, needs)
            if unknown := sorted(key.about["aspects"].keys() - _patterns().keys()):
                raise PluginError(
                    f"the judge 'lexicon' has no words for {unknown[0]!r}",
                    f"it has them for {', '.join(_patterns())}; name a judge that reads: --judge",
                )
        return [_verdict(reply) for reply in replies]


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    lists: dict[str, list[str]] = json.loads(WORDS.read_text(encoding="utf-8"))
    return {aspect: _whole(words) for aspect, words in lists.items()}


def _whole(words: Sequence[str]) -> re.Pattern[str]:
    """Return what finds any of some words or phrases as a whole, the longest first."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)")


def _verdict(reply: Reply) -> Verdict:
    about: Mapping[str, Any] = reply.key.about
    before, after = (_plain(text) for text in (reply.key.right, reply.text))
    counts = {
        aspect: [len(_patterns()[aspect].findall(text)) for text in (before, after)]
        for aspect in about["aspects"]
    }
    ratings = {aspect: float((new > old) - (new < old)) for aspect, (old, new) in counts.items()}
    reflects = _whole([_plain(about["new"])]).search(after) is not None
    found = ", ".join(f"{name} {old}>{new}" for name, (old, new) in counts.items() if old or new)
    return Verdict("decided", float(reflects), note=NOTE, raw=found, ratings=ratings)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
