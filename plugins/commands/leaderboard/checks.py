"""The checks of a bundle that need no model, by number, which begins with the level.

A check is a generator of remarks: a text is a reason to reject the bundle, an `Unchecked` is not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from edit_harness.data import Case, Choose, Drift, Generate, Graded, Query, Text, Visit
from edit_harness.errors import HarnessError, RunFolderError
from edit_harness.files import SEAL
from edit_harness.folder.encoding import unchanged
from edit_harness.folder.record import INVALID, OK, STATUSES, Record
from edit_harness.interfaces import Task
from edit_harness.run import controls
from edit_harness.run.estimates import values as values_of
from edit_harness_plugins import reading

from . import baseline, bundle
from .bundle import NAMES, SUMS, CannotCheck, Finding, Rejected, Unchecked, shown
from .evidence import Evidence

Check = Callable[[Evidence], Iterator[str]]
CLOSE = 1e-9
"""How far a number may be from the one that is computed here, absolutely and relatively."""
ROUNDING = 1e-6
"""How far a log-probability may be above 0, or a divergence below, in nats."""
ASKED = (OK, "nonfinite")
"""Statuses of cases that were asked."""


class ScoresForm(Struct, forbid_unknown_fields=True):
    """What a row has of scores; None is a number that is not finite."""

    tokens: list[list[Annotated[int, Meta(ge=0)]]]
    logprobs: list[list[Annotated[float, Meta(le=ROUNDING)] | None]]
    argmax: list[list[Annotated[int, Meta(ge=0)]]]

    def fit(self, query: Query) -> bool:
        """Tell whether each candidate has tokens, and each of these all that belongs to it."""
        sizes = [list(map(len, part)) for part in (self.tokens, self.logprobs, self.argmax)]
        asked = isinstance(query, Choose) and len(query.candidates) == len(self.tokens)
        return asked and sizes[0] == sizes[1] == sizes[2] and 0 not in sizes[0]


Number = Annotated[float, Meta(ge=-ROUNDING)] | None
FORMS: Mapping[type[Query], Any] = {
    Choose: ScoresForm, Drift: tuple[Number, Number, int], Generate: Text,
}  # fmt: skip
"""What a row has of the answer to a query; nothing of a distribution."""


def found(evidence: Evidence, level: int) -> Iterator[Finding]:
    """Make the checks up to a level, and yield what each comes to.

    The first failure ends level 0, as nothing can be read then; of others all checks are made.
    """
    failed = ""
    for number, check in CHECKS.items():
        if int(number[0]) > level or (failed and (failed[0] == "0" or failed[0] != number[0])):
            return
        remarks: list[str] = []
        try:
            remarks.extend(check(evidence))
        except Rejected as error:
            remarks.append(str(error))
        except RunFolderError as error:
            remarks.append(shown(error.cause.replace(f"{evidence.folder}/", "")))
        except CannotCheck as error:
            remarks.append(Unchecked(str(error)))
        except HarnessError as error:  # a plugin here cannot make sense of it, and that is no proof
            remarks.append(Unchecked(f"cannot be made: {shown(error.cause)}"))
        except MemoryError:
            raise
        except Exception as error:  # a bundle may hold anything where numbers or texts should be
            remarks.append(f"cannot be read: {type(error).__name__}: {shown(str(error))}")
        made = bundle.findings(number, check.__name__, remarks)
        yield from made
        if any(finding.outcome == "failed" for finding in made):
            failed = failed or number


def container(evidence: Evidence) -> Iterator[str]:
    """Check that it is a .zip of the files that a bundle has, within the limits of size."""
    evidence.digests.update(bundle.unpack(evidence.bundle, evidence.folder, evidence.limits))
    if missing := sorted(NAMES - evidence.digests.keys()):
        yield f"there is no {', no '.join(missing)}"


def checksums(evidence: Evidence) -> Iterator[str]:
    """Check that SHA256SUMS covers every file, and every file is as it says."""
    covered = {name: digest for name, digest in evidence.digests.items() if name != SUMS}
    if (evidence.folder / SUMS).read_bytes() != bundle.listed(covered):
        yield f"{SUMS} does not say what the files are"


def documents(evidence: Evidence) -> Iterator[str]:
    """Check that documents are strict JSON, with the fields that they have to have, and their digests."""
    for name in ("manifest.json", "results.json", "submission.json"):
        evidence.document(name)
    manifest = evidence.manifest
    if evidence.submission.fingerprint != manifest.fingerprint:
        yield "submission.json is of another run: fingerprint"
    if manifest.shard:
        yield "manifest.json is of a shard of a run: merge makes the whole of it"
    evidence.files.results()
    _ = evidence.cases


def log(evidence: Evidence) -> Iterator[str]:
    """Check that rows are whole, of this run and without gaps, and that only what failed was tried again."""
    last: dict[Visit, tuple[int, Record]] = {}
    for number, record in evidence.standing.items():
        if record.visit in last:
            first, earlier = last[record.visit]
            retried = record.attempt == earlier.attempt + 1 and earlier.status != OK
            judged = record.attempt == earlier.attempt and record.same_answers(earlier)
            if not (retried or judged):
                yield f"rows {first} and {number} are no two tries of case {shown(record.case)!r}"
        last[record.visit] = number, record


def task(evidence: Evidence) -> Iterator[str]:
    """Check that the task, its version and its data are published, and this is no preview of a run."""
    if evidence.manifest.preview:
        yield "the run is a preview, in less precision than that of record"
    _ = evidence.baseline


def cases(evidence: Evidence) -> Iterator[str]:
    """Check that the cases are those that are published, in their order, with their content, and all of them."""
    ids = [case.id for case in evidence.cases]
    if ids != evidence.manifest.cases:
        yield "cases.jsonl has not the cases of manifest.json"
    if len(set(ids)) < len(ids):
        yield f"case {shown(Counter(ids).most_common(1)[0][0])!r} is there twice"
    own = {case.id: baseline.line(case, ()).hash for case in evidence.cases}
    published = {name: line.hash for name, line in evidence.baseline.lines.items()}
    if odd := [name for name in published | own if own.get(name) != published.get(name)]:
        yield f"{len(odd)} cases are missing, or not as published, such as {shown(odd[0])!r}"
    elif list(own) != list(published):
        yield "the cases stand in another order than published"


def coverage(evidence: Evidence) -> Iterator[str]:
    """Check that every visit that the plan has is there, of cases and controls, and no other."""
    planned = {*evidence.visits, *evidence.controls}
    made = {record.visit for record in evidence.everything}
    if missing := sorted(planned - made):
        yield f"{len(missing)} of {len(planned)} visits have no row that counts, such as {shown(missing[0])}"
    if more := sorted(made - planned):
        yield f"{len(more)} rows are of no visit of the plan, such as {shown(more[0])}"
    if evidence.manifest.visits != len(planned):
        yield f"manifest.json speaks of {shown(evidence.manifest.visits)} visits, not {len(planned)}"


def statuses(evidence: Evidence) -> Iterator[str]:
    """Check that statuses are known ones, a case that failed is told as failed, and none is left out as invalid."""
    for record in evidence.everything:
        case, name = evidence.case(record), shown(record.case)
        if record.status not in STATUSES:
            yield f"there is no status {shown(record.status)!r} (case {name!r})"
        elif (
            case
            and bool(case.problem) != (record.status == INVALID)
            # A judge may find a key of no use: a replay runs all these again.
            and (case.problem or not any(probe.key for probe in case.probes))
        ):
            yield f"case {name!r} has the status {record.status}, and is not so"


def metrics(evidence: Evidence) -> Iterator[str]:
    """Check that the metrics are all that the task has."""
    names = evidence.manifest.metrics
    if sorted(names) != evidence.identity.metrics or len(set(names)) < len(names):
        yield "manifest.json has other metrics than its identity"
        return
    name = evidence.identity.task.name.partition("[")[0]
    factory: type[Task] = evidence.plugins.find("task", name).load()
    if left_out := [name for name in factory.metrics if name not in names]:
        yield f"metrics of the task are left out: {', '.join(left_out)}; run it without --metrics"


def aggregates(evidence: Evidence) -> Iterator[str]:
    """Check that every number and interval is the one that follows from the rows, to 1e-9."""
    # What results.json has besides them is the affair of check 0.4.
    results = evidence.document("results.json").items()
    claimed = {name: value for name, value in results if name not in (SEAL, "samples")}
    if where := list(differing(claimed, evidence.run.results())):
        more = f", and {len(where) - 1} others" if len(where) > 1 else ""
        yield f"results.json does not follow from the rows: {where[0]}{more}"


def differing(claimed: Any, computed: Any) -> Iterator[str]:
    """Yield where two JSON values differ; numbers may by `CLOSE`."""
    one, two = _leaves(claimed), _leaves(computed)
    for place in sorted({*one, *two}):
        if place not in one or place not in two:
            yield f"{shown(place)} is {'missing' if place in two else 'none of the results'}"
            continue
        said, found = one[place], two[place]
        if type(said) in (int, float) and type(found) in (int, float):
            same = math.isclose(said, found, rel_tol=CLOSE, abs_tol=CLOSE)
        else:
            same = type(said) is type(found) and said == found
        if not same:
            yield f"{shown(place)} is {shown(said)}, not {shown(found)}"


def _leaves(value: Any, at: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping | list | tuple):
        return {at: value}
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    found: dict[str, Any] = {}
    for name, each in items:
        found |= _leaves(each, f"{at}.{name}" if at else str(name))
    return found


def before(evidence: Evidence) -> Iterator[str]:
    """Check that the unedited model is the published one, by its digests and by what it answered."""
    for name in ("config", "tokenizer"):
        if getattr(evidence.identity.model, name) != getattr(evidence.baseline.header, name):
            yield f"the model's {name} is not the one that its weights were published with"
    known = [record for record in evidence.records if record.case in evidence.by_id]
    answered = ((evidence.by_id[each.case], reading.answers(each)[0]) for each in known)
    if why := baseline.disagreement(evidence.baseline, answered):
        yield why
    elif not any(record.before for record in known):
        yield "no row says what the unedited model answered"


def shapes(evidence: Evidence) -> Iterator[str]:
    """Check that each answer is of the kind that its probe asks for, with possible numbers for each token."""
    for record in evidence.everything:
        if (case := evidence.case(record)) and (why := _misshapen(record, case)):
            yield _at(record, why)
            return


def _misshapen(record: Record, case: Case) -> str:
    for side, answers in (("before", record.before), ("after", record.after)):
        if len(answers) != len(case.probes) and (answers or record.status in ASKED):
            return f"{len(answers)} answers {side} to {len(case.probes)} probes"
        for probe, answer in zip(case.probes, answers, strict=False):
            if controls.is_control(record.case) and isinstance(answer, dict) and "marks" in answer:
                continue  # of a control with code of its own: what is no number fails 2.2
            try:
                found = convert(answer, FORMS.get(type(probe.query)))
            except ValidationError as error:
                return f"{side}, {shown(probe.role)}: {shown(str(error))}"
            if isinstance(found, ScoresForm) and not found.fit(probe.query):
                return f"{side}, {shown(probe.role)}: no number for each token of each candidate"
    return ""


def values(evidence: Evidence) -> Iterator[str]:
    """Check that the values of each row are what the metrics make of its answers."""
    for record, case in _asked(evidence):
        computed = values_of(case, reading.answers(record), evidence.metrics, record.status)
        if where := next(differing(record.values, computed), ""):
            yield _at(record, f"its values do not follow from its answers: {where}")
            return


def flags(evidence: Evidence) -> Iterator[str]:
    """Check that a row's status and its no-op flag agree with its answers."""
    for record, _ in _asked(evidence):
        known, finite = all(map(_finite, record.before)), all(map(_finite, record.after))
        before, after = reading.answers(record)
        comparable = known and finite and not any(isinstance(each, Graded) for each in after)
        noop = record.status == OK and comparable and unchanged(before, after)
        if not known:
            yield _at(record, "the unedited model answered with NaN")
        elif record.status in ASKED and finite != (record.status == OK):
            yield _at(record, f"its status is {record.status}, and its answers say otherwise")
        elif record.noop != noop:
            yield _at(record, f"noop is {str(record.noop).lower()}, and the answers say otherwise")
        else:
            continue
        return


def _finite(answer: Any) -> bool:
    """Tell whether a stored answer is finite: NaN is None in JSON, as a verdict's missing score is."""
    if answer is None or (isinstance(answer, dict) and "text" in answer):
        return True
    return None not in _leaves(answer).values()


def _asked(evidence: Evidence) -> Iterator[tuple[Record, Case]]:
    for record in evidence.everything:
        if record.status != INVALID and (case := evidence.case(record)):
            yield record, case


def _at(record: Record, why: str) -> str:
    where = "a control" if controls.is_control(record.case) else f"case {shown(record.case)!r}"
    return f"{where}: {why}"


CHECKS: Mapping[str, Check] = {
    "0.1": container, "0.3": checksums, "0.4": documents,
    "1.2": log, "1.3": task, "1.4": cases, "1.5": coverage, "1.6": statuses,
    "2.1": metrics, "2.2": aggregates, "2.4": before,
    "3.1": shapes, "3.4": values, "3.5": flags,
}  # fmt: skip
