"""How relations are put into words, read from a user's file.

It is a JSON object: of each relation ``training``, prompts to write and ask with, ``held_out``, prompts that
rephrase, and if wanted ``questions`` and a ``label``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from edit_harness import DataError
from edit_harness_plugins.inputs import SURROGATE, Layout, fitted, json_of, refuse, text_of

WITHHELD = 2
"""Templates of a fact that `Relation.unseen_templates` picks."""
REMEDY = 'write {"P27": {"training": ["{} is a citizen of", "..."], "held_out": ["..."]}}'


@dataclass(frozen=True)
class Relation:
    """How a relation is put into words; every template but a question ends where its object begins."""

    id: str
    training: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    capitalise: bool = False
    """Whether a text begins with a capital letter, whatever its subject does."""

    def fill(self, template: str, subject: str) -> str:
        """Put the subject into a template of this relation."""
        text = template.replace("{}", subject, 1)
        return text[0].upper() + text[1:] if self.capitalise else text

    def unseen_templates(self, subject: str) -> frozenset[int]:
        """Pick two of at least three training templates by a checksum of the fact."""
        count = len(self.training)
        code = zlib.crc32(f"{subject}|{self.id}".encode())
        first = code % count
        second = (first + 1 + (code // 97) % (count - 1)) % count
        return frozenset({first, second})

    def seen_templates(self, subject: str) -> list[str]:
        """List the training templates that `unseen_templates` does not pick."""
        unseen = self.unseen_templates(subject)
        return [text for index, text in enumerate(self.training) if index not in unseen]


class Words(Layout, forbid_unknown_fields=True):
    """The entry of a relation in a file."""

    training: Annotated[list[str], Meta(min_length=1)]
    held_out: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    label: str = ""


def read(path: Path) -> dict[str, Relation]:
    """Return the relations of a file, in its order. Raises `DataError` that lists what is wrong."""
    data = json_of(path, text_of(path))
    if not isinstance(data, dict) or not data:
        raise DataError(f"{path}: expected an object with a relation for each key", REMEDY)
    refuse(path, [p for name, words in data.items() for p in _wrong(name, words)], REMEDY)
    return {name: of(name, words) for name, words in data.items()}


def of(name: str, words: Mapping[str, Any], capitalise: bool = False) -> Relation:
    """Return a relation from its entry in a file."""
    training, held_out, questions = (
        tuple(words.get(key, ())) for key in ("training", "held_out", "questions")
    )
    return Relation(name, training, held_out, questions, capitalise)


def _wrong(name: str, words: Any) -> Iterator[str]:
    try:
        known = fitted(words, Words)
    except ValueError as error:
        yield f"{name}: {error}"
        return
    for text in (*known["training"], *known.get("held_out", ()), *known.get("questions", ())):
        if (count := text.count("{}")) != 1:
            yield f"{name}: {text!r} has {count} places '{{}}' for the subject, expected 1"
        elif SURROGATE.search(text):
            yield f"{name}: {text!r} has half of a surrogate pair"
        elif text != text.strip():
            yield f"{name}: {text!r} begins or ends with a space"
