"""MQuAKE (Zhong et al., 2023): edit a link of a chain of facts, and ask for the chain's end.

The authors' layout is read: MQuAKE-CF-3k-v2.json, MQuAKE-CF.json, MQuAKE-T.json. A case is an
instance with all its edits, which are written at once; instances are put together by the regime, as
for every task. Asked are the edited facts, each link of the chain, and the chain as a whole; there is
no retrieval here, and no chain of thought.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from edit_harness import Case, Choose, DataError, Generate, Key, ModelSource, Probe, Request
from edit_harness.data import SUBJECT
from edit_harness.files import Remote
from edit_harness_plugins.composition import Row, of_cases

from ._files import records as reading
from ._files import shots
from ._files.published import GivenFileTask, Published, unusable
from ._files.records import (
    Entry,
    Problem,
    Record,
    kind_of,
    wrong_list,
    wrong_names,
    wrong_objects,
    wrong_texts,
)

AUTHORS = Published("MQuAKE", Remote(("https://github.com/princeton-nlp/MQuAKE",), "MQuAKE"), 3_000)
REWRITE = ("prompt", "subject", "target_new.str", "target_true.str")
MOST_TOKENS = 32
"""How long an answer may be."""


@dataclass
class MQuAKE(GivenFileTask):
    """Chains of two to four facts, of which one or more are edited; three questions for each end.

    A chain counts as followed if one of the questions gets the new answer. The greedy answer is the
    rest of the line; where no demonstrations stand before, it may go on after a full stop.
    """

    demonstrations: str = "auto"
    """Answered questions before each question: "auto" (built-in, and none for the model's own sample),
    "built-in", "none", or a text file."""
    prompts: str = ""
    """A .json file of answered questions by relation, to stand before questions for single facts, such
    as the authors' rel-prompts.json; without it these have the same as all others."""

    published = AUTHORS
    sample = "mquake"
    files = "3,000 in MQuAKE-CF-3k-v2.json, 9,218 in MQuAKE-CF.json, 1,825 in MQuAKE-T.json"
    version: ClassVar[str] = "0.1"
    metrics = ("multi-hop", "success", "judging")
    judge = "match"
    protocol = (
        "Edited facts are scored after their cloze prompts, new and old object. Questions are answered "
        f"greedily, in {MOST_TOKENS} tokens at most and up to the end of the line, behind answered ones. "
        "A judge compares the answer with the new one and its aliases, and with the old one and its "
        "aliases: the whole of it, or, where no answered ones stand before, what stands before any of "
        "its full stops."
    )
    citation = (
        "Zhong, Wu, Manning, Potts, Chen: MQuAKE: Assessing Knowledge Editing in Language Models via "
        "Multi-Hop Questions. EMNLP 2023"
    )

    def bind(self, source: ModelSource) -> Self:
        """Return the task with the model's own sample, if it brings one, and what stands before."""
        bound = super().bind(source)
        if bound.demonstrations != "auto":
            return bound
        ready = replace(bound, demonstrations="none" if bound._sampled else "built-in")
        ready._sampled = bound._sampled
        return ready

    def records(self, path: Path) -> list[Entry]:
        """Return the instances of a file, checked. Raises `DataError` if two have one id."""
        entries = reading.read(path, lambda here, record: _wrong(record))
        seen: set[str] = set()
        for record, _ in entries:
            if (name := str(record["case_id"])) in seen:
                raise DataError(f"{path} has two records with case_id {name}")
            seen.add(name)
        return entries

    def made_of(self, entries: Sequence[Entry]) -> Iterable[Case]:
        """Yield a case for every instance."""
        for record, problem in entries:
            name = str(record["case_id"])
            yield unusable(name, problem) if problem else self._case(name, record)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data."""
        if self.prompts or self.demonstrations == "none":
            return ()
        return ("single facts are asked for without prompts of their own relation: prompts=FILE",)

    def composition(self) -> Mapping[str, Sequence[Row]]:
        """Return the table of instances by links and edits, and what is asked of them."""
        tags = [case.tags for case in self.cases() if not case.problem]
        counts = Counter((each["hops"], each["edits"]) for each in tags)
        rows = [
            {"hops": hops, "edits": edits, "instances": counts[hops, edits]}
            for hops, edits in sorted(counts)
        ]
        return {"chains": rows, **of_cases(self.cases())}

    @cached_property
    def _shots(self) -> shots.Shots:
        general = "built-in" if self.demonstrations == "auto" else self.demonstrations
        return shots.read(general, self.prompts)

    def _case(self, name: str, record: Record) -> Case:
        edits, hops = record["requested_rewrite"], record["new_single_hops"]
        tags = {"hops": str(len(hops)), "edits": str(len(edits))}
        requests = tuple(_request(edit) for edit in edits)
        return Case(name, requests, tuple(self._probes(record, requests)), tags)

    def _probes(self, record: Record, requests: Sequence[Request]) -> Iterator[Probe]:
        for request in requests:
            yield Probe("efficacy", Choose(request.text, (request.target_new, request.target_true)))
        for role, field in (("single-hop", "new_single_hops"), ("old-single-hop", "single_hops")):
            relations = _relations(record, field)
            for hop, relation in zip(record[field], relations, strict=True):
                right = [hop["answer"], *hop.get("answer_alias", ())]
                yield self._asked(role, hop["question"], right, relation=relation)
        right = [record["new_answer"], *record["new_answer_alias"]]
        old = [record["answer"], *record["answer_alias"], *record.get("answer_extended", ())]
        for question in record["questions"]:
            yield self._asked("multi-hop", question, right, old)

    def _asked(
        self,
        role: str,
        question: str,
        right: Sequence[str],
        old: Sequence[str] = ("",),
        relation: str = "",
    ) -> Probe:
        # No stop but the line's end leaves "St. Petersburg" whole; the judge looks at its beginnings.
        how = "sentence" if self._shots.alone(relation) else "equal"
        about = {"aliases": list(right[1:]), "old_aliases": list(old[1:]), "how": how}
        prompt = self._shots.prompt(question, relation)
        query = Generate(prompt, max_new_tokens=MOST_TOKENS, stop="\n")
        key = Key("match", right[0], old[0], about)
        return Probe(role, query, {"relation": relation} if relation else {}, key)


def _request(edit: Record) -> Request:
    new, true = edit["target_new"]["str"], edit["target_true"]["str"]
    return Request(edit["prompt"], edit["subject"], new, true)


def _relations(record: Record, field: str) -> list[str]:
    """Return the relation of each link of a chain, from its triples; unknown ones are empty."""
    name = "new_triples" if field == "new_single_hops" else "triples"
    triples = record.get("orig", {}).get(name, [])
    hops = record[field]
    known = [triple[1] for triple in triples] if len(triples) == len(hops) else []
    return known or [""] * len(hops)


def _wrong(record: Record) -> Iterator[Problem]:
    """Say what keeps a record from becoming a case."""
    name = record.get("case_id")
    if isinstance(name, bool) or not isinstance(name, int | str) or not str(name).strip():
        yield Problem(f"case_id is {kind_of(name)}, expected a number")
    yield from wrong_texts("", record, ("answer", "new_answer"))
    yield from wrong_list("questions", record.get("questions"))
    for field in ("answer_alias", "new_answer_alias"):
        yield from wrong_names(field, record.get(field))
    yield from wrong_names("answer_extended", record.get("answer_extended", []))
    for field, wrong in LISTS.items():
        value = record.get(field)
        yield from wrong_objects(field, value, wrong)
        if value == []:
            yield Problem(f"{field} is {kind_of(value)}, expected a list of objects", True)
    yield from _wrong_chains(record.get("orig", {}))


def _wrong_hop(place: str, hop: Record) -> Iterator[Problem]:
    yield from wrong_texts(place, hop, ("question", "answer"))
    yield from wrong_names(f"{place}.answer_alias", hop.get("answer_alias", []))


def _wrong_edit(place: str, edit: Record) -> Iterator[Problem]:
    found = list(wrong_texts(place, edit, REWRITE))
    yield from found
    if found:
        return
    if (count := edit["prompt"].count(SUBJECT)) != 1:
        text = f"{place}.prompt has {count} places '{SUBJECT}' for the subject, expected one"
        yield Problem(text, of_content=True)
    if (new := edit["target_new"]["str"]) == edit["target_true"]["str"]:
        text = f"{place} changes nothing: the object is {new!r} before and after"
        yield Problem(text, of_content=True)


LISTS: Mapping[str, Callable[[str, Record], Iterator[Problem]]] = {
    "requested_rewrite": _wrong_edit,
    "single_hops": _wrong_hop,
    "new_single_hops": _wrong_hop,
}
"""The lists of objects in a record, and what tells what is wrong with one of them."""


def _wrong_chains(orig: Any) -> Iterator[Problem]:
    """Say what is wrong with the chains in ids, which may be missing: their relations are read."""
    if not isinstance(orig, dict):
        yield Problem(f"orig is {kind_of(orig)}, expected an object")
        return
    for field in ("triples", "new_triples"):
        triples = orig.get(field, [])
        if not isinstance(triples, list):
            yield Problem(f"orig.{field} is {kind_of(triples)}, expected a list")
            continue
        for triple in triples:
            if not (isinstance(triple, list) and len(triple) == 3 and isinstance(triple[1], str)):
                yield Problem(f"orig.{field} has {triple!r}, expected subject, relation and object")
