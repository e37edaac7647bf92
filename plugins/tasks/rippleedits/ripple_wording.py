"""Where the subject and the object stand in the sentences of RippleEdits, which has only their ids.

A relation has one template: what its prompts begin and end with. A file with few subjects for a relation does
not tell it. What subjects share, such as a first name, is told from the wording by its capital letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from edit_harness.data import SUBJECT, Request

AGREE = 0.95
"""Share of a relation's prompts that have to be worded alike; a file may have slips."""
FEWEST = 5
"""How many different subjects a template has to stand around, edited ones included."""
Words = tuple[str, ...]


class Worded(NamedTuple):
    """A prompt or a sentence of a relation, about a subject by its id."""

    relation: str
    subject: str
    text: str


class Template(NamedTuple):
    """The words before and after the subject."""

    before: Words
    after: Words


Templates = Mapping[str, Template]
"""By relation."""


def templates(prompts: Iterable[Worded], statements: Iterable[Worded] = ()) -> dict[str, Template]:
    """Return the template of each relation, as its prompts have it.

    A relation is left out if they do not tell: they are of too few subjects, together with the
    statements that are worded so, or nothing follows the subject.
    """
    asked, stated = _by_relation(prompts), _by_relation(statements)
    found = {}
    for relation, texts in asked.items():
        if template := _shared([_words(text) for text in sorted({text for _, _, text in texts})]):
            subjects = {
                subject
                for _, subject, text in (*texts, *stated.get(relation, ()))
                if _ends(_words(text), template)
            }
            if len(subjects) >= FEWEST:
                found[relation] = template
    return found


def _by_relation(texts: Iterable[Worded]) -> dict[str, list[Worded]]:
    found: dict[str, list[Worded]] = {}
    for worded in texts:
        found.setdefault(worded.relation, []).append(worded)
    return found


def cut(
    statement: str, template: Template, original: str = "", names: Sequence[str] = ()
) -> Request | str:
    """Return what a sentence such as "The capital of France is Lyon." writes, or why that is not known.

    ``original`` is the sentence with the old object, and ``names`` are those of the new one; they
    decide where more than one place would do.
    """
    words, before = _words(statement.rstrip().removesuffix(".")), template.before
    if words[: len(before)] != before:
        return f"{statement!r} is not worded as the other sentences of its relation"
    fitting = [end for end in _ends(words, template) if all(_around(words, template, end))]
    if len(fitting) > 1 and original:
        old = _words(original)
        fitting = [end for end in fitting if old[:end] == words[:end]]
    if len(fitting) > 1:
        fitting = [end for end in fitting if _around(words, template, end)[1] in names]
    if len(fitting) != 1:
        return f"{statement!r} does not tell where the subject ends and the object begins"
    prompt = " ".join((*before, SUBJECT, *template.after))
    return Request(prompt, *_around(words, template, fitting[0]))


def target(statement: str, prompt: str) -> str:
    """Return what stands behind a prompt in a sentence; empty if it begins with something else."""
    if not statement.startswith(f"{prompt} "):
        return ""
    return statement[len(prompt) :].strip().removesuffix(".").strip()


def _ends(words: Words, template: Template) -> list[int]:
    """Return the places, in words, where a prompt of this template, with a subject, may end."""
    before, after = template
    starts = range(len(before) + 1, len(words) if words[: len(before)] == before else 0)
    return [at + len(after) for at in starts if words[at : at + len(after)] == after]


def _around(words: Words, template: Template, end: int) -> tuple[str, str]:
    """Return subject and object of a sentence whose prompt ends there; either may be empty."""
    subject = words[len(template.before) : end - len(template.after)]
    return " ".join(subject).strip(), " ".join(words[end:]).strip()


def _shared(texts: Sequence[Words]) -> Template | None:
    """Return what texts begin and end with, if that leaves something of them in between."""
    before = _uncapitalized(_common(texts))
    after = _uncapitalized(_common([text[::-1] for text in texts]))[::-1]
    around = len(before) + len(after)
    agreeing = [t for t in texts if t[: len(before)] == before and t[-len(after) :] == after]
    if len(texts) < 2 or not after or any(len(text) <= around for text in agreeing):
        return None
    return Template(before, after)


def _uncapitalized(words: Words) -> Words:
    """Return the words up to one that may be of a name; "The" at the beginning is of none."""
    start = 1 if words[:1] == ("The",) else 0
    names = (at for at in range(start, len(words)) if words[at][:1].isupper())
    return words[: next(names, len(words))]


def _common(texts: Sequence[Words]) -> Words:
    found: Words = ()
    agreeing = list(texts)
    while agreeing:
        at = len(found)
        counts = Counter(text[at : at + 1] for text in agreeing)
        word, count = counts.most_common(1)[0]
        if not word or count < AGREE * len(texts):
            break
        found += word
        agreeing = [text for text in agreeing if text[at : at + 1] == word]
    return found


def _words(text: str) -> Words:
    """Return the words of a text, which a single space parts, so that they can be joined again."""
    return tuple(text.split(" "))
