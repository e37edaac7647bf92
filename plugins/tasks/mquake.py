"""MQuAKE (Zhong et al., 2023): edit a link of a chain of facts, and ask for the chain's end.

The authors' layout is read: MQuAKE-CF-3k-v2.json, MQuAKE-CF.json, MQuAKE-T.json. A case is an instance with
all its edits, which are written at once; there is no retrieval here, and no chain of thought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from msgspec import field

from edit_harness import Case, Choose, DataError, Generate, Key, ModelSource, Probe, Request
from edit_harness_plugins import inputs
from edit_harness_plugins.citations import MQUAKE
from edit_harness_plugins.downloads import Remote
from edit_harness_plugins.inputs import empty_texts, file_at, fitted, json_of, refuse, text_of

from ._files.published import FileTask, Published
from ._files.records import Id, Record, Rewrite, request_of, wrong_rewrite

AUTHORS = Published("MQuAKE", Remote(("https://github.com/princeton-nlp/MQuAKE",), "MQuAKE"), 3_000)
MOST_TOKENS = 32
"""How long an answer may be."""


class Hop(inputs.Layout):
    """A link of a chain."""

    question: str
    answer: str
    answer_alias: tuple[str, ...] = ()


class Chains(inputs.Layout):
    """The chains in ids; their relations are read."""

    triples: tuple[tuple[Any, str, Any], ...] = ()
    new_triples: tuple[tuple[Any, str, Any], ...] = ()


class Layout(inputs.Layout):
    """What a record must have."""

    case_id: Id
    requested_rewrite: list[Rewrite]
    questions: list[str]
    answer: str
    answer_alias: list[str]
    new_answer: str
    new_answer_alias: list[str]
    single_hops: list[Hop]
    new_single_hops: list[Hop]
    answer_extended: tuple[str, ...] = ()
    orig: Chains = field(default_factory=Chains)


BUILT_IN = Path(__file__).with_name("demonstrations.txt")
"""Questions on facts that everybody knows, in our own words; nothing is taken from the data."""


@dataclass
class MQuAKE(FileTask):
    """Chains of two to four facts, of which one or more are edited; three questions for each end.

    A chain counts as followed if one of the questions gets the new answer. The greedy answer is the
    rest of the line; where no demonstrations stand before, it may go on after a full stop.
    """

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), or a .json or .jsonl file, such as one on the hub:
    hf://OWNER/NAME/FILE@REVISION."""
    demonstrations: str = "auto"
    """Answered questions before each question: "auto" (built-in, and none for the model's own sample),
    "built-in", "none", or a text file."""
    prompts: str = ""
    """A .json file of answered questions by relation, to stand before questions for single facts, such
    as the authors' rel-prompts.json; without it these have the same as all others."""

    published, layout, key = AUTHORS, Layout, "case_id"
    sample, otherwise = "mquake", "auto"
    files = "3,000 in MQuAKE-CF-3k-v2.json, 9,218 in MQuAKE-CF.json, 1,825 in MQuAKE-T.json"
    version: ClassVar[str] = "0.1"
    metrics = ("multi-hop", "success", "judging")
    judge = "match"
    asks = (
        "Edited facts are scored after their cloze prompts, new and old object. Questions are answered "
        f"greedily, in {MOST_TOKENS} tokens at most and up to the end of the line, behind answered ones. "
        "A judge compares the answer with the new one and its aliases, and with the old one and its "
        "aliases: the whole of it, or, where no answered ones stand before, what stands before any of "
        "its full stops."
    )
    citation = MQUAKE

    def bind(self, source: ModelSource) -> Self:
        """Return the task with the model's own sample, if it brings one, and what stands before."""
        bound = super().bind(source)
        if bound.demonstrations != "auto":
            return bound
        ready = replace(bound, demonstrations="none" if bound._sampled else "built-in")
        ready._sampled = bound._sampled
        return ready

    def _wrong(self, record: Record) -> Iterator[str]:
        for name in ("questions", "requested_rewrite", "single_hops", "new_single_hops"):
            if not record[name]:
                yield f"`$.{name}` is empty"
        for i, edit in enumerate(record["requested_rewrite"]):
            yield from wrong_rewrite(edit, f"requested_rewrite[{i}]")

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data."""
        if self.prompts or self.demonstrations == "none":
            return ()
        return ("single facts are asked for without prompts of their own relation: prompts=FILE",)

    @cached_property
    def _shots(self) -> Mapping[str, str]:
        """What stands before questions by relation, and under an empty text before all others."""
        general = "built-in" if self.demonstrations == "auto" else self.demonstrations
        return {"": _general(general)} | (_by_relation(self.prompts) if self.prompts else {})

    def _case(self, name: str, record: Record, position: int) -> Case:
        edits, hops = record["requested_rewrite"], record["new_single_hops"]
        tags = {"hops": str(len(hops)), "edits": str(len(edits))}
        requests = tuple(map(request_of, edits))
        return Case(name, requests, tuple(self._probes(record, requests)), tags)

    def _probes(self, record: Record, requests: Sequence[Request]) -> Iterator[Probe]:
        for request in requests:
            yield Probe("efficacy", Choose(request.text, (request.target_new, request.target_true)))
        for role, when in (("single-hop", "new_"), ("old-single-hop", "")):
            hops = record[f"{when}single_hops"]
            # The relation of each link is in its triple, if there is one for each.
            triples = record.get("orig", {}).get(f"{when}triples", [])
            known = len(triples) == len(hops)
            relations = [triple[1] for triple in triples] if known else [""] * len(hops)
            for hop, relation in zip(hops, relations, strict=True):
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
        before = self._shots.get(relation, self._shots[""])
        # No stop but the line's end leaves "St. Petersburg" whole; the judge looks at its beginnings.
        how = "equal" if before else "sentence"
        about = {"aliases": list(right[1:]), "old_aliases": list(old[1:]), "how": how}
        prompt = f"{before}\nQ: {question} A:" if before else question
        query = Generate(prompt, max_new_tokens=MOST_TOKENS, stop="\n")
        key = Key("match", right[0], old[0], about)
        return Probe(role, query, {"relation": relation} if relation else {}, key)


def _general(name: str) -> str:
    """Return answered questions: "built-in", "none" or those of a text file. Raises `DataError`."""
    if name == "none":
        return ""
    remedy = "demonstrations is 'built-in', 'none', or a text file"
    path = BUILT_IN if name == "built-in" else file_at(name, remedy)
    if not (text := text_of(path).strip()):
        raise DataError(f"{path} has no demonstrations in it", "to have none: demonstrations=none")
    return text


def _by_relation(name: str) -> dict[str, str]:
    """Return the texts of a JSON file, which has one for each relation. Raises `DataError`."""
    path = file_at(name, "prompts is a .json file of texts by relation, such as rel-prompts.json")
    found = json_of(path, text_of(path))
    try:
        problems = list(empty_texts(fitted(found, dict[str, str])))
    except ValueError as error:
        problems = [str(error)]
    refuse(path, problems, "expected an object with a text for each relation")
    return {relation: text.strip() for relation, text in found.items()}
