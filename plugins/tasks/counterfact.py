"""CounterFact (Meng et al., 2022) and CounterFact+ (Hoelscher-Obermaier et al., 2023).

One record of the authors' file is one case: a fact to rewrite, paraphrases that should follow it,
and prompts on neighbouring subjects that should not. CounterFact+ also puts the edited fact in
front of the neighbourhood prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edit_harness import Case, Choose, Drift, Probe, Request
from edit_harness_plugins.tasks import counterfact_records
from edit_harness_plugins.tasks.published import FileTask, Published, hosted
from edit_harness_plugins.tasks.records import Record

AUTHORS = Published(
    "CounterFact",
    hosted("counterfact.json"),
    records=21_919,
    sha256="d017056125178a13728594e66a801357a8db9ed7973a7425554bb4271de9fc6f",
    size=45_108_470,
)


@dataclass
class CounterFact(FileTask):
    """Counterfactual facts with paraphrases and neighbours; 21,919 records in the authors' file."""

    published = AUTHORS
    sample = "counterfact"
    version: ClassVar[str] = "0.1"
    metrics = ("success", "magnitude", "accuracy", "nkl")
    citation = (
        "Meng, Bau, Andonian, Belinkov: Locating and Editing Factual Associations in GPT. "
        "NeurIPS 2022"
    )

    def records(self, path: Path) -> list[Record]:
        """Return the records of a file, checked."""
        return counterfact_records.read(path)

    def made_of(self, records: Sequence[Record]) -> Iterable[Case]:
        """Yield a case for every record."""
        return map(self._case, records)

    def _case(self, record: Record) -> Case:
        rewrite = record["requested_rewrite"]
        request = Request(
            rewrite["prompt"],
            rewrite["subject"],
            rewrite["target_new"]["str"],
            rewrite["target_true"]["str"],
        )
        relation = rewrite.get("relation_id")
        return Case(
            id=str(record["case_id"]),
            requests=(request,),
            probes=tuple(self._probes(record, request)),
            tags={"relation": relation} if relation else {},
        )

    def _probes(self, record: Record, request: Request) -> Iterator[Probe]:
        neighbors = record["neighborhood_prompts"]
        yield from _choices("efficacy", [request.text], request)
        yield from _choices("paraphrase", record["paraphrase_prompts"], request)
        yield from _choices("neighborhood", neighbors, request)
        yield from _drifts("neighborhood", neighbors)
        yield from _choices("attribute", record.get("attribute_prompts", ()), request)


@dataclass
class CounterFactPlus(CounterFact):
    """CounterFact, and every neighbourhood prompt once more behind the edited fact.

    The prefix is the rewrite prompt with the new object, a full stop and one space (section 3 of
    the paper); the model before the edit is asked the same.
    """

    citation = (
        "Hoelscher-Obermaier, Persson, Kran, Konstas, Barez: Detecting Edit Failures in Large "
        "Language Models: An Improved Specificity Benchmark. Findings of ACL 2023"
    )

    def _probes(self, record: Record, request: Request) -> Iterator[Probe]:
        yield from super()._probes(record, request)
        prompts = [f"{request.statement}. {prompt}" for prompt in record["neighborhood_prompts"]]
        yield from _choices("neighborhood-plus", prompts, request)
        yield from _drifts("neighborhood-plus", prompts)


def _choices(role: str, prompts: Iterable[str], request: Request) -> Iterator[Probe]:
    """Yield a probe between the new and the true object for each prompt."""
    candidates = (request.target_new, request.target_true)
    return (Probe(role, Choose(prompt, candidates)) for prompt in prompts)


def _drifts(role: str, prompts: Iterable[str]) -> Iterator[Probe]:
    return (Probe(role, Drift(prompt)) for prompt in prompts)
