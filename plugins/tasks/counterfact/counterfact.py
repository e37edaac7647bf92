"""CounterFact (Meng et al., 2022) and CounterFact+ (Hoelscher-Obermaier et al., 2023).

A record of the authors' file is a case: a fact to rewrite, paraphrases that should follow it, and prompts on
neighbouring subjects that should not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import ClassVar, Self

from edit_harness import Case, Choose, Drift, ModelSource, Probe, Request
from edit_harness.registry.settings import Natural
from edit_harness_plugins import inputs
from edit_harness_plugins.citations import COUNTERFACT_PLUS, ROME
from edit_harness_plugins.composition import Row, of_cases

from .._files import records as reading
from .._files.published import FileTask, Published, hosted, sampled_text, unusable
from .._files.records import Entry, Id, Record, Rewrite, request_of, wrong_rewrite

AUTHORS = Published(
    "CounterFact",
    hosted("counterfact.json"),
    records=21_919,
    sha256="d017056125178a13728594e66a801357a8db9ed7973a7425554bb4271de9fc6f",
    size=45_108_470,
)
TEXT_METRICS = ("fluency", "consistency")

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


@dataclass
class CounterFact(FileTask):
    """Counterfactual facts with paraphrases and neighbours; 21,919 records in the authors' file."""

    generation: Natural = 0
    """Sample texts for GE and RS of every so manyth record, from the first on: 1 for all, 10 as in
    MEMIT's large runs, 0 for none. The texts of a record, 100 tokens each with the prompt, cost
    about ten times what its other prompts do."""
    references: str = "auto"
    """What RS compares texts with: "auto" (what the model brings along, or else nothing), "authors"
    (to download, 1 GB), "none", or a .json file in the layout of attribute_snippets.json."""
    seed: int = 0
    """Seed of generated texts."""
    """Of the sampled texts."""

    published = AUTHORS
    sample = "counterfact"
    protocol: ClassVar[str] = (
        "Each prompt is followed by one space and the new or the true object, and both are scored "
        "under teacher forcing, before the edit and after it: the edited prompt (efficacy), 2 "
        "paraphrases, 10 prompts on neighbouring subjects and 10 on subjects that the new object is "
        "true of (attribute). On neighbours the next-token distributions are compared too. With "
        "generation=N, every Nth record's generation prompts are continued to 100 tokens in all, "
        "drawn among the 5 likeliest, past the end-of-text token; GE and RS are of these texts."
    )
    version: ClassVar[str] = "0.1"
    metrics: ClassVar[Sequence[str]] = ("success", "magnitude", "accuracy", "nkl")
    citation = ROME

    def __post_init__(self) -> None:
        if self.generation:
            # Of the class, `metrics` names those that every run has.
            self.metrics = (*type(self).metrics, *TEXT_METRICS)  # type: ignore[misc]

    def bind(self, source: ModelSource) -> Self:
        """Return the task with the model's own sample and references, or with the authors' file."""
        bound = super().bind(source)
        if bound._sampled and bound.references == "auto":
            bound.references = source.data.get("references", "none")
        return bound

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data; it may download them."""
        known = super().notes
        if not self.generation or self.references == "authors":
            return known
        if not self._refers:
            return (
                *known,
                "there are no reference texts, so no RS: --task-args references=authors",
            )
        name = Path(self.references).name
        return (*known, f"RS is of the texts in {name}, not of the authors' references")

    def records(self, path: Path) -> list[Entry]:
        """Return the records of a file, checked."""
        return reading.read(path, Layout, _wrong, key="case_id")

    def made_of(self, entries: Sequence[Entry]) -> Iterable[Case]:
        """Yield a case for every record."""
        library = ""
        if self.generation and self._refers:
            from . import snippets  # here, since it brings numpy and scipy along

            library = snippets.library(self.references)
        for i, (record, problem) in enumerate(entries):
            if problem:
                yield unusable(str(record["case_id"]), problem)
                continue
            told = self.generation and i % self.generation == 0
            yield self._case(record, library, told=bool(told))

    def composition(self) -> Mapping[str, Sequence[Row]]:
        """Return the table of the data as the ROME paper prints it, and what is asked of it."""
        entries = self.records(self._file())
        usable = [record for record, problem in entries if not problem]
        return {TITLE: table(usable), **of_cases(self.cases())}

    @property
    def _refers(self) -> bool:
        return self.references not in ("auto", "none")

    def _case(self, record: Record, library: str, *, told: bool) -> Case:
        """Return the case, with probes for texts and what these should be like if some are told."""
        name, rewrite = str(record["case_id"]), record["requested_rewrite"]
        request = request_of(rewrite)
        relation, target = rewrite.get("relation_id"), rewrite["target_new"].get("id")
        probes = [*self._probes(record, request)]
        tags = {"relation": relation} if relation else {}
        for i, prompt in enumerate(record.get("generation_prompts", ()) if told else ()):
            probes.append(Probe("generation", sampled_text(prompt, f"{self.seed}/{name}/{i}")))
        if told and library and relation and target:
            tags |= {"library": library, "topic": f"{relation}/{target}"}
        return Case(name, (request,), tuple(probes), tags)

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

    protocol = (
        f"{CounterFact.protocol} CounterFact+ asks each neighbourhood prompt once more behind the "
        "edited prompt, the new object, a full stop and one space (neighborhood-plus), before the "
        "edit too."
    )
    citation = COUNTERFACT_PLUS

    def _probes(self, record: Record, request: Request) -> Iterator[Probe]:
        yield from super()._probes(record, request)
        told = f"{request.statement}. "
        prompts = [told + prompt.strip() for prompt in record["neighborhood_prompts"]]
        yield from _choices("neighborhood-plus", prompts, request)
        yield from _drifts("neighborhood-plus", prompts)


def _choices(role: str, prompts: Iterable[str], request: Request) -> Iterator[Probe]:
    candidates = (request.target_new, request.target_true)
    return (Probe(role, Choose(prompt, candidates)) for prompt in prompts)


def _drifts(role: str, prompts: Iterable[str]) -> Iterator[Probe]:
    return (Probe(role, Drift(prompt)) for prompt in prompts)


def _wrong(record: Record) -> Iterator[str]:
    yield from wrong_rewrite(record["requested_rewrite"])
    for name in ("paraphrase_prompts", "neighborhood_prompts"):
        if not record[name]:
            yield f"`$.{name}` is empty"


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
