"""One reply and one key: the verdict; it is given in the process that `judge` starts, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import product
from typing import Any, Literal

from sympy import Expr

from edit_harness import Verdict

from .algebra import Unread
from .reading import Reading, read_formula, read_number
from .rule import (
    ROUNDED_PI,
    BadKey,
    Rule,
    agree,
    as_square,
    inexact,
    number_distance,
    points,
    read_key,
    renamings,
)

MOST_SHOWN = 200
Match = Literal["equal", "renamed", "rounded", ""]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict, or what is wrong with the key, as JSON."""
    try:
        return asdict(verdict(**request))
    except BadKey as error:
        return {"bad key": str(error)}
    except MemoryError:
        note = "not read: too large"
    except RecursionError:
        note = "not read: too deep"
    except Exception as error:
        note = f"not compared: {type(error).__name__}"
    return asdict(Verdict("undecided", 0.0, note=note))


def verdict(
    kind: str, right: str, old: str, about: Mapping[str, Any], text: str, prompt: str
) -> Verdict:
    """Return what is to be said of a text. Raises `BadKey` for a key that cannot be read."""
    try:
        return JUDGED[kind](right, old, about, text, prompt)
    except Unread as error:
        return Verdict("undecided", 0.0, note=f"not read: {error}")


def _formula(right: str, old: str, about: Mapping[str, Any], text: str, prompt: str) -> Verdict:
    rule = Rule.of(about)
    keys = [read_key(key, rule.variables) for key in ((right, old) if old else (right,))]
    reading = read(text, rule, prompt)
    if reading.squared and not rule.squared:
        keys = [as_square(key) for key in keys]
    return _decided(reading, [_match(reading, key, rule) for key in keys])


def read(text: str, rule: Rule, prompt: str) -> Reading:
    """Return what a reply says, squared if the rule is of a square and the reply is not."""
    reading = read_formula(text, rule, prompt)
    if rule.squared and reading.squared is False:
        return replace(reading, value=as_square(reading.value), squared=True)
    return reading


def _match(reading: Reading, key: Expr, rule: Rule) -> Match:
    at = points(rule)
    if reading.value.free_symbols <= rule.symbols:
        if agree(reading.value, key, at):
            return "equal"
    elif any(
        agree(reading.value.xreplace(option), key, at)
        for option in renamings(reading.value, rule, reading.letters)
    ):
        return "renamed"
    rounded = reading.rough and inexact(key) and reading.value.free_symbols <= rule.symbols
    return "rounded" if rounded and agree(reading.value, key, at, ROUNDED_PI) else ""


def _decided(reading: Reading, matches: list[Match]) -> Verdict:
    raw = str(reading.value)[:MOST_SHOWN]
    right, old = [*matches, ""][:2]
    if right == old and right in ("renamed", "rounded"):
        why = "letters" if right == "renamed" else "decimals"
        return Verdict("undecided", 0.0, note=f"not read: its {why} fit both rules", raw=raw)
    if right and (not old or right != "rounded"):
        return Verdict("decided", 1.0, note=right, raw=raw)
    return Verdict("decided", 0.0, bool(old), old or "different", raw)


def _number(right: str, old: str, about: Mapping[str, Any], text: str, prompt: str) -> Verdict:
    """Judge the value that a reply ends at; of two values that it is near to, the nearer counts."""
    keys = [read_key(key, ()) for key in ((right, old) if old else (right,))]
    reading = read_number(text, bool(about.get("steps")))
    raw = str(reading.value)[:MOST_SHOWN]
    distances = [number_distance(key, reading.value, reading.decimals) for key in keys]
    near = [(distance, at) for at, distance in enumerate(distances) if distance is not None]
    if not near:
        return Verdict("decided", 0.0, note="different", raw=raw)
    distance, nearest = min(near)
    return Verdict("decided", 1.0 - nearest, nearest == 1, "numeric" if distance else "equal", raw)


def _same(right: str, old: str, about: Mapping[str, Any], text: str, prompt: str) -> Verdict:
    if text.strip() == right.strip():
        return Verdict("decided", 1.0, note="same words", raw=text.strip()[:MOST_SHOWN])
    if about["of"] == "number":
        one, two = (read_number(t, bool(about.get("steps"))) for t in (text, right))
        same = any(
            number_distance(a.value, b.value, b.decimals) is not None
            for a, b in ((one, two), (two, one))
        )
    else:
        rule = Rule.of(about)
        one, two = (read(t, rule, prompt) for t in (text, right))
        same = _say_the_same(one, two, rule)
    raw = f"{one.value}, {two.value}"[:MOST_SHOWN]
    return Verdict("decided", float(same), note="equal" if same else "different", raw=raw)


def _say_the_same(one: Reading, two: Reading, rule: Rule) -> bool:
    """Tell whether two replies agree, each in the letters that it may mean.

    Where both use the same letters, these mean the same.
    """
    values = [
        as_square(a.value) if b.squared and not a.squared and not rule.squared else a.value
        for a, b in ((one, two), (two, one))
    ]
    if values[0] == values[1]:
        return True
    first, second = (
        list(renamings(value, rule, reading.letters))
        for value, reading in zip(values, (one, two), strict=True)
    )
    alike = values[0].free_symbols == values[1].free_symbols
    pairs = zip(first, first, strict=True) if alike else product(first, second)
    at = points(rule)
    return any(agree(values[0].xreplace(a), values[1].xreplace(b), at) for a, b in pairs)


JUDGED: Mapping[str, Callable[[str, str, Mapping[str, Any], str, str], Verdict]] = {
    "formula": _formula, "description": _formula, "number": _number, "same": _same,
}  # fmt: skip
