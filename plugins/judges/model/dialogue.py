"""What is said between us and a language model that judges, reply by reply.

A dialogue yields prompts and is sent answers, and ends with a verdict; it does not know who answers.
So a server is asked in many threads, and a model in memory in batches, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edit_harness import Reply, Verdict

from .chat import PAIRS, NoVerdict, Question, fraction, question

TRIES = 3
"""How often a question is put before the answers are given up as no verdict."""
MOST_RAW = 4_000
"""Characters of the model's own words that are kept."""


@dataclass(frozen=True)
class Said:
    """What a model answered to a prompt."""

    text: str
    served: str = ""
    """Which model it was, in its server's words."""
    usage: Mapping[str, float] = field(default_factory=dict)
    """What it took: see `Verdict.usage`."""
    shown: str | None = None
    """The text as it may be stored, if that is another one."""


class Unanswered(Exception):
    """There is no answer now, for the reason given; there may be one later."""


class Unfit(Exception):
    """There will be no answer to this prompt, for the reason given."""


Dialogue = Generator[str, Said, Verdict]


def dialogue(reply: Reply, seed: int, twice: float) -> Dialogue:
    """Ask of a reply until there is a verdict, or until `TRIES` answers were none.

    A share ``twice`` of the replies with two texts, drawn by content, is asked in both orders; the
    first one counts, and the other tells whether the verdict hangs on the order.
    """
    said: list[Said] = []
    try:
        found = yield from _decided(question(reply, seed), said)
        if reply.key.kind in PAIRS and fraction(reply, seed, "twice") < twice:
            found = yield from _crossed(found, question(reply, seed, swapped=True), said)
    except (NoVerdict, Unfit) as error:
        found = Verdict("unparsed", note=str(error))
    spent = {name for each in said for name in each.usage}
    return replace(
        found,
        raw="\n".join(each.text if each.shown is None else each.shown for each in said)[:MOST_RAW],
        served="; ".join(dict.fromkeys(each.served for each in said if each.served)),
        usage={n: sum(each.usage.get(n, 0) for each in said) for n in sorted(spent)},
    )


def _decided(asked: Question, said: list[Said]) -> Dialogue:
    """Return the verdict of the first answer that is one. Raises `NoVerdict`."""
    text, problem = asked.text, NoVerdict()
    for _ in range(TRIES):
        said.append((yield text))
        try:
            return asked.read(said[-1].text)
        except NoVerdict as error:
            problem = error
            text = f"{asked.text}\n\nThe last answer to this was of no use: {error}."
    raise problem


def _crossed(found: Verdict, other: Question, said: list[Said]) -> Dialogue:
    """Return a verdict that tells whether it would be another one in the other order."""
    try:
        crossed = yield from _decided(other, said)
    except NoVerdict as error:
        return replace(found, note=f"no verdict in the other order: {error}")
    except Unfit as error:
        return replace(found, note=f"the other order could not be asked: {error}")
    return replace(found, swapped=crossed != found)


def alone(talk: Dialogue, ask: Callable[[str], Said]) -> Verdict:
    """Carry a dialogue to its end; where there is no answer, the verdict is pending."""
    prompt = next(talk)
    while True:
        try:
            said = ask(prompt)
        except Unanswered as error:
            return Verdict("pending", note=str(error))
        try:
            prompt = talk.send(said)
        except StopIteration as end:
            return _verdict(end)


def in_step(
    talks: Sequence[Dialogue], ask: Callable[[Sequence[str]], Sequence[Said | Unfit]]
) -> list[Verdict]:
    """Carry dialogues to their ends, the next prompts of all of them at once."""
    verdicts: dict[int, Verdict] = {}
    prompts = {number: next(talk) for number, talk in enumerate(talks)}
    while prompts:
        answers = dict(zip(prompts, ask(list(prompts.values())), strict=True))
        prompts = {}
        for number, said in answers.items():
            talk = talks[number]
            try:
                prompts[number] = talk.throw(said) if isinstance(said, Unfit) else talk.send(said)
            except StopIteration as end:
                verdicts[number] = _verdict(end)
    return [verdicts[number] for number in range(len(talks))]


def _verdict(end: StopIteration) -> Verdict:
    verdict: Verdict = end.value
    return verdict
