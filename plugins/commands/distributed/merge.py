"""The command ``merge``: the shards of a run joined to the run that one process would have made.

All is checked before anything is written. The rows are those of the shards, in the order of the plan,
through the ordinary writer: a merge that is interrupted leaves a run that is not finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

import click
import numpy as np
from msgspec import UNSET, structs

from edit_harness.data import Visit
from edit_harness.errors import RunFolderError, UsageError, counted
from edit_harness.folder.folder import RunFolder, folder_name
from edit_harness.folder.manifest import Manifest, ShardInfo
from edit_harness.folder.table import RunTable, cases_digest
from edit_harness.registry.registry import Plugins
from edit_harness.run.results import Results
from edit_harness_plugins.command_line import SETTINGS, command, with_plugins
from edit_harness_plugins.reading import check_writable, own_metrics
from edit_harness_plugins.segments import extended

from ..report.facts import sound
from ..results.compare import environment_of, identities, short
from ..run.shards import Share

OTHER = "name shards of one run: edit-harness ls runs lists what there is"
ANEW = "run the shards anew, with --new"


@command("merge", context_settings=SETTINGS)
@click.argument("shards", nargs=-1, required=True, metavar="SHARD…")
@click.option("-o", "--output", default="results", show_default=True, metavar="DIR",
              help="Where the run folder goes.")  # fmt: skip
@click.option("--new", is_flag=True, help="Make a sibling if the folder is there.")
@with_plugins
def merge_command(plugins: Plugins, shards: Sequence[str], output: str, new: bool) -> int:
    """Join the shards of one run to the run that one process would have made."""
    from ..run import console

    run = merge(shards, output, new=new, plugins=plugins)
    for note in run.folder.notes:
        console.err.print(f"note     {note}", markup=False)
    console.finished(run, quiet=False, verbose=False)
    return 0 if sound(run) else 1


def merge(
    shards: Sequence[str | Path],
    output: str | Path = "results",
    *,
    new: bool = False,
    plugins: Plugins | None = None,
) -> Results:
    """Join the shards of a run, by their folders, to the run that one process would have made.

    Raises `HarnessError`, before it writes, unless they are the whole of one run.
    """
    plugins = plugins or Plugins.installed()
    parts = []
    for folder in map(RunFolder.at, map(str, shards)):
        parts.append(Results.read(folder, own_metrics(plugins, folder)))
        if not parts[-1].manifest.shard:
            raise UsageError(f"{folder.path} is no shard of a run, but a run", OTHER)
    if not parts:
        raise UsageError("there is nothing to merge", OTHER)
    for part in parts[1:]:
        _check_together(parts[0], part)
    parts = _in_order(parts)
    places = [n for part in parts for span in _place(part).spans for n in range(*span)]
    visits = [(part, (case, state)) for part in parts for case, state in _place(part).visits]
    once = len(places) == len(visits) == len({visit for _, visit in visits})
    if not once or sorted(places) != list(range(_place(parts[0]).planned)):
        raise RunFolderError("the shards do not make up their plan", ANEW)
    plan = [visits[number] for number in np.argsort(places)]
    rows = _rows(parts, plan)
    manifest = _manifest(parts)
    known = {name: part.by_id for part in parts for name in part.by_id}
    cases = [known[name][name] for name in _place(parts[0]).cases if name in known]
    if cases_digest(cases) != _place(parts[0]).cases_digest:
        raise RunFolderError("the cases of the shards are not those of their plan", ANEW)
    check_writable(Path(output))
    folder = _opened(parts[0].manifest, Path(output), new=new)
    with folder.writing() as write:
        folder.write_cases(cases)
        folder.write_manifest(manifest)
        for table, number in rows:
            write(table[number])
        folder.notes += _environments(parts)
    run = Results.read(folder, parts[0].metrics)
    folder.write_results(run.results())
    return run


def _place(part: Results) -> ShardInfo:
    """Return what a shard's manifest says of the plan, and of its place in it."""
    return cast(ShardInfo, part.manifest.shard)


def _check_together(one: Results, two: Results) -> None:
    """Raise `RunFolderError` for shards of different runs, or of a run that was shared otherwise."""
    paths = f"{one.folder.path} and {two.folder.path}"
    if found := identities(one.manifest.identity, two.manifest.identity):
        change, *more = found
        values = " and ".join(short(value) for value in (change.first, change.second))
        rest = f", and {counted(len(more), 'other difference')}" if more else ""
        raise RunFolderError(
            f"{paths} are of different runs: {change.field} is {values}{rest}",
            f"edit-harness compare --why {one.folder.path} {two.folder.path} says all of it",
        )
    places = [_place(one), _place(two)]
    if len({(place.of, place.cases_digest, tuple(place.cases)) for place in places}) > 1:
        plans = " and ".join(f"shard {place} of {len(place.cases):,} cases" for place in places)
        raise RunFolderError(
            f"{paths} are of a run that was shared otherwise: {plans}",
            "run all with the same N of --shard I/N, --limit and --samples; the same folders go on",
        )


def _in_order(parts: Sequence[Results]) -> list[Results]:
    known: dict[int, Results] = {}
    for part in parts:
        if (other := known.setdefault(_place(part).number, part)) is not part:
            paths = f"{other.folder.path} and {part.folder.path}"
            raise UsageError(f"shard {_place(part)} is there twice: {paths}", "name one of them")
    of = _place(parts[0]).of
    if missing := [Share(n, of) for n in range(1, of + 1) if n not in known]:
        raise RunFolderError(
            f"{counted(len(missing), 'shard')} of {of} missing, the first of them {missing[0]}",
            f"name its folder; if there is none, run it: the same command with {missing[0].flag}",
        )
    return [known[number] for number in sorted(known)]


def _rows(
    parts: Sequence[Results], plan: Sequence[tuple[Results, Visit]]
) -> list[tuple[RunTable, int]]:
    found: dict[tuple[Results, Visit], tuple[RunTable, int]] = {}
    of = _place(parts[0]).of
    for part in parts:
        table = RunTable.of(part.everything)
        visits = zip(table.cases, table.states.tolist(), strict=True)
        found |= {(part, visit): (table, number) for number, visit in enumerate(visits)}
        wanted = [each for each in plan if each[0] is part]
        if missing := sum(each not in found for each in wanted):
            raise RunFolderError(
                f"{part.folder.path} is not finished: {counted(missing, 'record')} of "
                f"{len(wanted):,} missing",
                f"the command that began it goes on, with {Share(_place(part).number, of).flag}",
            )
    return [found[each] for each in plan]


def _opened(manifest: Manifest, output: Path, *, new: bool) -> RunFolder:
    identity, preview = manifest.identity, manifest.preview
    names = manifest.label, identity.task.name, manifest.model.name, identity.regime.mode
    name = folder_name(*names, preview.precision if preview else "")
    folder = RunFolder.open(output, name, identity, new=new)
    if folder.records():
        raise RunFolderError(
            f"{folder.path} has rows already: it is the run, or what an interrupted merge left",
            "remove it, or join the shards in a sibling folder: --new",
        )
    return folder


def _manifest(parts: Sequence[Results]) -> Manifest:
    """Return what the whole run's manifest says. Raises `RunFolderError` for two judges."""
    judged = [part.manifest for part in parts if part.manifest.judged_by] or [parts[0].manifest]
    if any(manifest.judged_by != judged[0].judged_by for manifest in judged):
        raise RunFolderError(
            "the shards were judged by different judges",
            "have all judged by one: edit-harness score SHARD… --judge NAME",
        )
    segments = [segment for part in parts for segment in part.manifest.segments]
    return structs.replace(
        parts[0].manifest,
        judged_by=judged[0].judged_by,
        judge_settings=judged[0].judge_settings,
        cases=list(_place(parts[0]).cases),
        cases_sha256="",
        visits=_place(parts[0]).planned,
        segments=extended((), 0, environment_of(segments)),
        shard=UNSET,
    )


def _environments(parts: Sequence[Results]) -> Iterator[str]:
    every = [environment_of(part.manifest.segments) for part in parts]
    for key in dict.fromkeys(chain.from_iterable(every)):
        values = list(dict.fromkeys(each[key] for each in every if key in each))
        if len(values) > 1:
            yield f"the shards were run with more than one {key}: {'; '.join(values)}"
