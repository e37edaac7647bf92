"""The command ``merge``: the shards of a run joined to the run that one process would have made.

All is checked before anything is written. The rows are those of the shards, in the order of the plan,
through the ordinary writer: a merge that is interrupted leaves a run that is not finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
from msgspec import UNSET, structs

from edit_harness.data import Case, Visit
from edit_harness.errors import RunFolderError, UsageError, counted
from edit_harness.folder.folder import RunFolder, check_writable, folder_name
from edit_harness.folder.manifest import Manifest, ShardInfo, extended
from edit_harness.folder.record import Record
from edit_harness.folder.table import RunTable, cases_digest
from edit_harness.registry.registry import Plugins
from edit_harness.run.estimates import own_metrics
from edit_harness.run.results import Results
from edit_harness.run.shards import Share
from edit_harness.shell.options import SETTINGS, as_json, debug, with_plugins

from ..report.facts import sound
from ..results.diff import environment_of, identities, short

OTHER = "name shards of one run: edit-harness ls runs lists what there is"
ANEW = "run the shards anew, with --new"


@click.command("merge", context_settings=SETTINGS)
@click.argument("shards", nargs=-1, required=True, metavar="SHARD…")
@click.option("-o", "--output-path", default="results", show_default=True, metavar="DIR",
              help="Where the run folder goes.")  # fmt: skip
@click.option("--new", is_flag=True, help="Make a sibling if the folder is there.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure in the table.")
@as_json
@debug
@with_plugins
def command(plugins: Plugins, shards: Sequence[str], **flags: Any) -> int:
    """Join the shards of one run to the run that one process would have made."""
    from ..run import console

    whole = Whole(plugins, shards)
    output, quiet = Path(flags["output_path"]), flags["quiet"]
    check_writable(output)
    run = whole.write(output, new=flags["new"])
    if quiet:
        console.note_pending(run)
    for note in run.folder.notes if not quiet else ():
        console.err.print(f"note     {note}", markup=False)
    if flags["as_json"]:
        console.out.out(json.dumps(run.results(), indent=1))
    else:
        console.finished(run, quiet=quiet, verbose=flags["verbose"])
    return 0 if sound(run) else 1


def merge(
    shards: Sequence[str | Path], output: str | Path = "results", *, new: bool = False
) -> Results:
    """Join the shards of a run, by their folders, to the run that one process would have made.

    Raises `HarnessError`, before anything is written, for shards that are not the whole of one run.
    """
    return Whole(Plugins.installed(), list(map(str, shards))).write(Path(output), new=new)


@dataclass(eq=False)
class Shard:
    """A part of a run, as its folder has it."""

    run: Results
    share: Share
    said: ShardInfo
    """What its manifest says of the plan, and of its place in it."""

    @classmethod
    def read(cls, plugins: Plugins, name: str) -> Shard:
        """Read a folder. Raises `UsageError` for one of no shard, `RunFolderError` for a damaged one."""
        folder = RunFolder.at(name)
        run = Results.read(folder, own_metrics(plugins, folder))
        if run.shard is None:
            raise UsageError(f"{name} is no shard of a run, but a run", OTHER)
        return cls(run, run.shard, cast(ShardInfo, run.manifest.shard))

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.run.folder.path

    @property
    def places(self) -> Iterator[int]:
        """Yield where its visits stand in the plan."""
        for start, stop in self.said.spans:
            yield from range(start, stop)

    def rows(self, visits: Sequence[Visit]) -> RunTable:
        """Return its records of these visits. Raises `RunFolderError` if one is missing."""
        table = RunTable.of(self.run.everything)
        there = zip(table.cases, table.states.tolist(), strict=True)
        places = {visit: place for place, visit in enumerate(there)}
        if missing := sum(visit not in places for visit in visits):
            raise RunFolderError(
                f"{self.path} is not finished: {counted(missing, 'record')} of {len(visits):,} missing",
                f"the command that began it goes on, with {self.share.flag}",
            )
        return table.taken(np.array([places[visit] for visit in visits], dtype=np.int64))


def check_together(one: Shard, two: Shard) -> None:
    """Raise `RunFolderError` for shards of different runs, or of a run that was shared otherwise."""
    both = f"{one.path} and {two.path}"
    if found := identities(one.run.manifest.identity, two.run.manifest.identity):
        change, *more = found
        values = " and ".join(short(value) for value in (change.first, change.second))
        rest = f", and {counted(len(more), 'other difference')}" if more else ""
        raise RunFolderError(
            f"{both} are of different runs: {change.field} is {values}{rest}",
            f"edit-harness diff {one.path} {two.path} says all of it",
        )
    if one.share.of != two.share.of:
        raise RunFolderError(
            f"{both} are of a run that was shared twice: shard {one.share}, and shard {two.share}",
            f"name those of one sharing: --shard I/{one.share.of}, or I/{two.share.of}",
        )
    if one.said.cases_digest != two.said.cases_digest or one.said.cases != two.said.cases:
        counts = " and ".join(f"{len(each.said.cases):,}" for each in (one, two))
        raise RunFolderError(
            f"{both} are of other cases, {counts} in all",
            "run all shards with the same --limit and --samples; the same folders go on",
        )


def check_numbers(shards: Sequence[Shard]) -> None:
    """Raise an error if a shard is there twice, or missing."""
    known: dict[int, Shard] = {}
    for shard in shards:
        if (other := known.setdefault(shard.share.number, shard)) is not shard:
            paths = f"{other.path} and {shard.path}"
            raise UsageError(f"shard {shard.share} is there twice: {paths}", "name one of them")
    of = shards[0].share.of
    if missing := [Share(n, of) for n in range(1, of + 1) if n not in known]:
        raise RunFolderError(
            f"{counted(len(missing), 'shard')} of {of} missing, the first of them {missing[0]}",
            f"name its folder; if there is none, run it: the same command with {missing[0].flag}",
        )


class Whole:
    """Shards that are a whole run together. Raises `HarnessError` for those that are not."""

    def __init__(self, plugins: Plugins, names: Sequence[str]) -> None:
        shards = [Shard.read(plugins, name) for name in names]
        if not shards:
            raise UsageError("there is nothing to merge", OTHER)
        for shard in shards[1:]:
            check_together(shards[0], shard)
        check_numbers(shards)
        self.shards = sorted(shards, key=lambda shard: shard.share.number)
        self.first, self.plan = self.shards[0], self.shards[0].said
        places = [place for shard in self.shards for place in shard.places]
        visits = [(case, state) for shard in self.shards for case, state in shard.said.visits]
        numbers = [n for n, shard in enumerate(self.shards) for _ in shard.said.visits]
        whole = sorted(places) == list(range(self.plan.planned))
        if not whole or not len(places) == len(visits) == len(set(visits)):
            raise RunFolderError("the shards do not make up their plan", ANEW)
        self.order = sorted(zip(places, visits, numbers, strict=True))
        """Place, visit and shard of each record of the plan."""
        self.rows = [
            shard.rows([visit for _, visit, own in self.order if own == number])
            for number, shard in enumerate(self.shards)
        ]
        self.judged = self._judged()
        """The manifest of a shard whose texts are judged, if there is one."""
        if cases_digest(self.cases) != self.plan.cases_digest:
            raise RunFolderError("the cases of the shards are not those of their plan", ANEW)

    @property
    def records(self) -> Iterator[Record]:
        """Yield the records in the order of the plan."""
        rows = [iter(table) for table in self.rows]
        for _, _, number in self.order:
            yield next(rows[number])

    @property
    def cases(self) -> Iterator[Case]:
        """Yield the cases in the order of the plan. Raises `RunFolderError` if one is missing."""
        known = {name: shard.run.by_id for shard in self.shards for name in shard.run.by_id}
        for name in self.plan.cases:
            if name not in known:
                raise RunFolderError(f"no shard has case {name}", ANEW)
            yield known[name][name]

    @property
    def environment(self) -> dict[str, list[str]]:
        """What the shards were run with, by its name; bits may differ where that is more than one thing."""
        found: dict[str, list[str]] = {}
        for shard in self.shards:
            for key, value in environment_of(shard.run.manifest.segments).items():
                found[key] = list(dict.fromkeys([*found.get(key, ()), value]))
        return found

    def _judged(self) -> Manifest:
        """Return the manifest that says who judged. Raises `RunFolderError` for two judges."""
        every = [shard.run.manifest for shard in self.shards]
        found = [manifest for manifest in every if manifest.judged_by]
        if any(manifest.judged_by != found[0].judged_by for manifest in found):
            raise RunFolderError(
                "the shards were judged by different judges",
                "have all judged by one: edit-harness score SHARD… --judge NAME",
            )
        return found[0] if found else every[0]

    def write(self, output: Path, *, new: bool = False) -> Results:
        """Write the run's folder, and return the run. Raises `RunFolderError` if it has rows already."""
        manifest = self.first.run.manifest
        identity, preview = manifest.identity, manifest.preview
        precision = preview.precision if preview else ""
        names = manifest.label, identity.task.name, manifest.model.name, identity.regime.mode
        folder = RunFolder.open(output, folder_name(*names, precision), identity, new=new)
        if folder.visits():
            raise RunFolderError(
                f"{folder.path} has rows already: it is the run, or what an interrupted merge left",
                "remove it, or join the shards in a sibling folder: --new",
            )
        with folder.writing() as write:
            self._settle(folder)
            for record in self.records:
                write(record)
            for key, values in self.environment.items():
                if len(values) > 1:
                    told = f"the shards were run with more than one {key}: {'; '.join(values)}"
                    folder.notes.append(told)
            shards = [{"number": s.share.number, "folder": s.path.name} for s in self.shards]
            folder.event("merge", shards=shards)
        run = Results.read(folder, self.first.run.metrics)
        folder.write_results(run.results())
        return run

    def _settle(self, folder: RunFolder) -> None:
        """Write down what the rows of a folder are of."""
        environment = {key: ", ".join(values) for key, values in self.environment.items()}
        manifest = structs.replace(
            self.first.run.manifest,
            judged_by=self.judged.judged_by,
            judge_settings=self.judged.judge_settings,
            cases=list(self.plan.cases),
            cases_sha256="",
            visits=self.plan.planned,
            segments=extended((), 0, environment),
            shard=UNSET,
        )
        folder.write_cases(self.cases)
        folder.write_manifest(manifest)
