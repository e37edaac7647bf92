"""RippleEdits (Cohen et al., 2024): what else has to change with an edited fact, and what must not.

The authors' layout is read: recent.json, random.json, popular.json. Everything is asked by greedy generation;
which tests count is worked out by the metric, from the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from edit_harness import Case, Choose, Generate, Key, Probe, Request
from edit_harness_plugins.citations import RIPPLE_EDITS
from edit_harness_plugins.downloads import Remote
from edit_harness_plugins.inputs import Layout

from .._files import records as reading
from .._files.published import GivenFileTask, Published, unusable
from .._files.records import Entry, Record
from .ripple_wording import FEWEST, Templates, Worded, cut, target, templates

AUTHORS = Published(
    "RippleEdits", Remote(("https://github.com/edenbiran/RippleEdits",), "RippleEdits"), 4_755
)
AXES: Mapping[str, str] = {
    "Relation_Specificity": "relation-specificity",
    "Logical_Generalization": "logical-generalization",
    "Subject_Aliasing": "subject-aliasing",
    "Compositionality_I": "compositionality-1",
    "Compositionality_II": "compositionality-2",
    "Forgetfulness": "forgetfulness",
}
"""The roles of the probes of each axis, by the axis's name in the file."""
CONDITION = "condition"
"""The role of what the unedited model has to know."""
PASSES = {"OR": "any", "AND": "all"}
OLD = ("original_fact", "previous_fact")
"""What the files, and the authors' code, call the fact before the edit."""
TOKENS = 30
"""How long a continuation is."""


class Answer(Layout):
    """An answer's names, which may be empty."""

    value: str
    aliases: list[str]


class Query(Layout):
    """A question, or a condition of one."""

    prompt: str
    answers: list[Answer]


class Test(Layout):
    """A test of an axis."""

    test_condition: Literal["OR", "AND"]
    test_queries: list[Query]
    condition_queries: list[Query]


class Sentence(Layout):
    """The fact before the edit."""

    prompt: str


class Edit(Layout):
    """The sentence that is written."""

    prompt: str
    relation: str
    target_id: Any
    original_fact: Sentence | None = None
    previous_fact: Sentence | None = None


class Example(Layout):
    """What an example must have, of at least one axis."""

    example_type: str
    edit: Edit
    Relation_Specificity: tuple[Test, ...] = ()
    Logical_Generalization: tuple[Test, ...] = ()
    Subject_Aliasing: tuple[Test, ...] = ()
    Compositionality_I: tuple[Test, ...] = ()
    Compositionality_II: tuple[Test, ...] = ()
    Forgetfulness: tuple[Test, ...] = ()


class Known(NamedTuple):
    """What the examples of a file say of each other: how relations are worded, and names by id."""

    wording: Templates
    names: Mapping[str, Sequence[str]]


@dataclass
class RippleEdits(GivenFileTask):
    """Edits with tests of their consequences along six axes; 4,755 in the authors' three files.

    A question is passed if each of its answers stands, by one of its names, in the 30 tokens behind
    the prompt. A case is called by the position of its example, counted from 0.
    """

    published = AUTHORS
    sample = "rippleedits"
    files = "1,948 in recent.json, 1,922 in random.json, 885 in popular.json"
    version: ClassVar[str] = "0.1"
    metrics = ("ripple", "success", "judging")
    judge = "match"
    protocol = (
        f"Prompts are continued greedily by {TOKENS} tokens: the edited fact, the questions of each test "
        "and its conditions. A judge looks for the names of each answer in the continuation, as whole "
        "words and without the prompt (the authors' code looks for substrings, at the prompt too, and "
        "its length in tokens is the prompt's in characters and 30). Where the old object is known, it "
        "is scored with the new one."
    )
    citation = RIPPLE_EDITS

    def records(self, path: Path) -> list[Entry]:
        """Return the examples of a file, checked. Raises `DataError` if they are of another layout."""
        return reading.read(path, Example, _wrong, passed=("value", "aliases"))

    def made_of(self, entries: Sequence[Entry]) -> Iterable[Case]:
        """Return a case for every example."""
        known = _known([record for record, problem in entries if not problem])
        return [
            unusable(str(i), problem) if problem else _case(str(i), record, known)
            for i, (record, problem) in enumerate(entries)
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data."""
        tests = [t for record in self._usable for _, t in _tests(record) if t["test_queries"]]
        left = sum(not _askable(test) for test in tests)
        if not left:
            return ()
        return (f"{left:,} of {len(tests):,} tests ask for something without a name; left out",)

    @cached_property
    def _usable(self) -> list[Record]:
        return [record for record, problem in self.records(self._file()) if not problem]


def _known(records: Sequence[Record]) -> Known:
    """Return what a file says of the wording of its relations and of the names of its objects."""
    tests = [test for record in records for _, test in _tests(record)]
    queries = [q for t in tests for q in (*t["test_queries"], *t["condition_queries"])]
    names: dict[str, Sequence[str]] = {}
    for query in queries:
        two_hops = query.get("query_type") == "two_hop"
        ids = query.get("second_hop_target_ids" if two_hops else "target_ids")
        if isinstance(ids, list) and len(ids) == len(query["answers"]):
            found = zip(ids, query["answers"], strict=True)
            names |= {str(name): _names(answer) for name, answer in found}
    asked, stated = (
        [Worded(e["relation"], str(e.get("subject_id", e["prompt"])), e["prompt"]) for e in each]
        for each in (filter(_is_plain, queries), [record["edit"] for record in records])
    )
    return Known(templates(asked, stated), names)


def _is_plain(query: Record) -> bool:
    """Tell whether a prompt is its relation's own wording, with the subject in its place."""
    of_one = query.get("query_type", "regular") == "regular" and not query.get("phrase")
    return of_one and isinstance(query.get("relation"), str)


def _tests(record: Record) -> Iterator[tuple[str, Record]]:
    for axis in AXES:
        for test in record.get(axis, []):
            yield axis, test


def _case(name: str, record: Record, known: Known) -> Case:
    edit = record["edit"]
    request = _request(edit, known)
    if isinstance(request, str):
        return unusable(name, f"record {int(name) + 1}: {request}")
    tags = {"relation": edit["relation"], "type": record["example_type"]}
    aliases = known.names.get(str(edit["target_id"]), ())
    probes = (*_facts(request, aliases), *_asked(record))
    return Case(name, (request,), probes, tags)


def _request(edit: Record, known: Known) -> Request | str:
    if (template := known.wording.get(edit["relation"])) is None:
        return (
            f"the file does not tell how {edit['relation']} is worded: it takes {FEWEST} subjects of "
            "which it is said alike"
        )
    original = next((edit[name]["prompt"] for name in OLD if edit.get(name)), "")
    names = known.names.get(str(edit["target_id"]), ())
    parts = cut(edit["prompt"], template, original, names)
    if isinstance(parts, str):
        return parts
    request = Request(parts.prompt, parts.subject, parts.target)
    true = target(original, request.text)
    if true == parts.target:
        return f"the edit changes nothing: the object is {true!r} before and after"
    return Request(parts.prompt, parts.subject, parts.target, true)


def _facts(request: Request, aliases: Sequence[str]) -> Iterator[Probe]:
    new, true = request.target_new, request.target_true
    yield _probe("fact", request.text, _key([new, *aliases], true), {})
    if true:
        yield Probe("efficacy", Choose(request.text, (new, true)))


def _asked(record: Record) -> Iterator[Probe]:
    """Yield a probe for each answer of each question of the tests, and of their conditions."""
    for number, (axis, test) in enumerate(_tests(record)):
        if not _askable(test):
            continue
        tags = {"axis": AXES[axis], "test": str(number), "passes": PASSES[test["test_condition"]]}
        for query, each in enumerate(test["test_queries"]):
            yield from _answers(AXES[axis], each, {**tags, "query": str(query)})
        for query, each in enumerate(test["condition_queries"]):
            yield from _answers(CONDITION, each, {**tags, "query": str(query)})


def _answers(role: str, query: Record, tags: Mapping[str, str]) -> Iterator[Probe]:
    for answer in query["answers"]:
        yield _probe(role, query["prompt"], _key(_names(answer)), tags)


def _probe(role: str, prompt: str, key: Key, tags: Mapping[str, str]) -> Probe:
    return Probe(role, Generate(prompt, max_new_tokens=TOKENS), tags, key)


def _key(names: Sequence[str], old: str = "") -> Key:
    right, *aliases = dict.fromkeys(names)
    return Key("match", right, old, {"aliases": aliases, "old_aliases": [], "how": "within"})


def _askable(test: Record) -> bool:
    """Tell whether a test has questions, and each of them and of its conditions a named answer."""
    queries = [*test["test_queries"], *test["condition_queries"]]
    named = all(query["answers"] and all(map(_names, query["answers"])) for query in queries)
    return bool(test["test_queries"]) and named


def _names(answer: Record) -> list[str]:
    """Return the names of an answer; as in the authors' code, a single letter is none."""
    names = (name.strip() for name in (answer["value"], *answer["aliases"]))
    return [name for name in names if len(name) > 1 or name.isdigit()]


def _wrong(record: Record) -> tuple[str, ...]:
    if not record.keys() & AXES.keys():
        raise ValueError(f"none of {', '.join(AXES)} is there")
    return ()
