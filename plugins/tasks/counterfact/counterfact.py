"""CounterFact (Meng et al., 2022) and CounterFact+ (Hoelscher-Obermaier et al., 2023).

A record of the authors' file is a case: a fact to rewrite, paraphrases that should follow it, and prompts on
neighbouring subjects that should not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import ClassVar, Self

from edit_harness import Case, Choose, Drift, ModelSource, Probe, Request
from edit_harness.registry.settings import Natural
from edit_harness_plugins import inputs
from edit_harness_plugins.citations import COUNTERFACT_PLUS, ROME
from edit_harness_plugins.composition import Row, of_cases

from .._files.published import HOSTS, Published, hosted, sampled_text
from .._files.records import Id, Record, Rewrite, request_of, wrong_rewrite
from .._files.wild import OF_BOTH, WildTask
from .easyedit import EASYEDIT, NEAR

AUTHORS = Published("CounterFact", hosted("counterfact.json", 45_108_470), records=21_919,
    sha256="d017056125178a13728594e66a801357a8db9ed7973a7425554bb4271de9fc6f")  # fmt: skip
MULTI = Published("multi_counterfact", hosted("multi_counterfact.json", hosts=HOSTS[1:]), 20_877)
TEXT_METRICS, WITHOUT_TEXTS = ("fluency", "consistency"), ("auto", "none")

TITLE = "different texts, as the ROME paper counts them"
"""The table counts as Table 2 of Meng et al.: the authors' file should give its figures."""


class Layout(inputs.Layout):
    """What a record in CounterFact's schema must have."""

    case_id: Id
    requested_rewrite: Rewrite
    paraphrase_prompts: list[str]
    neighborhood_prompts: list[str]
    attribute_prompts: tuple[str, ...] = ()
    generation_prompts: tuple[str, ...] = ()
    neighborhood_true: str = ""
    """The true object of the neighbours, if it is not that of the edited fact."""


@dataclass
class CounterFact(WildTask):
    """Counterfactual facts with paraphrases and neighbours; 21,919 records in the authors' file."""

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), "download", "multi_counterfact" (MEMIT's
    20,877 records without conflicting edits; of other data --edit-conflicts drop leaves those out),
    or a .json or .jsonl file (hf://OWNER/NAME/FILE@REVISION too) in the layout of CounterFact or of EasyEdit's
    counterfact-edit.json."""
    generation: Natural = 0
    """Sample texts for GE and RS of every so manyth record, from the first on: 1 for all, 10 as in
    MEMIT's large runs, 0 for none. The texts of a record, 100 tokens each with the prompt, cost
    about ten times what its other prompts do."""
    references: str = "auto"
    """What RS compares texts with: "auto" (what the model brings along, or else nothing), "authors"
    (to download, 1 GB), "none", or a .json file in the layout of attribute_snippets.json."""
    seed: int = 0
    """Seed of generated texts."""

    published, layout, others, key = AUTHORS, Layout, (EASYEDIT,), "case_id"
    further = {MULTI.title: MULTI}  # noqa: RUF012
    sample = "counterfact"
    asks: ClassVar[str] = (
        "Each prompt is followed by one space and the new or the true object, and both are scored "
        "under teacher forcing, before the edit and after it: the edited prompt (efficacy), 2 "
        "paraphrases, 10 prompts on neighbouring subjects and 10 on subjects that the new object is "
        "true of (attribute). On neighbours the next-token distributions are compared too. With "
        "generation=N, every Nth record's generation prompts are continued to 100 tokens in all, "
        f"drawn among the 5 likeliest, past the end-of-text token; GE and RS are of these texts. {OF_BOTH}"
    )
    version: ClassVar[str] = "0.1"
    metrics: ClassVar[Sequence[str]] = ("success", "magnitude", "accuracy", "nkl")
    citation = ROME

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.generation:
            self.metrics = (*self.metrics, *TEXT_METRICS)  # type: ignore[misc]

    def bind(self, source: ModelSource) -> Self:
        """Return the task with the model's own sample and references, or with the authors' file."""
        bound = super().bind(source)
        if bound._sampled and bound.references == "auto":
            bound.references = source.data.get("references", "none")
        return bound

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data; it may download them."""
        return (*super().notes, *self._remarks())

    def _remarks(self) -> Iterator[str]:
        if not self._downloads and any(NEAR in record for record, _ in self._entries):
            yield "EasyEdit's records have one rephrasing and one neighbour: not CounterFact's PS and NS"
        if self.generation and self.references in WITHOUT_TEXTS:
            yield "there are no reference texts, so no RS: --task-args references=authors"
        elif self.generation and self.references != "authors":
            name = Path(self.references).name
            yield f"RS is of the texts in {name}, not of the authors' references"

    def _wrong(self, record: Record) -> Iterator[str]:
        yield from wrong_rewrite(record["requested_rewrite"])
        for name in ("paraphrase_prompts", "neighborhood_prompts"):
            if not record[name]:
                yield f"`$.{name}` is empty"
        new, near = record["requested_rewrite"]["target_new"]["str"].strip(), record.get(NEAR, "")
        if near.strip() == new:
            yield f"the true object of the neighbours is the new one, {new!r}"

    def composition(self) -> Mapping[str, Sequence[Row]]:
        """Return the table of the data as the ROME paper prints it, and what is asked of it."""
        usable = [record for record, problem in self._entries if not problem]
        return {TITLE: table(usable), **of_cases(self.cases())}

    @cached_property
    def _library(self) -> str:
        if not self.generation or self.references in WITHOUT_TEXTS:
            return ""
        from . import snippets  # here, since it brings numpy and scipy along

        return snippets.library(self.references)

    def _case(self, name: str, record: Record, position: int) -> Case:
        """Return the case, with probes for texts and what these should be like if some are told."""
        rewrite = record["requested_rewrite"]
        told = self.generation and not position % self.generation
        request = request_of(rewrite)
        relation, target = rewrite.get("relation_id"), rewrite["target_new"].get("id")
        probes = [*self._probes(record, request)]
        tags = {"relation": relation} if relation else {}
        for i, prompt in enumerate(record.get("generation_prompts", ()) if told else ()):
            probes.append(Probe("generation", sampled_text(prompt, f"{self.seed}/{name}/{i}")))
        if told and self._library and relation and target:
            tags |= {"library": self._library, "topic": f"{relation}/{target}"}
        return Case(name, (request,), tuple(probes), tags)

    def _probes(self, record: Record, request: Request) -> Iterator[Probe]:
        yield from _choices("efficacy", [request.text], request)
        yield from _choices("paraphrase", record["paraphrase_prompts"], request)
        yield from _near("neighborhood", record["neighborhood_prompts"], record, request)
        yield from _choices("attribute", record.get("attribute_prompts", ()), request)


@dataclass
class CounterFactPlus(CounterFact):
    """CounterFact, and every neighbourhood prompt once more behind the edited fact.

    The prefix is the rewrite prompt with the new object, a full stop and one space (section 3 of
    the paper); the model before the edit is asked the same.
    """

    asks = (
        f"{CounterFact.asks} CounterFact+ asks each neighbourhood prompt once more behind the "
        "edited prompt, the new object, a full stop and one space (neighborhood-plus), before the "
        "edit too."
    )
    citation = COUNTERFACT_PLUS

    def _probes(self, record: Record, request: Request) -> Iterator[Probe]:
        yield from super()._probes(record, request)
        told = f"{request.statement}. "
        prompts = [told + prompt.strip() for prompt in record["neighborhood_prompts"]]
        yield from _near("neighborhood-plus", prompts, record, request)


def _choices(role: str, prompts: Iterable[str], request: Request) -> Iterator[Probe]:
    candidates = (request.target_new, request.target_true)
    return (Probe(role, Choose(prompt, candidates)) for prompt in prompts)


def _near(role: str, prompts: Sequence[str], record: Record, request: Request) -> Iterator[Probe]:
    own = replace(request, target_true=record.get(NEAR) or request.target_true)
    yield from _choices(role, prompts, own)
    yield from (Probe(role, Drift(prompt)) for prompt in prompts)


ITEMS: Mapping[str, Callable[[Record], Iterable[str]]] = {
    "records": lambda record: [str(record["case_id"])],
    # The paper's 20,391 subjects are counted without regard to case.
    "subjects": lambda record: [record["requested_rewrite"]["subject"].lower()],
    "objects (new)": lambda record: [record["requested_rewrite"]["target_new"]["str"]],
    "counterfactual statements": lambda record: [request_of(record["requested_rewrite"]).statement],
    "paraphrase prompts": lambda record: record["paraphrase_prompts"],
    "neighborhood prompts": lambda record: record["neighborhood_prompts"],
    "generation prompts": lambda record: record.get("generation_prompts", ()),
}


def table(records: Sequence[Record]) -> list[Row]:
    """Return a row for each kind of text; None per relation where no record names its own."""
    relations: dict[str, list[Record]] = {}
    for record in records:
        if relation := record["requested_rewrite"].get("relation_id"):
            relations.setdefault(relation, []).append(record)
    return [
        {
            "": item,
            "total": _different(records, texts),
            "per relation": _mean(_different(own, texts) for own in relations.values()),
            "per record": _mean(_different([record], texts) for record in records),
        }
        for item, texts in ITEMS.items()
    ]


def _different(records: Iterable[Record], texts: Callable[[Record], Iterable[str]]) -> int:
    return len({text for record in records for text in texts(record)})


def _mean(counts: Iterable[int]) -> float | None:
    found = list(counts)
    return fmean(found) if found else None
