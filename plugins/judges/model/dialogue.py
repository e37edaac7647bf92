"""Questions are put to a language model, reply by reply, until there are verdicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, cast

from edit_harness import Judge, Reply, Verdict

from .prompts import KINDS, PAIRS, NoVerdict, Question, check_key, content, fraction, question

TRIES = 3
"""How often a question is put before the answers are given up as no verdict."""
MOST_RAW = 4_000
"""Characters of the model's own words that are kept."""


class Unanswered(Exception):
    """There is no answer now, for the reason given; there may be one later."""


class Unfit(Exception):
    """There will be no answer to this prompt, for the reason given."""


@dataclass(frozen=True)
class Answer:
    """What a model answered to a prompt."""

    text: str
    served: str = ""
    """Which model it was, in its server's words."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """What it took: see `Verdict.usage`."""
    shown: str | None = None
    """The text as it may be stored, if that is another one."""


Dialogue = Generator[str, Answer, Verdict]
"""Yields prompts, is sent answers, and returns a verdict; it does not know who answers."""
Said = Answer | Unfit | Unanswered


class ModelJudge(Judge):
    """A language model says whether a text is right; equal replies are judged once."""

    twice: float
    seed: int

    version: ClassVar[str] = "1"
    citation: ClassVar[str] = "Zheng et al., 2023 (language models as judges)"
    kinds: ClassVar[Mapping[str, str]] = KINDS

    @abstractmethod
    def ask(self, prompts: Sequence[str]) -> Sequence[Said]:
        """Return the answer to each prompt, or why there is none."""

    def judge(self, replies: Sequence[Reply]) -> list[Verdict]:
        """Return a verdict for each reply; of equal ones the first has the usage.

        Raises `PluginError` for a key of another kind or without what its kind needs, and what
        `provenance` raises.
        """
        for reply in replies:
            check_key(reply.key)
        different = {content(reply): reply for reply in replies}
        found = judged(list(different.values()), self.seed, self.twice, self.ask)
        verdicts = dict(zip(different, found, strict=True))
        told = []
        for mark in map(content, replies):
            told.append(verdicts[mark])
            verdicts[mark] = replace(verdicts[mark], usage={})
        return told

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings: a copy has its own model or connections, and has spent nothing."""
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}


def judged(
    replies: Sequence[Reply],
    seed: int,
    twice: float,
    ask: Callable[[Sequence[str]], Sequence[Said]],
) -> list[Verdict]:
    """Return a verdict for each reply; ``ask`` is given the next prompts of all of them at once."""
    dialogues = [_dialogue(reply, seed, twice) for reply in replies]
    prompts = {number: next(each) for number, each in enumerate(dialogues)}
    verdicts: dict[int, Verdict] = {}
    while prompts:
        answers = dict(zip(prompts, ask(list(prompts.values())), strict=True))
        prompts = {}
        for number, answer in answers.items():
            talk = dialogues[number]
            try:
                if isinstance(answer, Exception):
                    prompts[number] = talk.throw(answer)
                else:
                    prompts[number] = talk.send(answer)
            except StopIteration as end:
                verdicts[number] = end.value
    return [verdicts[number] for number in range(len(replies))]


def _dialogue(reply: Reply, seed: int, twice: float) -> Dialogue:
    """Ask about a reply until there is a verdict, or until `TRIES` answers were none.

    A share ``twice`` of the replies with two texts, drawn by content, is asked in both orders; the
    first one counts, and the other tells whether the verdict hangs on the order.
    """
    answers: list[Answer] = []
    try:
        found = yield from _decided(question(reply, seed), answers)
        if reply.key.kind in PAIRS and fraction(reply, seed, "twice") < twice:
            found = yield from _crossed(found, question(reply, seed, swapped=True), answers)
    except Unanswered as error:
        return Verdict("pending", note=str(error))
    except (NoVerdict, Unfit) as error:
        found = Verdict("unparsed", note=str(error))
    spent = {name for answer in answers for name in answer.usage}
    return replace(
        found,
        raw="\n".join(a.text if a.shown is None else a.shown for a in answers)[:MOST_RAW],
        served="; ".join(dict.fromkeys(a.served for a in answers if a.served)),
        usage={name: sum(a.usage.get(name, 0) for a in answers) for name in sorted(spent)},
    )


def _decided(asked: Question, answers: list[Answer]) -> Dialogue:
    """Return the verdict of the first answer that is one. Raises `NoVerdict`."""
    text, problem = asked.text, NoVerdict()
    for _ in range(TRIES):
        answers.append((yield text))
        try:
            return asked.read(answers[-1].text)
        except NoVerdict as error:
            problem = error
            text = f"{asked.text}\n\nThe last answer to this was of no use: {error}."
    raise problem


def _crossed(found: Verdict, other: Question, answers: list[Answer]) -> Dialogue:
    try:
        crossed = yield from _decided(other, answers)
    except (NoVerdict, Unfit) as error:
        return replace(found, note=f"no verdict in the other order: {error}")
    return replace(found, swapped=crossed != found)
