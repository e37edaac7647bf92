"""Make ``facts.jsonl``: capitals that the bundled model ``pocket`` knows in both directions.

``python make_data.py`` writes the file again; a test compares its bytes. A fact is known if its
object is likelier than that of any other subject.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from edit_harness import Choose, Scores, load_model
from edit_harness.edits import Edit
from edit_harness.model import Model

OUT = Path(__file__).parent / "src" / "edit_harness_reversal" / "facts.jsonl"
CAPITAL = "P36"
NEIGHBORS = 3

Objects = Mapping[str, str]
"""The object of each subject."""


class Direction(NamedTuple):
    """The words for one direction of a relation, and how many edits a subject gets in it."""

    prompt: str
    paraphrases: Sequence[str]
    edits: int


CITY = Direction("The capital of {} is", ("The capital in {} is", "In {}, the capital city is"), 1)
COUNTRY = Direction(
    "The city of {} is the capital of", ("{} is the capital of", "{} is the capital city of"), 2
)


def build(model: Model) -> str:
    """Return the file's content: edits of countries, then edits of cities."""
    world = files("edit_harness_plugins.models.pocket") / "world" / "facts.json"
    facts = json.loads(world.read_text(encoding="utf-8"))["facts"]
    capital = {subject: own for subject, relation, own in facts if relation == CAPITAL}
    cities = known(model, CITY, capital)
    countries = known(model, COUNTRY, {city: country for country, city in capital.items()})
    records = [
        *records_of(CITY, cities, COUNTRY, countries),
        *records_of(COUNTRY, countries, CITY, cities),
    ]
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def known(model: Model, direction: Direction, objects: Objects) -> Objects:
    """Return the facts that a model knows."""
    offered = tuple(objects.values())
    queries = [Choose(direction.prompt.replace("{}", subject), offered) for subject in objects]
    answers = model.answer([(Edit(), query) for query in queries])
    return {
        subject: own
        for (subject, own), answer in zip(objects.items(), answers, strict=True)
        if isinstance(answer, Scores) and own == offered[min(range(len(offered)), key=answer.nll)]
    }


def records_of(
    direction: Direction, facts: Objects, other: Direction, inverse: Objects
) -> Iterator[dict[str, Any]]:
    """Yield records that edit one direction and ask for the other, in which ``inverse`` is true."""
    for i, subject in enumerate(facts):
        free = [new for new in inverse if subject not in (new, inverse[new])]
        for j in range(direction.edits):
            new = free[(direction.edits * i + j) % len(free)]
            yield {
                "id": f"{subject} - {new}",
                "prompt": direction.prompt,
                "subject": subject,
                "target_new": new,
                "target_true": facts[subject],
                "inverse": other.prompt,
                "former": inverse[new],
                "paraphrases": list(direction.paraphrases),
                "neighbors": neighbors(facts, i, new),
            }


def neighbors(facts: Objects, i: int, new: str) -> dict[str, str]:
    """Return the facts that follow number ``i``, from the first on after the last one."""
    others = [*list(facts.items())[i + 1 :], *list(facts.items())[:i]]
    return dict([(name, own) for name, own in others if own != new][:NEIGHBORS])


if __name__ == "__main__":
    OUT.write_text(build(load_model("pocket", device="cpu")), encoding="utf-8", newline="\n")
