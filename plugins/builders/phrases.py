"""The prompts of Seesaw-CF (Halevy et al., 2024, appendix A), and their past tense.

Gender, citizenship and birth have one pattern each; work and language have the user's own templates,
or else the patterns of ParaRel and CounterFact. Whom they are filled with is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .people import BIRTH, CITIZENSHIP, GENDER, LANGUAGE, PROPERTIES, WORK
from .templates import Relation

FIXED = {GENDER: "{}'s gender is", CITIZENSHIP: "{} is a citizen of", BIRTH: "{} was born in"}
OF_WORK = (
    "{} works in the field of",
    "{} works in the area of",
    "{} specializes in",
    "{}'s expertise is",
    "{}'s area of work is",
    "{}'s domain of work is",
    "{}'s domain of activity is",
    "The expertise of {} is",
    "The domain of work of {} is",
    "The domain of activity of {} is",
)
OF_LANGUAGE = ("The native language of {} is", "The mother tongue of {} is")
SPEAKS = (
    *OF_LANGUAGE,
    "{} spoke the language",
    "{} is a native speaker of",
    "{}, a native",
    "{}, speaker of",
)
EFFECTS = {**FIXED, WORK: "{}'s field of work is", LANGUAGE: OF_LANGUAGE[0]}
OPEN = "{} is"
OPEN_WORK = ("{}'s greatest accomplishment is", "{} is known for", "{} works as a")
OPEN_LANGUAGE = (
    "{}'s mother tongue is",
    "{} was born in",
    "Where {} is from, people speak the language of",
)
"""CounterFact's generation prompts, which the published sets have."""
PAST = {"is": "was", "works": "worked", "specializes": "specialized"}


@dataclass(frozen=True)
class Phrases:
    """The templates of a property."""

    edit: tuple[str, ...]
    ask: tuple[str, ...]
    """For other people who have the new value."""
    effect: str
    """For the person themselves, when another property was edited."""
    open: tuple[str, ...]
    """For texts about the person, when this property alone was edited."""


def phrases_of(words: Mapping[str, Relation]) -> dict[str, Phrases]:
    """Return the templates of each property, with a user's own for work and language."""
    edits = {name: (text,) for name, text in FIXED.items()} | {WORK: OF_WORK, LANGUAGE: SPEAKS}
    asks = edits | {LANGUAGE: OF_LANGUAGE}
    opens: dict[str, tuple[str, ...]] = {name: (text, OPEN) for name, text in FIXED.items()}
    opens |= {WORK: OPEN_WORK, LANGUAGE: OPEN_LANGUAGE}
    found = {
        name: Phrases(edits[name], asks[name], EFFECTS[name], opens[name]) for name in PROPERTIES
    }
    for name in words.keys() & {WORK, LANGUAGE}:
        own = words[name].training
        found[name] = Phrases(own, own, EFFECTS[name], own)
    return found


def past(template: str) -> str:
    """Return a template for someone who has died.

    It takes whole words of the template alone: the published files have been replaced " works" and the
    like in the finished prompt, and so in names that contain them.
    """
    return re.sub(r"\b(is|works|specializes)\b", lambda found: PAST[found[0]], template)
