"""Level 2, numbers: whether what a bundle claims follows from its rows, and its rows from the stated model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edit_harness.cases import Answer, Case
from edit_harness.durable import SEAL
from edit_harness.encoding import decode_answer
from edit_harness.errors import HarnessError
from edit_harness.interfaces import Task

from . import baselines
from .data import NO_BASELINE
from .evidence import Evidence
from .findings import Check, Remark, Unchecked, shown

CLOSE = 1e-9
"""How far a number may be from the one that is computed here, absolutely and relatively."""
ADDED = {SEAL, "samples"}
"""What results.json has besides the results: see check 0.6."""


def metrics(evidence: Evidence) -> Iterator[Remark]:
    """Check that the metrics are known here, and are all that the task has."""
    names = evidence.manifest.metrics
    if sorted(names) != evidence.identity.metrics or len(set(names)) < len(names):
        yield "manifest.json has other metrics than its identity"
        return
    known = {component.name for component in evidence.plugins.of_kind("metric")}
    if unknown := [name for name in names if name not in known]:
        yield Unchecked(f"metric {shown(unknown[0])} is not bundled: nothing it says is checked")
    task = evidence.identity.task.name
    if task not in {component.name for component in evidence.plugins.of_kind("task")}:
        yield Unchecked(f"task {shown(task)} is not bundled: which metrics it has is not known")
        return
    factory: type[Task] = evidence.plugins.find("task", task).load()
    if left_out := [name for name in factory.metrics if name not in names]:
        yield f"metrics of the task are left out: {', '.join(left_out)}; run it without --metrics"


def aggregates(evidence: Evidence) -> Iterator[Remark]:
    """Check that every number and interval is the one that follows from the rows, to 1e-9."""
    try:
        computed = evidence.run.results()
    except HarnessError as error:
        yield Unchecked(f"nothing can be computed: {error.cause}")
        return
    claimed = {k: v for k, v in evidence.results.items() if k not in ADDED and k[:2] != "x_"}
    if where := list(differing(claimed, computed)):
        more = f", and {len(where) - 1} others" if len(where) > 1 else ""
        yield f"results.json does not follow from the rows: {where[0]}{more}"


def differing(claimed: Any, computed: Any, at: str = "") -> Iterator[str]:
    """Yield where two JSON values differ; numbers may by `CLOSE`."""
    if isinstance(claimed, Mapping) and isinstance(computed, Mapping):
        for key in sorted({*claimed, *computed}):
            place = f"{at}.{shown(key)}" if at else shown(key)
            if key not in claimed or key not in computed:
                yield f"{place} is {'missing' if key in computed else 'none of the results'}"
            else:
                yield from differing(claimed[key], computed[key], place)
    elif isinstance(computed, list | tuple) and isinstance(claimed, list):
        if len(claimed) != len(computed):
            yield f"{at} has {len(claimed)} items, not {len(computed)}"
        for number, (one, two) in enumerate(zip(claimed, computed, strict=False)):
            yield from differing(one, two, f"{at}[{number}]")
    elif not _same(claimed, computed):
        yield f"{at} is {shown(claimed)}, not {shown(computed)}"


def _same(claimed: Any, computed: Any) -> bool:
    numbers = [type(value) in (int, float) for value in (claimed, computed)]
    if all(numbers):
        return math.isclose(claimed, computed, rel_tol=CLOSE, abs_tol=CLOSE)
    return type(claimed) is type(computed) and bool(claimed == computed)


def model(evidence: Evidence) -> Iterator[Remark]:
    """Check that configuration and tokenizer are those of the published model."""
    if evidence.baseline is None:
        yield Unchecked(NO_BASELINE)
        return
    for name in ("config", "tokenizer"):
        if getattr(evidence.identity.model, name) != evidence.baseline.header[name]:
            yield f"the model's {name} is not the one that its weights were published with"


def before(evidence: Evidence) -> Iterator[Remark]:
    """Check that what the unedited model answered is what it is known to answer, within the tolerance."""
    if evidence.baseline is None:
        yield Unchecked(NO_BASELINE)
        return
    found = baselines.agreement(evidence.baseline, answered(evidence))
    if not found.values:
        yield "no row says what the unedited model answered"
    elif not found.good:
        yield str(found)


def answered(evidence: Evidence) -> Iterator[tuple[Case, Sequence[Answer]]]:
    """Yield cases with what they were answered before the edits; None stands for what is not stored."""
    for record in evidence.records:
        if record.case in evidence.by_id:
            yield evidence.by_id[record.case], [decode_answer(a) for a in record.before]  # type: ignore[misc]


CHECKS = (
    Check("2.1", "metrics", metrics),
    Check("2.2", "aggregates", aggregates),
    Check("2.3", "model", model),
    Check("2.4", "before", before),
)
