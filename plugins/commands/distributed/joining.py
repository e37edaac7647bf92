"""Shards of a run joined to the run that one process would have made: all is checked, then written.

The rows are those of the shards, in the order of the plan, through the ordinary writer. So a join that
is interrupted leaves a run that is not finished, and the same command goes on with it. It needs no
torch; what one shard is, and whether several belong together, stands in `edit_harness_plugins.commands.distributed.parts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET, structs

from edit_harness.cases import Case, Visit
from edit_harness.errors import RunFolderError
from edit_harness.folder.folder import RunFolder, check_complete, folder_name
from edit_harness.folder.manifest import Manifest, Tuning, environment_of, extended
from edit_harness.folder.record import Record
from edit_harness.folder.table import cases_digest
from edit_harness.registry.plugins import Plugins
from edit_harness.run.outcome import Run
from edit_harness.run.shares import Span
from edit_harness.run.tuning import tuning
from edit_harness.wording import counted

from . import parts
from .parts import Shard

ANEW = "run the shards anew, with --new"


@dataclass(eq=False)
class Joined:
    """Shards that are a whole run together. Raises `HarnessError` for those that are not."""

    shards: Sequence[Shard]
    """In the order of their numbers."""

    @classmethod
    def of(cls, plugins: Plugins, names: Sequence[str]) -> Joined:
        """Read shards from folders, and check that they make up one run."""
        shards = [Shard.read(plugins, name) for name in names]
        parts.check(shards)
        joined = cls(sorted(shards, key=lambda shard: shard.share.number))
        joined.check()
        return joined

    @property
    def first(self) -> Shard:
        """The shard that says what is the same in all."""
        return self.shards[0]

    def check(self) -> None:
        """Raise `RunFolderError` if a row of the plan is not there once, or the cases are others."""
        ends = [stop for (_, stop), _, _ in self._parts]
        starts = [start for (start, _), _, _ in self._parts]
        whole = [0, *ends] == [*starts, self.first.planned]
        if not whole or len(set(self.visits)) != self.first.planned:
            raise RunFolderError("the shards do not make up their plan", ANEW)
        for shard in self.shards:
            _ = shard.rows  # an error if it is not finished
        _judging([shard.run.folder for shard in self.shards])
        if cases_digest(self.cases) != self.first.digest:
            raise RunFolderError("the cases of the shards are not those of their plan", ANEW)

    @cached_property
    def _parts(self) -> list[tuple[Span, slice, Shard]]:
        """The spans of all shards in the order of the plan: see `Shard.parts`."""
        parts = [(span, own, shard) for shard in self.shards for span, own in shard.parts]
        return sorted(parts, key=lambda part: part[0])

    @cached_property
    def visits(self) -> list[Visit]:
        """What the records of the run are called, in the order of the plan."""
        return [visit for _, own, shard in self._parts for visit in shard.visits[own]]

    @property
    def rows(self) -> Iterator[Record]:
        """Yield the records in the order of the plan."""
        for _, own, shard in self._parts:
            yield from shard.rows.taken(np.arange(own.start, own.stop))

    @property
    def cases(self) -> Iterator[Case]:
        """Yield the cases in the order of the plan. Raises `RunFolderError` if one is missing."""
        known = {name: shard.run.by_id for shard in self.shards for name in shard.run.by_id}
        for name in self.first.cases:
            if name not in known:
                raise RunFolderError(f"no shard has case {name}", ANEW)
            yield known[name][name]

    @property
    def notes(self) -> Iterator[str]:
        """Yield in what the places differ where the shards were run: bits may, too."""
        for key, values in self._environments.items():
            if len(values) > 1:
                told = "; ".join(f"{value} (shard {', '.join(n)})" for value, n in values.items())
                yield f"the shards were run with more than one {key}: {told}"

    @property
    def _environments(self) -> dict[str, dict[str, list[str]]]:
        """The shards' numbers by what they were run with, by its name."""
        found: dict[str, dict[str, list[str]]] = {}
        for shard in self.shards:
            for key, value in environment_of(shard.run.manifest.segments).items():
                found.setdefault(key, {}).setdefault(value, []).append(str(shard.share.number))
        return found

    def _settle(self, folder: RunFolder, seq: int) -> None:
        """Write down what the rows of a folder are of, which may have the run already, or more cases."""
        before, own = folder.manifest(), list(self.first.cases)
        there = before.cases if before else []
        if (more := {*there}.difference(own)) and not {*own} <= {*there}:
            raise RunFolderError(
                f"{folder.path} has {counted(len(more), 'case')} that the shards lack, and they have others",
                "join them in a sibling folder: --new",
            )
        made_with = {key: ", ".join(found) for key, found in self._environments.items()}
        preset, tuned = self._tuning(before)
        judged = _judging([*(shard.run.folder for shard in self.shards), folder])
        whole = judged or self.first.run.manifest
        manifest = structs.replace(
            self.first.run.manifest,
            preset=preset,
            tuned=tuned,
            judged_by=whole.judged_by,
            judge_settings=whole.judge_settings,
            cases=there if more else own,
            cases_sha256="",
            visits=self.first.planned + len(more),
            segments=extended(before.segments if before else (), seq, made_with),
            shard=UNSET,
        )
        if not more and not folder.has_cases(own):
            folder.write_cases(self.cases)
        folder.write_manifest(manifest)

    def _tuning(self, before: Manifest | None) -> tuple[str, Tuning | None]:
        """Return what the shards, or the folder as it was, say of where fields come from."""
        for shard in self.shards:
            said = shard.run.manifest
            preset, tuned = tuning(said.preset, said.tuned, before, lambda: self.cases)
            before = structs.replace(said, preset=preset, tuned=tuned)
        return preset, tuned

    def write(self, output: Path, *, new: bool = False) -> Run:
        """Write the run's folder, or what it lacks, and return the run.

        Raises `RunFolderError`, before anything is written, if the folder has other rows.
        """
        folder = self._open(output, new=new)
        with folder.writing() as write:
            known = {record.visit: record for record in folder.records()}
            if known:
                lacking = sum(1 for _ in self._lacking(known, folder))  # an error if one is another
                folder.notes.append(_there(folder, len(known), lacking))
            self._settle(folder, write.seq)
            for record in self._lacking(known, folder):
                write(record)
                known[record.visit] = record
            folder.event("merge", shards=[self._merged(shard) for shard in self.shards])
            folder.notes += self.notes
            check_complete(self.visits, folder, known)
        run = Run.read(folder, self.first.run.metrics)
        folder.write_results(run.results())
        return run

    def _open(self, output: Path, *, new: bool) -> RunFolder:
        manifest, identity = self.first.run.manifest, self.first.identity
        preview = manifest.preview
        name = folder_name(
            manifest.label,
            identity.task.name,
            manifest.model.name,
            identity.regime.mode,
            preview.precision if preview else "",
        )
        return RunFolder.open(output, name, identity, new=new)

    def _lacking(self, known: Mapping[Visit, Record], folder: RunFolder) -> Iterator[Record]:
        """Yield the records that a folder has not yet, or has of an earlier try, or unjudged."""
        for record in self.rows:
            old = known.get(record.visit)
            if old is None or old.attempt < record.attempt:
                yield record
            elif old.attempt == record.attempt:
                if not old.same_answers(record):
                    raise RunFolderError(
                        f"{folder.path} has another row of case {record.case} than the shards",
                        "join them in a sibling folder: --new",
                    )
                if old.verdicts["pending"] > record.verdicts["pending"]:
                    yield record

    @staticmethod
    def _merged(shard: Shard) -> dict[str, Any]:
        """Return what a whole run remembers of a shard."""
        return {
            "number": shard.share.number,
            "folder": shard.path.resolve().name,
            "rows": len(shard.rows),
            "environment": environment_of(shard.run.manifest.segments),
        }


def merge(
    shards: Sequence[str | Path], output: str | Path = "results", *, new: bool = False
) -> Run:
    """Join the shards of a run, by their folders, to the run that one process would have made.

    Raises `HarnessError`, before anything is written, for shards that are not the whole of one run.
    """
    joined = Joined.of(Plugins.installed(), [str(shard) for shard in shards])
    return joined.write(Path(output), new=new)


def _there(folder: RunFolder, rows: int, lacking: int) -> str:
    """Say that a folder has rows, of a join before or of a run in one process, which stay as they are."""
    if lacking:
        return f"{folder.path} has {counted(rows, 'row')} already, with the same answers: {lacking:,} are added"
    return (
        f"nothing is written: {folder.path} has all rows already, with the same answers; "
        "--new joins the shards beside it"
    )


def _judging(folders: Sequence[RunFolder]) -> Manifest | None:
    """Return the first manifest that says who judged, if one does. Raises `RunFolderError` for two."""
    said = [(folder.path, folder.manifest()) for folder in folders]
    judged = [(path, manifest) for path, manifest in said if manifest and manifest.judged_by]
    for path, manifest in judged:
        if manifest.judged_by != judged[0][1].judged_by:
            raise RunFolderError(
                f"{judged[0][0]} and {path} were judged by different judges",
                "have all judged by one, edit-harness score SHARD… --judge NAME, or join with --new",
            )
    return judged[0][1] if judged else None
