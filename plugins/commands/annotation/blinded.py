"""What people are asked about the texts of a run, and how it is hidden which text is which.

Two forms of sheet: pairs of texts, from before and after an edit, whose order is random, and single
replies, of which people say whether they are right. What is asked comes from the probes' keys. How a
sheet is stored stands in `edit_harness_plugins.commands.annotation.sheets`, what is made of the labels in `edit_harness_plugins.commands.annotation.opinions`.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from edit_harness.cases import Case, Key, Text, Verdict
from edit_harness.encoding import decode_answer, dumps
from edit_harness.errors import DataError
from edit_harness.folder.record import OK, Record
from edit_harness.run.outcome import Run

COMPARE = "compare"
"""The kind of key that asks for a comparison of the text before an edit with that after it."""
SAYS_NEW = "says new value"
BEFORE, AFTER, TIE = "before", "after", "tie"
YES, NO = "yes", "no"


@dataclass(frozen=True)
class Item:
    """A text after an edit, with that of the same probe before it."""

    case: str
    state: int
    """Which edited model wrote the text after: see `edit_harness.run.plan.Step.state`."""
    probe: int
    """The number of the probe in its case."""
    prompt: str
    before: str
    """The continuation of the prompt by the unedited model; that of the edited one is ``after``."""
    after: str
    key: Key
    verdict: Verdict | None
    """What a judge said of the text after."""
    group: str = ""
    """Of what kind the case is, where so many of each kind are drawn."""
    swapped: bool = False
    """Whether text A of a pair is the one after."""

    @property
    def place(self) -> tuple[str, int, int]:
        """Where the run has it."""
        return self.case, self.state, self.probe

    @property
    def digest(self) -> str:
        """A SHA-256 over its texts."""
        return hashlib.sha256(dumps([self.prompt, self.before, self.after]).encode()).hexdigest()

    @property
    def edited(self) -> str:
        """The label of the property that was edited; empty if the key does not say."""
        return str(self.key.about.get("property", ""))


class Form(ABC):
    """A kind of sheet: what it shows, what it asks, and what an answer means."""

    name: ClassVar[str]
    shows: ClassVar[Sequence[str]]
    """The columns that are filled in already."""
    task: ClassVar[str]
    """What annotators are to do; it goes into the guidelines."""

    @abstractmethod
    def cells(self, item: Item) -> dict[str, str]:
        """Return what a sheet shows of an item, by column."""

    @abstractmethod
    def asks(self, key: Key) -> dict[str, tuple[str, ...]]:
        """Return the possible answers for each column that is to be filled in."""

    @abstractmethod
    def explains(self, key: Key) -> dict[str, str]:
        """Return what each column to be filled in means."""

    @abstractmethod
    def judged(self, item: Item) -> dict[str, str]:
        """Return what the judge said, as `counted` puts it; nothing where it gave no verdict."""

    def plain(self, answer: str, item: Item) -> str:
        """Return an answer in words that need no key."""
        return answer

    def counted(self, column: str, label: str) -> str:
        """Return what a plain answer is counted as."""
        return label

    def score(self, label: str) -> float | None:
        """Return the number in [-1, 1] that a counted label stands for; None if it has none."""
        return None


class Pairs(Form):
    """Two texts on one subject: which has more of a flaw, and which says the new value."""

    name = "pairs"
    shows = ("subject", "edited", "old value", "new value", "prompt", "text A", "text B")
    task = (
        "Each row has two texts on one subject, A and B, that a language model wrote from the same\n"
        "prompt. In one of the two cases something that the model knows of the subject had been\n"
        "edited: the column `edited` says what, from `old value` to `new value`. The order of the\n"
        "texts is random in every row.\n\n"
        "For each aspect, write `A` if there is more of it in text A, `B` if there is more in text B,\n"
        "and `tie` if there is as much in both, or none in either."
    )

    def cells(self, item: Item) -> dict[str, str]:
        """Return both texts, each with its prompt, and what was edited."""
        about = item.key.about
        texts = [item.prompt + item.before, item.prompt + item.after]
        first, second = reversed(texts) if item.swapped else texts
        known = (about.get(name, "") for name in ("subject", "property", "old", "new"))
        return dict(zip(self.shows, (*map(str, known), item.prompt, first, second), strict=True))

    def asks(self, key: Key) -> dict[str, tuple[str, ...]]:
        """Return the aspects, and the new value if the key wants it looked for.

        Raises `DataError` for a key without aspects.
        """
        if not (aspects := key.about.get("aspects")):
            raise DataError(
                f"a key of kind {COMPARE!r} names no aspects to compare texts by",
                "the task has to give them: `aspects` of Key.about, with definitions",
            )
        columns = dict.fromkeys(aspects, ("A", "B", TIE))
        return columns | ({SAYS_NEW: ("A", "B", "both", "neither")} if self._looks(key) else {})

    def explains(self, key: Key) -> dict[str, str]:
        """Return the aspects' definitions."""
        sought = {
            SAYS_NEW: "Which of the texts says, or takes for granted, that the new value holds of the"
            " subject: `A`, `B`, `both` or `neither`."
        }
        return dict(key.about["aspects"]) | (sought if self._looks(key) else {})

    def judged(self, item: Item) -> dict[str, str]:
        """Return the judge's ratings by their sign, and whether it finds the new value after."""
        if (verdict := item.verdict) is None or not verdict.counts:
            return {}
        said = {aspect: _side(rating) for aspect, rating in verdict.ratings.items()}
        return said | ({SAYS_NEW: _right(verdict)} if self._looks(item.key) else {})

    def plain(self, answer: str, item: Item) -> str:
        """Return A and B as the text before or after."""
        first, second = (AFTER, BEFORE) if item.swapped else (BEFORE, AFTER)
        return {"A": first, "B": second}.get(answer, answer)

    def counted(self, column: str, label: str) -> str:
        """Return of the new value whether the text after says it, which is all a judge is asked."""
        if column != SAYS_NEW:
            return label
        return YES if label in (AFTER, "both") else NO

    def score(self, label: str) -> float | None:
        """Return 1 for more of it in the text after, -1 for more in that before."""
        return {BEFORE: -1.0, TIE: 0.0, AFTER: 1.0}.get(label)

    @staticmethod
    def _looks(key: Key) -> bool:
        return bool(key.about.get("reflected"))


class Replies(Form):
    """A reply of the edited model beside the right answer, and whether it is right."""

    name = "replies"
    shows = ("prompt", "reply", "right answer")
    task = (
        "Each row has a prompt, the reply that a language model gave, and the right answer. Say of each\n"
        "reply whether it is right, whatever else it says and however it is put."
    )

    def cells(self, item: Item) -> dict[str, str]:
        """Return the reply and the right answer, which may be what the unedited model replied."""
        right = item.key.right or item.before
        return dict(zip(self.shows, (item.prompt, item.after, right), strict=True))

    def asks(self, key: Key) -> dict[str, tuple[str, ...]]:
        """Return the one question."""
        return {"right": (YES, NO)}

    def explains(self, key: Key) -> dict[str, str]:
        """Return what is right."""
        return {"right": "`yes` if the reply says the same as the right answer, else `no`."}

    def judged(self, item: Item) -> dict[str, str]:
        """Return whether the judge finds the reply right."""
        if (verdict := item.verdict) is None or not verdict.counts:
            return {}
        return {"right": _right(verdict)}


FORMS: Mapping[str, Form] = {form.name: form for form in (Pairs(), Replies())}


def formed(items: Sequence[Item]) -> tuple[Form, list[Item]]:
    """Return the form of sheet and the items for it: pairs, if any key asks for a comparison."""
    if pairs := [item for item in items if item.key.kind == COMPARE]:
        return FORMS["pairs"], pairs
    return FORMS["replies"], list(items)


def items_of(run: Run, records: Iterable[Record], tag: str = "") -> Iterator[Item]:
    """Yield the texts of some records that a judge would be asked of; ``tag`` names their group."""
    by_id = {case.id: case for case in run.cases}
    for record in records:
        if record.status == OK and record.case in by_id:
            yield from _items(by_id[record.case], record, tag)


def _items(case: Case, record: Record, tag: str) -> Iterator[Item]:
    sides = zip(case.probes, record.before, record.after, strict=True)
    for number, (probe, *stored) in enumerate(sides):
        before, after = map(decode_answer, stored) if probe.key else (None, None)
        if probe.key and isinstance(before, Text) and isinstance(after, Text):
            yield Item(
                case.id, record.state, number, probe.query.prompt, before.text, after.text,
                probe.key, after.verdict, str(case.tags.get(tag, "")),
            )  # fmt: skip


def drawn(items: Sequence[Item], number: int, mark: str) -> list[Item]:
    """Return so many items of each group, or all that there are, in a random order.

    Half of them, rounded at random, are swapped. ``mark`` is the seed, whatever text it is.
    """
    rng = random.Random(mark)
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    picked = [
        i for _, each in sorted(groups.items()) for i in rng.sample(each, min(number, len(each)))
    ]
    rng.shuffle(picked)
    first = rng.randrange(2)
    swaps = [bool((i + first) % 2) for i in range(len(picked))]
    rng.shuffle(swaps)
    return [replace(item, swapped=swap) for item, swap in zip(picked, swaps, strict=True)]


def columns(form: Form, items: Sequence[Item]) -> dict[str, tuple[str, ...]]:
    """Return the answers to each column that is to be filled in for any of the items."""
    return {name: given for item in items for name, given in form.asks(item.key).items()}


def definitions(form: Form, items: Sequence[Item]) -> dict[str, str]:
    """Return what each column that is to be filled in means."""
    return {name: str(text) for item in items for name, text in form.explains(item.key).items()}


def guidelines(form: Form, items: Sequence[Item]) -> str:
    """Return what annotators are told: what to do, what the columns mean, how to save."""
    means = definitions(form, items).items()
    defined = "".join(f"- **{name}**: {text}\n" for name, text in means)
    return (
        f"# Guidelines\n\n{form.task}\n\n## The columns to fill in\n\n{defined}\n"
        "## How to fill in\n\n"
        "- Fill in every cell of these columns; go by the texts alone, and work on your own.\n"
        "- Leave the other cells as they are. Rows may be sorted; columns may be added for notes.\n"
        "- An apostrophe at the beginning of a cell keeps the spreadsheet program from reading a text\n"
        "  as a formula; it is no part of the text.\n"
        "- Save the sheet as CSV in UTF-8, under its own name.\n"
    )


def _side(rating: float) -> str:
    return TIE if rating == 0 else AFTER if rating > 0 else BEFORE


def _right(verdict: Verdict) -> str:
    """Return yes for what is more right than wrong; a verdict that is undecided has a score of 0."""
    return YES if verdict.score and verdict.score >= 0.5 else NO
