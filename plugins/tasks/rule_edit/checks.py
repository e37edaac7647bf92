"""What is wrong with a file of rules: its layout, and what stands in a record.

A file whose layout is wrong is of no use. A prompt without its subject is the affair of that rule alone,
whose case says so and is not run. Formulas are read by the judge, which names one that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from edit_harness.data import SUBJECT
from edit_harness_plugins.inputs import Layout

from .._files.records import Entry, Name, Record


class Instance(Layout, tag_field="kind", tag="steps"):
    """A question for a number, and the way to it."""

    prompt: str
    answer_true: str
    answer_new: str


class Direct(Instance, tag_field="kind", tag="direct"):
    """A question for a number that can be written, too."""

    rephrasing: str
    target_true: str
    target_new: str


class Neighbor(Layout):
    """A rule that should stay as it is."""

    rule: str
    kind: str


class Link(Layout):
    """A rule that depends on an edited one."""

    rule: str
    link: str
    formula_new: str
    instances: list[Instance | Direct]


class Written(Layout):
    """What a record must have."""

    id: Name
    dim: Literal["2D", "3D"]
    shape: str
    property: str
    subject: str
    lhs: str
    variables: dict[str, str]
    derived: dict[str, str]
    constraints: list[str]
    formula: str
    formula_new: str
    equation: str
    equation_new: str
    description: str
    description_new: str
    formula_prompt: str
    description_prompt: str
    formula_rephrasings: list[str]
    description_rephrasings: list[str]
    out_of_scope: list[Neighbor]
    instances: list[Instance | Direct]
    unseen: list[Instance | Direct]
    hierarchy: list[Link]


def flaws(record: Record) -> Iterator[str]:
    """Say what is wrong with a record. Raises `ValueError` if it has no direct instance."""
    instances = [*record["instances"], *record["unseen"]]
    linked = [each for link in record["hierarchy"] for each in link["instances"]]
    if all(each["kind"] != "direct" for each in record["instances"]):
        raise ValueError("instances has none of the kind direct")
    for each in (*instances, *linked):
        if each["answer_new"] == each["answer_true"]:
            yield f"answer_new is the old one, {each['answer_true']!r}"
    prompts = [each["prompt"] for each in instances if each["kind"] == "direct"]
    for prompt in (record["formula_prompt"], record["description_prompt"], *prompts):
        yield from _misplaced(prompt, record["subject"])
    if record["formula"] == record["formula_new"]:
        yield f"formula_new is the old one, {record['formula']!r}"


def _misplaced(prompt: str, subject: str) -> Iterator[str]:
    if SUBJECT in prompt:
        yield f"the prompt {prompt!r} has a {SUBJECT!r} of its own, which stands for the subject"
    elif subject.strip() and (count := placed(prompt, subject)[1]) != 1:
        times = "more than once" if count else "not"
        yield f"the prompt {prompt!r} has the subject {subject!r} {times} in it"


def placed(prompt: str, subject: str) -> tuple[str, int]:
    """Put a place where the subject stands as a word of its own; return the prompt and how often it does."""
    return re.subn(rf"(?<!\w){re.escape(subject.strip())}(?!\w)", SUBJECT, prompt)


def unknown(rules: Mapping[str, Entry]) -> list[str]:
    """Say which rules are asked of, and are not there."""
    return [
        f"rule {name!r} asks of the rule {other!r}, which is not there"
        for name, (record, _) in rules.items()
        for other in asked_of(record)
        if other not in rules
    ]


def asked_of(record: Record) -> list[str]:
    """Return the other rules that a rule's probes ask of."""
    return [other["rule"] for other in (*record["out_of_scope"], *record["hierarchy"])]


def problems(entry: Entry, rules: Mapping[str, Entry]) -> str:
    """Say why no case can be made of a record: its own flaws, or those of what it asks of."""
    record, found = entry
    useless = [
        f"it asks of the rule {name!r}, which cannot be used"
        for name in asked_of(record)
        if rules[name].problem
    ]
    told = "; ".join(filter(None, (found, *useless)))
    return told if found or not told else f"rule {record['id']!r}: {told}"
