"""What is wrong with a file of rules: its layout, and what stands in a record.

A file whose layout is wrong is of no use. A formula that cannot be read, or a prompt without its
subject, is the affair of that rule alone, whose case says so and is not run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edit_harness.data import SUBJECT

from .._files.records import SURROGATE, Record, kind_of
from .formulas import wrong_constraint, wrong_formula

TEXTS = (
    "id", "dim", "shape", "property", "subject", "lhs", "formula", "formula_new", "equation",
    "equation_new", "description", "description_new", "formula_prompt", "description_prompt",
)  # fmt: skip
LISTS = ("formula_rephrasings", "description_rephrasings", "constraints")
NAMED = ("variables", "derived")
NEIGHBOR = ("rule", "kind")
LINK = ("rule", "link", "formula_new")
INSTANCE = ("kind", "prompt", "answer_true", "answer_new")
DIRECT = ("rephrasing", "target_true", "target_new")
DIMS, KINDS = ("2D", "3D"), ("direct", "steps")


def wrong(record: Record) -> Iterator[str]:
    """Say where a record has not the layout that it must have."""
    yield from _wrong_texts("", record, TEXTS)
    if record.get("dim") not in DIMS:
        yield f"dim is {record.get('dim')!r}, expected one of {', '.join(DIMS)}"
    for name in LISTS:
        if not _is_list(record.get(name), str):
            yield f"{name} is {_kind(record, name)}, expected a list of texts"
    for name in NAMED:
        if not _is_table(record.get(name)):
            yield f"{name} is {_kind(record, name)}, expected texts by symbol"
    for i, neighbor in _objects(record, "out_of_scope"):
        yield from _wrong_texts(f"out_of_scope[{i}].", neighbor, NEIGHBOR)
    for i, link in _objects(record, "hierarchy"):
        yield from _wrong_texts(f"hierarchy[{i}].", link, LINK)
        yield from _wrong_instances(f"hierarchy[{i}].", link, "instances")
    yield from _wrong_instances("", record, "instances")
    yield from _wrong_instances("", record, "unseen")
    for name in ("out_of_scope", "hierarchy"):
        if not _is_list(record.get(name), dict):
            yield f"{name} is {_kind(record, name)}, expected a list of objects"
    if not any(each.get("kind") == "direct" for _, each in _objects(record, "instances")):
        yield "instances has none of the kind direct"


def wrong_file(records: Sequence[Record]) -> Iterator[str]:
    """Say which ids are empty, or there twice, or meant and not there."""
    counts = Counter(record["id"] for record in records)
    for name, count in counts.items():
        if not name.strip():
            yield "a record has an empty id"
        if count > 1:
            yield f"{count} records have the id {name!r}"
    for record in records:
        for name in asked_of(record):
            if name not in counts:
                yield f"rule {record['id']!r} asks of the rule {name!r}, which is not there"


def asked_of(record: Record) -> list[str]:
    """Return the other rules that a rule's probes ask of."""
    return [other["rule"] for other in (*record["out_of_scope"], *record["hierarchy"])]


def problems(record: Record, rules: Mapping[str, Record]) -> list[str]:
    """Say why no case can be made of a record: its own flaws, and those of what it asks of."""
    found = list(flaws(record))
    for name in asked_of(record):
        if any(flaws(rules[name])):
            found.append(f"it asks of the rule {name!r}, which cannot be used")
    for link in record["hierarchy"]:
        found.append(wrong_formula(link["formula_new"], rules[link["rule"]]["variables"]))
    return [problem for problem in found if problem]


def flaws(record: Record) -> Iterator[str]:
    """Say what is wrong with the content of a record, whose layout is right."""
    instances = [*record["instances"], *record["unseen"]]
    linked = [each for link in record["hierarchy"] for each in link["instances"]]
    yield from _empty(record, TEXTS)
    for each in (*instances, *linked):
        yield from _empty(each, INSTANCE + (DIRECT if each["kind"] == "direct" else ()))
        yield from filter(None, (wrong_formula(each[name], ()) for name in INSTANCE[2:]))
        if each["answer_new"] == each["answer_true"]:
            yield f"answer_new is the old one, {each['answer_true']!r}"
    for name in ("formula_prompt", "description_prompt"):
        yield from _misplaced(name, record[name], record["subject"])
    for each in (each for each in instances if each["kind"] == "direct"):
        yield from _misplaced("prompt", each["prompt"], record["subject"])
    yield from _wrong_formulas(record)


def _wrong_formulas(record: Record) -> Iterator[str]:
    symbols = record["variables"]
    for text in (record["formula"], record["formula_new"], *record["derived"].values()):
        if problem := wrong_formula(text, symbols):
            yield problem
    for text in record["constraints"]:
        if problem := wrong_constraint(text, symbols):
            yield problem
    if record["formula"] == record["formula_new"]:
        yield f"formula_new is the old one, {record['formula']!r}"


def _misplaced(name: str, prompt: str, subject: str) -> Iterator[str]:
    """Say why the subject cannot be cut out of a prompt."""
    if SUBJECT in prompt:
        yield f"{name} has a {SUBJECT!r} of its own, which stands for the subject"
    elif subject.strip() and (count := prompt.count(subject)) != 1:
        times = "more than once" if count else "not"
        yield f"{name} {prompt!r} has the subject {subject!r} {times} in it"


def _empty(record: Record, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not record[name].strip():
            yield f"{name} is empty"
        elif SURROGATE.search(record[name]):
            yield f"{name} has half of a surrogate pair"


def _wrong_texts(where: str, record: Record, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not isinstance(record.get(name), str):
            yield f"{where}{name} is {_kind(record, name)}, expected a text"


def _wrong_instances(where: str, record: Record, name: str) -> Iterator[str]:
    if not _is_list(record.get(name), dict):
        yield f"{where}{name} is {_kind(record, name)}, expected a list of objects"
    for i, each in _objects(record, name):
        if each.get("kind") not in KINDS:
            yield f"{where}{name}[{i}].kind is {each.get('kind')!r}, expected one of {', '.join(KINDS)}"
        direct = DIRECT if each.get("kind") == "direct" else ()
        yield from _wrong_texts(f"{where}{name}[{i}].", each, INSTANCE + direct)


def _objects(record: Record, name: str) -> list[tuple[int, Record]]:
    """Return the objects of a list with their places, or nothing if it is none."""
    value = record.get(name)
    return list(enumerate(value)) if _is_list(value, dict) else []  # type: ignore[arg-type]


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and _is_list(list(value.values()), str)


def _kind(record: Record, name: str) -> str:
    return kind_of(record[name]) if name in record else "missing"
