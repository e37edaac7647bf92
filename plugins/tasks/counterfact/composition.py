"""The composition of CounterFact's records, counted as in Table 2 of Meng et al. (2022).

The table counts different texts: among all records, among those of a relation, in one record, the
last two as means. The authors' file should give its figures, such as 82,650 neighbourhood prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from edit_harness.data import join
from edit_harness_plugins.composition import Row

from .._files.records import Record

TITLE = "different texts, as the ROME paper counts them"


def _statement(record: Record) -> str:
    rewrite = record["requested_rewrite"]
    text = rewrite["prompt"].replace("{}", rewrite["subject"], 1)
    return join(text, rewrite["target_new"]["str"])


ITEMS: Mapping[str, Callable[[Record], Iterable[str]]] = {
    "records": lambda record: [str(record["case_id"])],
    # The paper's 20,391 subjects are counted without regard to case.
    "subjects": lambda record: [record["requested_rewrite"]["subject"].lower()],
    "objects (new)": lambda record: [record["requested_rewrite"]["target_new"]["str"]],
    "counterfactual statements": lambda record: [_statement(record)],
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
