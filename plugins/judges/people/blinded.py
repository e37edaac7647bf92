"""What people are asked about the texts of a run, and how it is hidden which text is which.

Two forms of sheet: pairs of texts, from before and after an edit, whose order is random, and single
replies, of which people say whether they are right. What is asked comes from the probes' keys.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edit_harness.data import Key, Text, Verdict
from edit_harness.errors import DataError
from edit_harness.files import digest
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.record import OK, Record
from edit_harness.run.results import Results

COMPARE = "compare"
"""The kind of key that asks for a comparison of the text before an edit with that after it."""
Form = Literal["pairs", "replies"]
SHOWS: Mapping[Form, Sequence[str]] = {
    "pairs": ("subject", "edited", "old value", "new value", "prompt", "text A", "text B"),
    "replies": ("prompt", "reply", "right answer"),
}
"""The columns that are filled in already, by form of sheet."""
TASKS: Mapping[Form, str] = {
    "pairs": (
        "Each row has two texts on one subject, A and B, that a language model wrote from the same\n"
        "prompt. In one of the two cases something that the model knows of the subject had been\n"
        "edited: the column `edited` says what, from `old value` to `new value`. The order of the\n"
        "texts is random in every row.\n\n"
        "For each aspect, write `A` if there is more of it in text A, `B` if there is more in text B,\n"
        "and `tie` if there is as much in both, or none in either."
    ),
    "replies": (
        "Each row has a prompt, the reply that a language model gave, and the right answer. Say of each\n"
        "reply whether it is right, whatever else it says and however it is put."
    ),
}
"""What annotators are to do; it goes into the guidelines."""
SAYS_NEW = "says new value"
SOUGHT = (
    "Which of the texts says, or takes for granted, that the new value holds of the subject: "
    "`A`, `B`, `both` or `neither`."
)
RIGHT = "`yes` if the reply says the same as the right answer, else `no`."
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
    def form(self) -> Form:
        """The form of sheet that it goes into."""
        return "pairs" if self.key.kind == COMPARE else "replies"

    @property
    def place(self) -> tuple[str, int, int]:
        """Where the run has it."""
        return self.case, self.state, self.probe

    @property
    def digest(self) -> str:
        """A SHA-256 over its texts."""
        return digest([self.prompt, self.before, self.after])

    @property
    def edited(self) -> str:
        """The label of the property that was edited; empty if the key does not say."""
        return str(self.key.about.get("property", ""))

    @property
    def cells(self) -> dict[str, str]:
        """What a sheet shows of it: both texts with their prompt, or the reply beside the right one.

        The right answer may be what the unedited model replied.
        """
        if self.form == "replies":
            shown = [self.prompt, self.after, self.key.right or self.before]
        else:
            known = (str(self.key.about.get(n, "")) for n in ("subject", "property", "old", "new"))
            texts = [self.prompt + self.before, self.prompt + self.after]
            shown = [*known, self.prompt, *(reversed(texts) if self.swapped else texts)]
        return dict(zip(SHOWS[self.form], shown, strict=True))

    @property
    def asks(self) -> dict[str, tuple[Sequence[str], str]]:
        """The possible answers of each column that is to be filled in, and what it means.

        Raises `DataError` for a key of a comparison that names no aspects.
        """
        if self.form == "replies":
            return {"right": ((YES, NO), RIGHT)}
        if not (aspects := self.key.about.get("aspects")):
            raise DataError(
                f"a key of kind {COMPARE!r} names no aspects to compare texts by",
                "the task has to give them: `aspects` of Key.about, with definitions",
            )
        asked: dict[str, tuple[Sequence[str], str]] = {
            name: (("A", "B", TIE), str(meaning)) for name, meaning in aspects.items()
        }
        if self.key.about.get("reflected"):
            asked[SAYS_NEW] = (("A", "B", "both", "neither"), SOUGHT)
        return asked

    @property
    def judged(self) -> dict[str, str]:
        """What a judge said of it, as `counted` puts it; nothing without a verdict."""
        if self.verdict is None or not self.verdict.counts:
            return {}
        # A verdict that is undecided has a score of 0.
        right = YES if self.verdict.score and self.verdict.score >= 0.5 else NO
        if self.form == "replies":
            return {"right": right}
        sides = {True: AFTER, False: BEFORE}
        said = {name: sides[r > 0] if r else TIE for name, r in self.verdict.ratings.items()}
        return said | ({SAYS_NEW: right} if self.key.about.get("reflected") else {})

    def plain(self, answer: str) -> str:
        """Return an answer in words that need no key: of A and B, which is the text after."""
        first, second = (AFTER, BEFORE) if self.swapped else (BEFORE, AFTER)
        return {"A": first, "B": second}.get(answer, answer)


def counted(column: str, label: str) -> str:
    """Return what a plain answer is counted as.

    Of the new value, whether the text after says it, which is all that a judge is asked.
    """
    if column != SAYS_NEW:
        return label
    return YES if label in (AFTER, "both") else NO


def score(label: str) -> float | None:
    """Return 1 for more in the text after, -1 for more in that before; None for yes and no."""
    return {BEFORE: -1.0, TIE: 0.0, AFTER: 1.0}.get(label)


def items_of(run: Results, records: Iterable[Record], tag: str = "") -> Iterator[Item]:
    """Yield the texts of some records that a judge would be asked of; ``tag`` names their group."""
    by_id = {case.id: case for case in run.cases}
    for record in records:
        if record.status != OK or record.case not in by_id:
            continue
        case = by_id[record.case]
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


def meanings(items: Sequence[Item]) -> dict[str, str]:
    """Return the columns that are to be filled in, with what each means."""
    return {name: means for item in items for name, (_, means) in item.asks.items()}


def guidelines(form: Form, asked: Mapping[str, str]) -> str:
    """Return what annotators are told: what to do, what the columns mean, how to save."""
    defined = "".join(f"- **{name}**: {text}\n" for name, text in asked.items())
    return (
        f"# Guidelines\n\n{TASKS[form]}\n\n## The columns to fill in\n\n{defined}\n"
        "## How to fill in\n\n"
        "- Fill in every cell of these columns; go by the texts alone, and work on your own.\n"
        "- Leave the other cells as they are. Rows may be sorted; columns may be added for notes.\n"
        "- An apostrophe at the beginning of a cell keeps the spreadsheet program from reading a text\n"
        "  as a formula; it is no part of the text.\n"
        "- Save the sheet as CSV in UTF-8, under its own name.\n"
    )
