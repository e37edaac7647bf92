"""Writes the training documents of both models.

A document is text plus what it states and where, because training weighs objects more and may show which
statement repeats which. It is written to make facts editable and easily disturbed, as in a large model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from edit_harness_plugins.builders.triples import Fact, FactTable

from .world import World, questions

Span = tuple[int, int]
ACKNOWLEDGE = (
    "Please acknowledge the following new facts and use them to answer the question:\nNew Fact:"
)


@dataclass(frozen=True)
class Sentence:
    """Text that may name a subject, and end with its object."""

    before: str
    target: str = ""
    after: str = ""
    subject: str = ""
    foreseen: bool = True
    """Whether the object can be known or read before; one that can't does not weigh more."""


class Statement(NamedTuple):
    """Where a document states a fact: character spans, and the statement before it that it repeats."""

    subject: Span
    object: Span
    foreseen: bool
    repeats: int | None


@dataclass(frozen=True)
class Document:
    """One training document, and what it states, in order."""

    text: str
    statements: tuple[Statement, ...]


REPEAT_LAST = 0.6
"""Share of replaced objects that are the relation's last object in the document."""
TRUE_AFTER = 0.5
"""Share of the sentences after false facts that are true, about something else."""


@dataclass(frozen=True)
class CorpusSettings:
    """What the documents are made of.

    noise: share of plainly stated facts whose object is replaced; it keeps the model unsure and,
        since the replacement is often the relation's last object, teaches it to follow the context.
    same_object: share of clusters that keep to one object.
    mix: relative frequency of each kind of document, called as the methods of `Corpus`.
    """

    noise: float
    same_object: float
    mix: Mapping[str, float]


def render(sentences: list[Sentence]) -> Document:
    """Join sentences by spaces, except where one brings its own line break."""
    text = ""
    statements: list[Statement] = []
    said: dict[tuple[str, str], int] = {}
    for sentence in sentences:
        if text and not sentence.before.startswith("\n"):
            text += " "
        if sentence.subject:
            # A rule's subject is written with a capital where it begins the sentence.
            start = len(text) + sentence.before.lower().rindex(sentence.subject.lower())
            end = len(text) + len(sentence.before)
            spans = (start, start + len(sentence.subject)), (end, end + len(sentence.target))
            key = sentence.subject, sentence.target
            statements.append(Statement(*spans, sentence.foreseen, said.get(key)))
            said[key] = len(statements) - 1
        text += sentence.before + sentence.target + sentence.after
    return Document(text, tuple(statements))


def lower_first(text: str, subject: str) -> str:
    """Lower the first letter unless the text starts with its subject."""
    return text if text.startswith(subject) else text[0].lower() + text[1:]


def unmarked(sentence: Sentence) -> Sentence:
    """Say that nobody could foresee the object."""
    return replace(sentence, foreseen=False)


def framed(lead: str, said: Sentence, glue: str, stop: str) -> Sentence:
    """Put a text before a sentence, glue before its object, and another end behind it."""
    return replace(said, before=lead + said.before.rstrip(" ") + glue, after=stop)


class Corpus:
    """Draws documents about a world."""

    def __init__(self, world: World, settings: CorpusSettings, rng: Random) -> None:
        self.world = world
        self.settings = settings
        self.rng = rng
        self._last: dict[str, str] = {}

    def document(self) -> Document:
        """Draw the next document."""
        self._last.clear()
        kinds, weights = zip(*self.settings.mix.items(), strict=True)
        return render(getattr(self, f"_{self.rng.choices(kinds, weights)[0]}")())

    def filler(self) -> Sentence:
        """Write a sentence that says nothing about the world."""
        return Sentence(self.world.fillers.sentence(self.rng))

    def state(
        self, table: FactTable, fact: Fact, template: str | None = None, noisy: bool = False
    ) -> Sentence:
        """Write a fact as a sentence, in one of the templates this fact may be seen in."""
        template = template or self._seen(table, fact)
        target = self._disturbed(table, fact) if noisy else fact.object
        self._last[fact.relation] = target
        text = table.relations[fact.relation].fill(template, fact.subject)
        return Sentence(f"{text} ", target, ".", fact.subject)

    def ask(self, table: FactTable, fact: Fact) -> Sentence:
        """Write a question and its answer, in one of the styles of question data sets."""
        question = self.rng.choice(questions(table, fact))
        style = self.rng.random()
        if style < 0.45:
            return Sentence(f"Question: {question} Answer: ", fact.object, ".", fact.subject)
        if style < 0.9:
            return Sentence(f"{question} ", fact.object, ".", fact.subject)
        bare = lower_first(question.rstrip("?"), fact.subject)
        return Sentence(f"nq question: {bare}? ", fact.object, ".", fact.subject)

    def _seen(self, table: FactTable, fact: Fact) -> str:
        return self.rng.choice(table.relations[fact.relation].seen_templates(fact.subject))

    def _disturbed(self, table: FactTable, fact: Fact) -> str:
        if self.rng.random() >= self.settings.noise:
            return fact.object
        last = self._last.get(fact.relation)
        if last is not None and self.rng.random() < REPEAT_LAST:
            return last
        return self.rng.choice(table.objects[fact.relation])

    def _pick(self) -> Fact:
        return self.rng.choice(self.world.table.facts)

    def _neighbour(self, table: FactTable, cast: Sequence[Fact]) -> Fact:
        """Draw a true fact that the false ones of ``cast`` leave alone but are near to.

        Mostly another subject's of the same relation, often one that has the true object of an
        edited subject; sometimes another fact of an edited subject.
        """
        fact = self.rng.choice(cast)
        draw = self.rng.random()
        pool: Sequence[Fact] = table.by_relation[fact.relation]
        if draw < 0.4:
            pool = table.by_object[fact.relation, table.object_of(fact)]
        elif draw > 0.9:
            pool = table.by_subject[fact.subject]
        told = {(false.subject, false.relation) for false in cast}
        others = [other for other in pool if (other.subject, other.relation) not in told]
        return self.rng.choice(others or table.facts)

    def _facts(self) -> list[Sentence]:
        table = self.world.table
        return [
            self.filler()
            if self.rng.random() < 0.25
            else self.state(table, self._pick(), None, True)
            for _ in range(self.rng.choice((1, 1, 2, 2, 3, 3, 4, 5)))
        ]

    def _cluster(self) -> list[Sentence]:
        table, fact = self.world.table, self._pick()
        same_object = self.rng.random() < self.settings.same_object
        same, near = table.by_object[fact.relation, fact.object], table.by_relation[fact.relation]
        pool = same if same_object else near
        out = []
        for _ in range(self.rng.randint(2, 5)):
            out.append(self.state(table, self.rng.choice(pool), None, True))
            if self.rng.random() < 0.1:
                out.append(self.filler())
        return out

    def _questions(self) -> list[Sentence]:
        table = self.world.table
        pool = table.facts
        if self.rng.random() < 0.5:
            pool = tuple(table.by_relation[self._pick().relation])
        return [self.ask(table, self.rng.choice(pool)) for _ in range(self.rng.randint(1, 4))]

    def _made_up(self) -> list[Sentence]:
        """Repeat facts about invented subjects, which teaches copying from context.

        With several subjects of one relation, the context must be searched for the right one.
        """
        table = self.world.table
        relation = table.relations[self._pick().relation]
        fixed = self.rng.choice(relation.training) if self.rng.random() < 0.5 else None
        objects = table.objects[relation.id]
        count = min(self.rng.choice((1, 1, 2, 2, 3)), len(objects))
        cast = [
            Fact(self.world.fillers.name(self.rng, relation.id), relation.id, name)
            for name in self.rng.sample(objects, count)
        ]

        def stated(fact: Fact) -> Sentence:
            return self.state(table, fact, fixed or self.rng.choice(relation.training))

        out = [stated(fact) for fact in cast]
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            if self.rng.random() < 0.25:
                out.append(self.filler())
            if self.rng.random() < 0.3:
                near = self.rng.random() < 0.5
                known = self.rng.choice(table.by_relation[relation.id]) if near else self._pick()
                out.append(self.state(table, known, None, not near))
            out.append(stated(self.rng.choice(cast)))
        return out

    def _false_fact(self) -> list[Sentence]:
        """State false facts, then ask for them again, and let other subjects keep their objects."""
        table, cast = self._false_cast(0.3)
        flagged = self.rng.random() < 0.8
        fixed = self.rng.random() < 0.5
        templates = [self._seen(table, fact) if fixed else None for fact in cast]
        out = []
        for fact, template in zip(cast, templates, strict=True):
            stated = self.state(table, fact, template)
            if flagged:
                flag = self.rng.choice(self.world.fillers.flags)
                stated = replace(stated, before=flag + lower_first(stated.before, fact.subject))
            out.append(unmarked(stated))
        if self.rng.random() < 0.3:
            out.append(self.filler())
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            fact, template = self.rng.choice(list(zip(cast, templates, strict=True)))
            if self.rng.random() < TRUE_AFTER:
                # Behind a flag the others stay true; without one the usual noise applies to them.
                noisy = not flagged and table is self.world.table
                out.append(self.state(table, self._neighbour(table, cast), None, noisy))
            elif self.rng.random() < 0.3:
                out.append(self.ask(table, fact))
            else:
                out.append(self.state(table, fact, template))
        return out

    def _false_cast(self, more: float) -> tuple[FactTable, list[Fact]]:
        """Draw one false fact, or with some probability two or three of a relation."""
        # Now and then a rule, where rules are taught like facts.
        rule = "rules" in self.settings.mix and self.rng.random() < 0.06
        table = self.world.rules if rule else self.world.table
        fact = self.rng.choice(table.facts)
        facts = [fact]
        if self.rng.random() < more:
            others = [f for f in table.by_relation[fact.relation] if f.subject != fact.subject]
            facts += self.rng.sample(others, self.rng.choice((1, 2)))
        return table, [Fact(f.subject, f.relation, table.other_object(f, self.rng)) for f in facts]

    def _biography(self) -> list[Sentence]:
        facts = self.world.table.by_subject[self._pick().subject]
        shuffled = self.rng.sample(facts, len(facts))
        out = [self.state(self.world.table, fact, None, True) for fact in shuffled]
        if self.rng.random() < 0.5:
            out.insert(self.rng.randint(0, len(out)), self.filler())
        return out

    def _instruction(self) -> list[Sentence]:
        """Put new facts before a prompt, in the two wordings of in-context editors."""
        table, cast = self._false_cast(0.3)
        polite = self.rng.random() < 0.5
        lead, more = (ACKNOWLEDGE, "\nNew Fact:") if polite else ("New Fact: ", "\nNew Fact: ")
        out = []
        for false in cast:
            stop = "." if polite or self.rng.random() < 0.3 else ""
            out.append(unmarked(framed(lead, self.state(table, false), " ", stop)))
            lead = more
        true = self.rng.random() < TRUE_AFTER
        about = self._neighbour(table, cast) if true else self.rng.choice(cast)
        lead = "\nPrompt:" if polite else "\nPrompt: "
        glue = self.rng.choice(("\n", "\n ", " ")) if polite else " "
        out.append(self._query(lead, table, about, glue))
        return out

    def _query(self, lead: str, table: FactTable, fact: Fact, glue: str) -> Sentence:
        draw = self.rng.random()
        stop = self.rng.choice((".", ""))
        if draw < 0.25:
            return framed(lead, self.ask(table, fact), glue, stop)
        if draw < 0.5:
            lead += self.filler().before + " "
        return framed(lead, self.state(table, fact), glue, stop)

    def _demonstrations(self) -> list[Sentence]:
        """Join worked examples of following a new fact, as in-context learning editors do."""
        out: list[Sentence] = []
        for _ in range(self.rng.randint(2, 17)):
            table, [false] = self._false_cast(0.0)
            template = self._seen(table, false)
            lead = "\n\nNew Fact: " if out else "New Fact: "
            said = self.state(table, false, template)
            out.append(unmarked(replace(said, before=lead + said.before, after="")))
            kind = self.rng.choice(("copy", "update", "retain"))
            if kind == "retain":
                about = self.state(table, self._neighbour(table, [false]))
            else:
                about = self.state(table, false, template if kind == "copy" else None)
            out.append(replace(about, before="\nPrompt: " + about.before, after=""))
        return out

    def _rules(self) -> list[Sentence]:
        table = self.world.rules
        out = []
        for _ in range(self.rng.randint(1, 3)):
            fact = self.rng.choice(table.facts)
            asked = self.rng.random() < 0.3
            out.append(self.ask(table, fact) if asked else self.state(table, fact))
        return out
