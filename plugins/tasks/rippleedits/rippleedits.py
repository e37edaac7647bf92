"""RippleEdits (Cohen et al., 2024): what else has to change with an edited fact, and what must not.

The authors' layout is read: recent.json, random.json, popular.json. Everything is asked by greedy generation;
which tests count is worked out by the metric, from the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from edit_harness import Case, Choose, Generate, Key, Probe, Request
from edit_harness_plugins.citations import RIPPLE_EDITS
from edit_harness_plugins.downloads import Remote
from edit_harness_plugins.inputs import Layout

from .._files.published import FileTask, Published, unusable
from .._files.records import Record, unedited
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


@dataclass
class RippleEdits(FileTask):
    """Edits with tests of their consequences along six axes; 4,755 in the authors' three files.

    A question is passed if each of its answers stands, by one of its names, in the 30 tokens behind
    the prompt. A case is called by the position of its example, counted from 0.
    """

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), or a .json or .jsonl file, such as one on the hub:
    hf://OWNER/NAME/FILE@REVISION."""

    published, layout, passed = AUTHORS, Example, ("value", "aliases")
    sample, otherwise = "rippleedits", "auto"
    files = "1,948 in recent.json, 1,922 in random.json, 885 in popular.json"
    version: ClassVar[str] = "0.1"
    metrics = ("ripple", "success", "judging")
    judge = "match"
    asks = (
        f"Prompts are continued greedily by {TOKENS} tokens: the edited fact, the questions of each test "
        "and its conditions. A judge looks for the names of each answer in the continuation, as whole "
        "words and without the prompt (the authors' code looks for substrings, at the prompt too, and "
        "its length in tokens is the prompt's in characters and 30). Where the old object is known, it "
        "is scored with the new one."
    )
    citation = RIPPLE_EDITS

    def _wrong(self, record: Record) -> tuple[str, ...]:
        """Raise `ValueError` for an example without an axis."""
        if not record.keys() & AXES.keys():
            raise ValueError(f"none of {', '.join(AXES)} is there")
        return ()

    def _case(self, name: str, record: Record, position: int) -> Case:
        edit, (wording, known) = record["edit"], self._known
        names = known.get(str(edit["target_id"]), ())
        request = _request(edit, wording, names)
        if isinstance(request, str):
            return unusable(name, f"record {position + 1}: {request}")
        tags = {"relation": edit["relation"], "type": record["example_type"]}
        return Case(name, (request,), (*_facts(request, names), *_asked(record)), tags)

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
        return [record for record, problem in self._entries if not problem]

    @cached_property
    def _known(self) -> tuple[Templates, Mapping[str, Sequence[str]]]:
        """What the file says of the wording of its relations, and of its objects' names by id."""
        tests = [test for record in self._usable for _, test in _tests(record)]
        queries = [q for t in tests for q in (*t["test_queries"], *t["condition_queries"])]
        names: dict[str, Sequence[str]] = {}
        for query in queries:
            two_hops = query.get("query_type") == "two_hop"
            ids = query.get("second_hop_target_ids" if two_hops else "target_ids")
            if isinstance(ids, list) and len(ids) == len(query["answers"]):
                found = zip(ids, query["answers"], strict=True)
                names |= {str(name): _names(answer) for name, answer in found}
        asked, stated = (
            [
                Worded(e["relation"], str(e.get("subject_id", e["prompt"])), e["prompt"])
                for e in each
            ]
            for each in (filter(_is_plain, queries), [record["edit"] for record in self._usable])
        )
        return templates(asked, stated), names


def _is_plain(query: Record) -> bool:
    """Tell whether a prompt is its relation's own wording, with the subject in its place."""
    of_one = query.get("query_type", "regular") == "regular" and not query.get("phrase")
    return of_one and isinstance(query.get("relation"), str)


def _tests(record: Record) -> Iterator[tuple[str, Record]]:
    for axis in AXES:
        for test in record.get(axis, []):
            yield axis, test


def _request(edit: Record, wording: Templates, names: Sequence[str]) -> Request | str:
    if (template := wording.get(edit["relation"])) is None:
        return (
            f"the file does not tell how {edit['relation']} is worded: it takes {FEWEST} subjects of "
            "which it is said alike"
        )
    original = next((edit[name]["prompt"] for name in OLD if edit.get(name)), "")
    request = cut(edit["prompt"], template, original, names)
    if isinstance(request, str):
        return request
    true = target(original, request.text)
    return next(unedited(request.target_new, true), "") or replace(request, target_true=true)


def _facts(request: Request, aliases: Sequence[str]) -> Iterator[Probe]:
    new, true = request.target_new, request.target_true
    yield _probe("fact", request.text, [new, *aliases], {}, true)
    if true:
        yield Probe("efficacy", Choose(request.text, (new, true)))


def _asked(record: Record) -> Iterator[Probe]:
    """Yield a probe for each answer of each question of the tests, and of their conditions."""
    for number, (axis, test) in enumerate(_tests(record)):
        if not _askable(test):
            continue
        tags = {"axis": AXES[axis], "test": str(number), "passes": PASSES[test["test_condition"]]}
        for role, asked in ((AXES[axis], "test_queries"), (CONDITION, "condition_queries")):
            for query, each in enumerate(test[asked]):
                own = {**tags, "query": str(query)}
                for answer in each["answers"]:
                    yield _probe(role, each["prompt"], _names(answer), own)


def _probe(
    role: str, prompt: str, names: Sequence[str], tags: Mapping[str, str], old: str = ""
) -> Probe:
    right, *aliases = dict.fromkeys(names)
    key = Key("match", right, old, {"aliases": aliases, "old_aliases": [], "how": "within"})
    return Probe(role, Generate(prompt, max_new_tokens=TOKENS), tags, key)


def _askable(test: Record) -> bool:
    """Tell whether a test has questions, and each of them and of its conditions a named answer."""
    queries = [*test["test_queries"], *test["condition_queries"]]
    named = all(query["answers"] and all(map(_names, query["answers"])) for query in queries)
    return bool(test["test_queries"]) and named


def _names(answer: Record) -> list[str]:
    """Return the names of an answer; as in the authors' code, a single letter is none."""
    names = (name.strip() for name in (answer["value"], *answer["aliases"]))
    return [name for name in names if len(name) > 1 or name.isdigit()]
