"""Where in a reply its answer stands, and what it is.

A reply is what a model wrote: the answer, with words before it, further equations, units, or a next
question behind it. The first equation of a formula counts, and the last one of a calculation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sympy import Expr

from .algebra import CHANGES, Unread
from .grammar import Parser
from .phrases import parser as parser_of
from .plain import plain
from .quantities import Quantities, symbol
from .rule import Rule
from .words import CONNECTING, LONGEST, SIGNS, UNITS, tokens

LONGEST_SOLUTION = 8_000
ASKED = re.compile(r"([A-Za-z]\w*(?:\s*(?:\^|\*\*)\s*2|²)?)\s*=\s*$")
"""What a prompt has of the equation."""
ASIDE = re.compile(
    r"\((?:in|where|with|or|since|because|units?|see|using|i\.e|approx\w*|about|which|the|an?(?= [a-z]{3}))\b(?:[^()]|\([^()]*\))*\)",
    re.IGNORECASE,
)
NEXT_QUESTION = re.compile(
    r"\n\s*\n|\n\s*(?:Q|Question|Problem|Exercise|Example|Prompt|User|Human)\b[^\n]*|\bQ:|\bQuestion:"
)
"""Where a base model goes on to something else."""
QUESTION = re.compile(r"(?:^|(?<=[.!?] )|\n)(?:What|How|Find|Calculate|If|Given)\b[^?\n]*\?")
SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n|;")
LETTER_MEANS = re.compile(
    r"\b([A-Za-z](?:_?\d)?|theta|phi|alpha) (?:is|are|=|represents?|denotes?|stands for|being) "
    r"(?:the |its |an? )?((?:[a-z]+ ?){1,3})"
)
LEADS = ("is", "are", "equals", "equal", "as", "by", "formula", "gives", "to", "be", "return", ":")
"""Behind these, in the reply's own words, its answer may begin."""
INSIDE = re.compile(
    rf"\b(?:{'|'.join(words for words in SIGNS if ' ' in words)}|subtracted from)$", re.IGNORECASE
)
"""The end of "divided by", behind which no answer begins, but the rest of one."""
GOES_ON = re.compile(r"(?::|\b(?:is|by|formula|as|using))\s*$", re.IGNORECASE)
TAILS = (CONNECTING - {"to", "of", "by", "per", "and"}) | UNITS | {
    "taken", "measured", "once", "only", "respectively", "using", "always",
}  # fmt: skip
"""Words behind an expression that do not belong to it."""
SQUARE_OF = re.compile(r"(?<![A-Za-z])[A-Za-z]\s*(?:\^\s*\(?\s*2\s*\)?|2|squared)\s*$")
RESULT = re.compile(r"=|≈|:|\b(?:is|are|equals?|about|approximately|gives|get|roughly|answer)\b")
ANSWER = re.compile(r"\banswer\s*(?:is|:|=)?|####", re.IGNORECASE)
BOXED = re.compile(r"\\boxed\s*\{")
RATIO = re.compile(r"(?<!step \d)(?<=\d)(?::| : )(?=\d)", re.IGNORECASE)
"""The colon of 5:4 or 5 : 4, but not that of "Step 1: 5"."""
WHOLE_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:/\d+)?")


@dataclass(frozen=True)
class Reading:
    """The expression of a reply, and how it is to be taken."""

    value: Expr
    squared: bool | None = None
    """Whether the reply gives the square of what was asked; None if it does not say."""
    rough: bool = False
    """Whether it has decimals that may be rounded."""
    decimals: int | None = None
    """With how many decimals a number is written, if as a decimal."""
    letters: dict[str, str] = field(default_factory=dict)
    """What the reply says that its letters mean."""


def read_formula(text: str, rule: Rule, prompt: str = "") -> Reading:
    """Return what the first equation of a reply says; raises `Unread`."""
    line = _first_line(text)
    if asked := ASKED.search(prompt):
        line = f"{plain(asked[1])} = {line}"
    letters = {found[1]: found[2].strip() for found in LETTER_MEANS.finditer(line)}
    line = ASIDE.sub(" ", line)
    return replace(_equations(line, rule) or _without_equation(line, rule), letters=letters)


def _without_equation(line: str, rule: Rule) -> Reading:
    """Return the first expression that stands alone, or behind a word such as "is".

    What stands before "is" is told of, as in "the diameter is twice the radius", and is the answer
    only where nothing behind it is.
    """
    problem: Unread | None = None
    subject: Reading | None = None
    for tail in _beginnings(line):
        try:
            reading, following = _expression(tail, rule)
        except Unread as error:
            if error.hopeless:
                raise
            problem = problem or error
            continue
        if following not in ("is", "equals"):
            return reading
        subject = subject or reading
    if subject:
        return subject
    raise problem or Unread("nothing is said")


def _expression(text: str, rule: Rule, equation: bool = False) -> tuple[Reading, str]:
    """Return the expression at the beginning of a text, and the word behind it.

    In a formula, degrees can only be those of an angle.
    """
    parser = parser_of(tokens(text, tuple(rule.variables)), rule.quantities)
    parser.in_angle = True
    value = parser.parse()
    _check_tail(parser, equation)
    return Reading(value, None, parser.rough), parser.peek().text


def _first_line(text: str) -> str:
    """Return the first line with anything in it, in plain writing; one such as "It is:" goes on."""
    line = ""
    for part in text.splitlines():
        if len(part) > LONGEST:
            raise Unread(f"longer than {LONGEST} characters", hopeless=True)
        line = f"{line} {plain(part)}"
        if re.search(r"\w", line) and not GOES_ON.search(line):
            return line
    if not line.strip(" .?!:"):
        raise Unread("nothing is said")
    return line


def _equations(line: str, rule: Rule) -> Reading | None:
    """Return the first equation that is not the definition of a variable, or None.

    A member that cannot be read is left out where the same equation goes on behind it.
    """
    sides = re.split(r"(?<![<>!])=", line.replace("≈", "="))
    if len(sides) < 2:
        return None
    starts = [at for at in range(1, len(sides)) if not _defines(sides[at - 1], rule)]
    first = starts[0] if starts else 1
    for at in range(first, len(sides)):
        try:
            reading = _side(sides[at], sides[at - 1], rule)
        except Unread as error:
            if error.hopeless or at == len(sides) - 1 or re.search("[,;.]", sides[at]):
                raise
            continue
        if reading.value != symbol(rule.lhs):
            return reading
    return _side(sides[first - 1], sides[first], rule)


def _defines(side: str, rule: Rule) -> bool:
    """Tell whether a left side is a variable of the rule, and not what the rule gives."""
    found = re.search(r"(?<![\w^*/+-])\s*(\w+)\s*$", side)
    return bool(found and found[1] in rule.variables and found[1] != rule.lhs)


def _side(text: str, other: str, rule: Rule) -> Reading:
    reading, _ = _expression(text, rule, equation=True)
    stated = bool(re.search(rf"(?<![A-Za-z]){re.escape(rule.lhs)}(?![A-Za-z])", other))
    squared = bool(SQUARE_OF.search(other))
    return replace(reading, squared=squared if squared or stated else None)


def _beginnings(line: str) -> Iterator[str]:
    """Yield where an expression may begin: at the beginning, and behind words such as "is"."""
    yield line
    sentence = SENTENCE_END.split(line, maxsplit=1)[0]
    for found in re.finditer(r"[A-Za-z]+|:", sentence):
        if found[0].lower() in LEADS and not INSIDE.search(sentence[: found.end()]):
            yield line[found.end() :]


def _check_tail(parser: Parser, equation: bool) -> None:
    """Raise `Unread` if what follows the expression may belong to it.

    Behind an equation, "and" leads on to another one; behind words, it may go on with the same.
    """
    token = parser.peek()
    if equation and token.text == "and":
        return
    comma = token.text == ","
    following = parser.peek(1) if comma else token
    if comma and following.text in {*CHANGES, *(words.split()[0] for words in SIGNS)}:
        raise Unread(f"{following.text!r} after a comma")
    if token and not comma and token.text not in TAILS | set(".;:=!?)"):
        raise Unread(f"the rest from {token.text!r} on")


def read_number(text: str, steps: bool) -> Reading:
    """Return the value that a reply ends at: of its first sentence, or of a whole solution."""
    text = text.strip()
    for pattern in (NEXT_QUESTION, QUESTION):  # what comes then are not its own words
        found = pattern.search(text)
        text = text[: found.start()] if found and found.start() else text
    if len(text) > LONGEST_SOLUTION:
        raise Unread(f"longer than {LONGEST_SOLUTION} characters", hopeless=True)
    for sentence in _conclusions(text) if steps else _sentences(text):
        if reading := _value(sentence):
            return reading
    raise Unread("there is no number")


def _sentences(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(text) if part.strip()]


def _conclusions(text: str) -> list[str]:
    """Return where a solution's value may stand: in a box, behind "answer", or in the last equation."""
    starts = [found.start() for found in BOXED.finditer(text)][-1:]
    starts += [found.end() for found in ANSWER.finditer(text)][-1:]
    sentences = _sentences(text)[::-1]
    tried = [_sentences(f"= {text[start:]}")[0] for start in starts]
    return [*tried, *filter(RESULT.search, sentences), *sentences]


def _value(sentence: str) -> Reading | None:
    """Return the last value that a sentence states, or the last number in it; None without one."""
    line = RATIO.sub("/", ASIDE.sub(" ", plain(sentence)))
    for part in RESULT.split(line)[::-1]:
        if reading := _number_at_beginning(part):
            return reading
    numbers = [found[0] for found in WHOLE_NUMBER.finditer(line)]
    return _number_at_beginning(numbers[-1]) if numbers else None


def _number_at_beginning(text: str) -> Reading | None:
    """Return the number that a text begins with, or None."""
    text = re.sub(
        r"^\s*(?:the|about|approximately|exactly|roughly|around)\b", " ", text, flags=re.IGNORECASE
    )
    text = re.sub(r"(?<=\d),(?=\d{1,2}(?!\d))", ".", text)
    text = re.sub(r"(?<=\d)\s+\(", " ; (", text)
    try:
        parser = parser_of(tokens(text, (), units=True), Quantities())
        value = parser.parse()
    except Unread as error:
        if error.hopeless:
            raise
        return None
    if value.free_symbols or not value.is_finite:
        return None
    digits = [token.text for token in parser.tokens[: parser.at] if token.kind == "number"]
    decimal = len(digits) == 1 and "." in digits[0]
    decimals = len(digits[0].partition(".")[2]) if decimal else None
    return Reading(value, rough=parser.rough, decimals=decimals)
