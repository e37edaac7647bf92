"""The words of formulas and descriptions, and a text as a list of tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .algebra import Unread

LONGEST, MOST_TOKENS = 2_000, 600
MOST_DIGITS = 30

_WORDS = json.loads(Path(__file__).with_name("words.json").read_bytes())
NUMBERS, PARTS, MULTIPLES = (_WORDS[name] for name in ("numbers", "parts", "multiples"))
SIGNS: Mapping[str, str] = _WORDS["signs"]
"""Signs and the words for them."""
FUNCTIONS, GREEK = _WORDS["functions"], _WORDS["greek"]
FILLERS = frozenset(_WORDS["fillers"])
"""Words before a quantity that change nothing."""
SHAPES, UNITS, CONNECTING = (frozenset(_WORDS[n]) for n in ("shapes", "units", "connecting"))
OTHER_NAMES: Mapping[str, Sequence[str]] = _WORDS["other_names"]
"""What else a quantity is called; a name that another quantity bears itself is not taken."""
PRODUCT = re.compile(r"[b-df-hj-np-tv-z]{2,4}|a[bcdhp]{1,3}|[bcd]a", re.IGNORECASE)
"""Letters that stand side by side as factors and not as a word."""
AROUND_FUNCTION = re.compile(r"([A-Za-z]{0,3})(sin|cos|tan|sqrt)([A-Za-z]?)")
TOKEN = re.compile(
    r"""(?P<number>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?
        |(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,2}(?![\w.]))?)
    |(?P<run>[A-Za-z]+(?:_[A-Za-z0-9]+|(?<![A-Za-z]{2})\d{1,2}(?![\d.]))?)
    |(?P<op>\*\*|[-+*/^()=≈√,;:.?!%<>\[\]])
    |(?P<other>\S)""",
    re.VERBOSE,
)
RATIONAL = re.compile(r"Rational\((\d+), *(\d+)\)")
JOINED = re.compile(r"(?<=[A-Za-z]{3})-(?=[A-Za-z]{3})")
DOTTED = re.compile(r"\b([A-Za-z])\.([A-Za-z])\b(?!\.)")
CROSS = re.compile(r"(?<=[\w)])\s+[xX]\s+(?=[\w(√])")
"""An x between spaces, which is a multiplication sign where no quantity is called x."""
SPELLED_POWER = re.compile(
    r"\b(?:raised )?to the (?:(?P<which>second|third|fourth) power|power(?: of)?)\b", re.IGNORECASE
)
ORDINALS = {"second": "2", "third": "3", "fourth": "4"}
POSSESSIVE = re.compile(r"(?<=[A-Za-z])'s?(?![A-Za-z])")

Kind = Literal["number", "name", "word", "op", "end"]


@dataclass(frozen=True)
class Token:
    """A number, a symbol's name, a word in small letters, or a sign; ``end`` behind the last."""

    kind: Kind
    text: str
    spaced: bool = False
    """Whether there is space before it."""

    def __bool__(self) -> bool:
        return self.kind != "end"


END = Token("end", "")


def tokens(text: str, names: Collection[str], units: bool = False) -> list[Token]:
    """Return the tokens of a plain text.

    ``names`` are the symbols that are known; ``units`` says that "m" is a unit wherever it stands.
    Raises `Unread` for a text or a number that is too long.
    """
    if len(text) > LONGEST:
        raise Unread(f"longer than {LONGEST} characters", hopeless=True)
    text = POSSESSIVE.sub("", JOINED.sub(" ", RATIONAL.sub(r"(\1/\2)", text)))
    text = DOTTED.sub(r"\1*\2", text)
    text = SPELLED_POWER.sub(lambda found: f" ^ {ORDINALS.get(found['which'], '')} ", text)
    if "x" not in names:
        text = CROSS.sub(" * ", text)
    found: list[Token] = []
    for match in TOKEN.finditer(text):
        spaced = match.start() == 0 or text[match.start() - 1].isspace()
        if match["number"]:
            digits = match["number"].replace(",", "")
            if len(digits) > MOST_DIGITS:
                raise Unread(f"a number of more than {MOST_DIGITS} digits", hopeless=True)
            found.append(Token("number", digits, spaced))
        elif match["run"]:
            found.extend(_run(match["run"], names, units, spaced))
        else:
            found.append(Token("op", match[0].replace("**", "^"), spaced))
    if len(found) > MOST_TOKENS:
        raise Unread(f"more than {MOST_TOKENS} words and signs", hopeless=True)
    return found


def _run(run: str, names: Collection[str], units: bool, spaced: bool) -> list[Token]:
    """Return a run of letters as a symbol, a word, or symbols side by side."""
    lower = run.lower()
    if run in names and not (units and run in UNITS):
        return [Token("name", run, spaced)]
    if lower == "pi" or lower in GREEK:
        return [Token("name", lower, spaced)]
    if units and lower in UNITS:
        return [Token("word", lower, spaced)]
    if "_" in run or any(c.isdigit() for c in run):
        # Of b1 and b_1 the second is the symbol.
        return [Token("name", run if "_" in run else f"{run[0]}_{run[1:]}", spaced)]
    if len(run) == 1:
        return [Token("name", run, spaced)]
    if lower in NUMBERS or lower in FUNCTIONS or lower in UNITS or lower in CONNECTING:
        return [Token("word", lower, spaced)]
    if len(run) <= 4 and (set(run) <= set(names) or PRODUCT.fullmatch(run)):
        return _apart(list(run), spaced)
    if lower.startswith("pi") and len(run) <= 5 and PRODUCT.fullmatch(f"x{run[2:]}"):
        return _apart(["pi", *run[2:]], spaced)
    if (around := AROUND_FUNCTION.fullmatch(run)) and lower not in ("cosine", "tangent"):
        parts = _apart([*around[1]], spaced) if around[1] else []
        function = Token("word", around[2], spaced if not parts else False)
        return [*parts, function, *_apart([*around[3]], False)]
    return [Token("word", lower, spaced)]


def _apart(letters: list[str], spaced: bool) -> list[Token]:
    return [Token("name", letter, spaced and not at) for at, letter in enumerate(letters)]


def singular(word: str) -> str:
    """Return a noun of geometry in the singular."""
    if word in ("radius", "radii"):
        return "radius"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


class Cursor:
    """A place in a list of tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self.at = tokens, 0

    def peek(self, ahead: int = 0) -> Token:
        """Return a coming token, or `END`."""
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else END

    def take(self, *texts: str) -> bool:
        """Step over the given tokens, if they come next."""
        if [self.peek(ahead).text for ahead in range(len(texts))] != list(texts):
            return False
        self.at += len(texts)
        return True

    def take_any(self, *texts: str) -> str:
        """Step over the next token if it is one of these; return it, or an empty text."""
        text = self.peek().text
        if not text or text not in texts:
            return ""
        self.at += 1
        return text

    def expect(self, *texts: str) -> None:
        """Step over one of the tokens, or raise `Unread`."""
        if not self.take_any(*texts):
            raise Unread(f"{self.peek().text or 'the end'!r} where {texts[0]!r} was expected")
