"""The numbers of a run, from its folder alone: estimates, retention, tables.

This needs neither model nor task, since the folder has the cases. `edit_harness.run.estimates` makes the
estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from ..data import Case
from ..errors import RunFolderError
from ..files import finite
from ..folder.folder import RunFolder
from ..folder.manifest import Manifest
from ..folder.record import OK, Record
from ..folder.table import Chosen, RunTable
from ..interfaces import Measure, Metric, Regime
from ..registry.registry import Plugins
from ..stats import Estimate
from . import controls, plan, report
from .estimates import Estimator, measures_of, summing, usable

if TYPE_CHECKING:
    import pandas


@dataclass(eq=False, repr=False)
class Results:
    """A run in a folder, or as much of it as there is."""

    folder: RunFolder
    metrics: Mapping[str, Metric]
    manifest: Manifest
    everything: Sequence[Record]
    """The records of all states of the model, with those of controls."""
    estimated_by: type[Estimator] = Estimator
    """Makes the estimates, and their intervals."""
    plugins: Plugins | None = None
    """Whose hooks add to the results; None for those that are installed."""

    @classmethod
    def read(cls, folder: RunFolder, metrics: Mapping[str, Metric]) -> Results:
        """Return the run in a folder, as last planned. Raises `RunFolderError`."""
        manifest = folder.planned()
        planned = [*manifest.cases, controls.ID, *manifest.identity.asked]
        run = cls(folder, metrics, manifest, folder.records(whole=True).planned(planned))
        if list(run.by_id) != manifest.cases:
            raise RunFolderError(
                f"cases.jsonl of {folder.path} has not the cases that are planned",
                "the command that made the run writes it again",
            )
        return run

    def of(self, cases: Sequence[str], everything: Sequence[Record], visits: int) -> Results:
        """Return the run as if these cases of its folder were all."""
        manifest = structs.replace(self.manifest, cases=list(cases), visits=visits)
        return replace(self, manifest=manifest, everything=everything)

    @cached_property
    def cases(self) -> Sequence[Case]:
        """The planned cases, in their order, each read when it is used."""
        return Chosen(self.by_id, self.planned)

    @cached_property
    def by_id(self) -> Mapping[str, Case]:
        """The folder's cases by their ids, planned or not."""
        return self.folder.cases(self.manifest.cases)

    @property
    def regime(self) -> Regime:
        """How edits shared the model."""
        return self.manifest.identity.regime

    @property
    def _table(self) -> RunTable:
        return RunTable.of(self.everything)

    @property
    def pending(self) -> int:
        """How many texts wait for a judge."""
        return self._table.verdicts["pending"]

    @property
    def verdicts(self) -> Iterator[dict[str, Any]]:
        """The verdicts on texts, as rows have them."""
        rows = self._table.judged
        answers = (a for r in rows for a in (*r.before, *r.after) if isinstance(a, dict))
        return (a["verdict"] for a in answers if a.get("verdict"))

    @cached_property
    def served(self) -> list[str]:
        """The models that judged, in their servers' words."""
        return sorted({v["served"] for v in self.verdicts if v.get("served")})

    @cached_property
    def records(self) -> RunTable:
        """The last record of each case, in the order of the plan."""
        return self._each(self._table, last=True)

    @cached_property
    def immediate_records(self) -> RunTable:
        """The first record of each case: that right after its own edit, if it was measured then."""
        return self._each(self._table, last=False)

    def _each(self, rows: RunTable, *, last: bool) -> RunTable:
        """Return each case's row of its last state, or of its first, in the order of the plan."""
        places = rows.places({name: place for place, name in enumerate(self.planned)})
        order = np.lexsort((rows.states, places))
        order = order[places[order] >= 0]
        new = np.diff(places[order], prepend=-1, append=-1) != 0
        return rows.taken(order[new[1:] if last else new[:-1]])

    @property
    def planned(self) -> list[str]:
        """The ids of the planned cases."""
        return list(self.manifest.cases)

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Every summary with its interval, by its stored name such as ``post_NS+``."""
        return self.estimator.estimates(self.records)

    @cached_property
    def estimator(self) -> Estimator:
        """How its estimates are made."""
        return self.estimated_by(self.metrics, self.by_id, self.regime.mode == "batch")

    @cached_property
    def immediate(self) -> dict[str, Estimate]:
        """The same right after each edit of a sequence; empty if that was not measured."""
        return self.estimator.estimates(self.immediate_records) if self.regime.immediate else {}

    @cached_property
    def retention(self) -> dict[str, Estimate]:
        """What later edits changed: final less immediate, with the interval of the difference."""
        if not self.regime.immediate:
            return {}
        return self.estimator.changes(self.immediate_records, self.records)

    @cached_property
    def curve(self) -> list[report.Point]:
        """The estimates over the cases that each checkpoint of a sequence draws, and at its end."""
        if self.regime.mode != "sequential":
            return []
        names = [case.id for case in self.cases if not case.problem]
        states = plan.checkpoints(len(names), self.regime)
        points = []
        for state in states[:-1]:
            drawn = dict.fromkeys(plan.drawn(names, state, self.regime), 0)
            there = self._table.taken(self._table.states == state)
            rows = self._each(there.taken(there.places(drawn) == 0), last=True)
            points.append(report.Point(state, self.estimator.estimates(rows)))
        return points + [report.Point(end, self.estimates) for end in states[-1:]]

    @cached_property
    def tables(self) -> dict[str, Mapping[str, Sequence[Mapping[str, Any]]]]:
        """The metrics' further tables by title, by metric."""
        rows = usable(self.records)
        cases, found = Chosen(self.by_id, rows.cases), {}
        for name, metric in self.metrics.items():
            with summing(name, metric, "make its tables"):
                found[name] = metric.tables(cases, rows.columns(name))
        return {name: tables for name, tables in found.items() if tables}

    @property
    def covers(self) -> str:
        """What intervals are over, where that is not independent edits; else empty."""
        if self.regime.mode == "single":
            return ""
        batched = self.regime.mode == "batch"
        batches = self.estimator.batches(self.records, self.estimates) if batched else []
        if batches and batches[-1] > 1:
            alone = "; over cases, where one batch alone has values" if batches[0] == 1 else ""
            counts = " or ".join(str(count) for count in batches if count > 1)
            return f"intervals are over {counts} batches, since a batch is one edit{alone}"
        what = "batch" if batched else "sequence"
        return f"intervals are over the cases of one {what}: they say nothing of other ones"

    def __getitem__(self, name: str) -> Estimate:
        """Return the estimate of a measure after the edit, ``run["NS+"]``, or before it, ``run["pre_NS+"]``.

        Raises `KeyError` that lists the measures.
        """
        for known in (f"post_{name}", name):
            if known in self.estimates:
                return self.estimates[known]
        there = ", ".join(each.removeprefix("post_") for each in self.estimates)
        raise KeyError(f"the run has no measure {name!r}; it has {there or 'none'}")

    def __contains__(self, name: str) -> bool:
        """Tell whether ``run[name]`` has an estimate."""
        return not self.estimates.keys().isdisjoint((f"post_{name}", name))

    @property
    def label(self) -> str:
        """The editor's name as tables show it."""
        return self.manifest.label

    @property
    def failures(self) -> RunTable:
        """The cases without a valid answer."""
        return self.records.without(OK)

    @property
    def missing(self) -> int:
        """How many records an interrupted run lacks."""
        return self.manifest.visits - self._table.visits

    @property
    def measures(self) -> dict[str, Measure]:
        """The measures of all metrics, in their order."""
        return measures_of(self.metrics)

    @property
    def floor(self) -> float:
        """The effect of rounding alone, in nats."""
        return self.manifest.preview.floor if self.manifest.preview else 0.0

    @property
    def lines(self) -> list[report.MeasureRow]:
        """The lines of the table, with details."""
        told = self.estimates, self.immediate, self.retention
        return list(report.lines(self.measures, *told, self.floor))

    def shown(self, verbose: bool = False) -> list[report.MeasureRow]:
        """Return the lines of the table, details left out unless asked for."""
        return [line for line in self.lines if verbose or not line.measure.detail] or self.lines

    def table(self, verbose: bool = False) -> str:
        """Return the table as plain text."""
        return report.table(self.shown(verbose))

    def to_frame(self, *, cases: bool = False) -> pandas.DataFrame:
        """Return the estimates, or the values of each of the ``cases``, as a frame of pandas.

        Numbers are fractions where tables have percent. Raises `ModuleNotFoundError` without pandas.
        """
        import pandas

        if cases:
            rows = self.records
            columns: dict[str, Any] = {"case": rows.cases, "status": rows.statuses}
            for metric in self.metrics:
                columns |= rows.columns(metric)
            return pandas.DataFrame(columns).set_index("case")
        found = {name: asdict(estimate) for name, estimate in self.estimates.items()}
        return pandas.DataFrame.from_dict(found, orient="index")

    def results(self) -> dict[str, Any]:
        """Return the results as JSON-ready data, under lm-evaluation-harness's kind of keys.

        Plugins may add to them, such as the measures of controls.
        """
        found = report.data(self)
        plugins = self.plugins or Plugins.installed()
        for more in plugins.call("edit_harness_results", run=self):
            found |= finite(more)
        return found
