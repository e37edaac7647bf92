"""The run folder: manifest, cases, a row of the log for each measured case, and the results.

Raw answers are stored beside the values, so that metrics can be recomputed without a model. This
module needs no torch. How a row becomes safe, and what a crash leaves, stands in `log`; all other
files are made from what is known, whole or not at all, and are checked when they are read.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
from msgspec import convert, structs

from .. import durable, lock
from ..cases import Case, Visit
from ..encoding import dumps
from ..errors import RunFolderError, UsageError
from ..wording import counted
from . import log
from .diary import Diary
from .documents import Documents, unwritable
from .log import Line, Log
from .manifests import Identity, fingerprint
from .regular import check_regular
from .scans import Scan
from .stored import Answers, Source
from .tables import Table

SCHEMA = log.VERSION
OK, INVALID = "ok", "invalid_case"
"""The statuses of a case that was run, and of one that could not be."""
STATUSES = (
    OK, "edit_failed", "nonfinite", "too_long", INVALID, "oom", "timeout", "device_error",
    "plugin_error", "leak", "error",
)  # fmt: skip
"""What may become of a case. All but the first are failures; an invalid one counts nowhere."""
MODEL = {"digest": "its weights", "config": "its configuration", "tokenizer": "its tokenizer"}
"""What of a model may change where it lies."""
ROW = 20_000
"""Bytes that a row is thought to take before there is any."""


@dataclass(frozen=True)
class Record:
    """What one case yielded."""

    case: str
    status: str
    """One of `STATUSES`."""
    values: Mapping[str, Mapping[str, float]]
    """Values by metric, then by name."""
    state: int = 0
    """Which edited model answered: see `edit_harness.run.plan.Step.state`."""
    attempt: int = 1
    """The number of the try, where failed cases were run again."""
    before: Sequence[Any] = ()
    """Raw answers of the case's probes, as `edit_harness.encoding.encode_answer` gives them.

    Of a record that was read, those without verdicts lie in the file until they are looked at.
    """
    after: Sequence[Any] = ()
    edit: Mapping[str, Any] = field(default_factory=dict)
    """The editor's diagnostics."""
    noop: bool = False
    """Whether the edit changed none of the answers: see `edit_harness.cases.unchanged`."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    message: str = ""

    @classmethod
    def of_no_use(cls, case: str, why: object, state: int = 0) -> Record:
        """Return the record of a case that cannot be used, for a reason or an error."""
        return cls(case, INVALID, {}, state=state, message=str(why).replace("\n", "; "))

    @property
    def visit(self) -> Visit:
        """What tells it apart from the other records of a run."""
        return self.case, self.state

    @property
    def verdicts(self) -> Counter[str]:
        """How many texts there are with a verdict of each status."""
        if isinstance(self.after, Answers):
            return Counter()
        answers = (a for a in (*self.before, *self.after) if isinstance(a, Mapping))
        return Counter(a["verdict"]["status"] for a in answers if a.get("verdict"))

    @property
    def row(self) -> dict[str, Any]:
        """What the log keeps of it, in the order of the keys there."""
        rest = {key: value for key, value in vars(self).items() if key not in FIRST}
        rest |= {"before": list(self.before), "after": list(self.after)}
        return {
            "case": self.case,
            "state": self.state,
            "try": self.attempt,
            "status": self.status,
            **dict(sorted(rest.items())),
        }

    @classmethod
    def of(cls, row: Mapping[str, Any], *, strict: bool = False) -> Record:
        """Return the record of a row. Raises `TypeError` or `KeyError` if it is none.

        ``strict`` looks at the types of all fields, as of a stranger's row, and raises `ValueError` too.
        """
        fields = {key: value for key, value in row.items() if key not in FRAME}
        record = cls(attempt=fields.pop("try"), **fields)
        kinds = (record.case, str), (record.state, int), (record.attempt, int)
        if not all(isinstance(value, kind) for value, kind in kinds):
            raise TypeError("a record has a case, a state and a try")
        return convert(vars(record), cls) if strict else record

    def same_answers(self, other: Record) -> bool:
        """Tell whether two are of the same answers, whatever judges have said of them since."""
        if INVALID in (self.status, other.status):  # a judge may find a key to be of no use
            return True
        sides = ((r.status, *map(_unjudged, (*r.before, *r.after))) for r in (self, other))
        return len(set(map(dumps, sides))) == 1


FIRST = ("case", "state", "attempt", "status")
FRAME = ("v", "seq", "fp", "crc")
"""Keys of a row that are the log's."""


def _unjudged(answer: Any) -> Any:
    if not isinstance(answer, Mapping):
        return answer
    return {key: value for key, value in answer.items() if key != "verdict"}


def folder_name(
    label: str, task: str, model: str, mode: str, precision: str = "", share: str = ""
) -> str:
    """Return what the folder of a run is called, but for its fingerprint; single edits go unsaid."""
    parts = label, task, model, "" if mode == "single" else mode, precision, share
    return "-".join(_slug(part) for part in parts if part)


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in ".=" else "-" for c in text).strip("-")


def cases_digest(cases: Iterable[Case]) -> str:
    """Return a SHA-256 over the cases, in order."""
    digest = hashlib.sha256()
    for case in cases:
        digest.update(dumps(asdict(case)).encode() + b"\n")
    return digest.hexdigest()


def check_writable(parent: Path) -> None:
    """Raise `ResourceError` if no run folder can be made there."""
    probe = parent / f".probe.{os.getpid()}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(parent, error) from None


def columns(records: Sequence[Record], metric: str) -> dict[str, np.ndarray]:
    """Return one metric's values as columns; a case without a value has NaN."""
    return Table.of(records).columns(metric)


class Writer:
    """Writes into a run folder that is held; what went wrong once ends it."""

    def __init__(self, log: Log, event: Callable[..., None]) -> None:
        self._log, self._event = log, event

    @property
    def seq(self) -> int:
        """The number of the next row."""
        return self._log.seq

    def __call__(self, record: Record) -> int:
        """Write a record, and return its row's number: then it is kept.

        Raises `ResourceError` if it cannot be, `RunFolderError` if another program meddles.
        """
        return self._log.append(record.row)

    def withdraw(self, first_seq: int, why: str) -> None:
        """Take back all rows from one to the last; they stay in the file, and count no more."""
        if first_seq < self.seq:
            last = self.seq - 1
            self._log.append({"withdraws": [first_seq, last], "why": why})
            self._event("withdraw", first=first_seq, last=last, why=why)


class RunFolder(Documents):
    """One run on disk. Raises `ResourceError` if it cannot be written."""

    def __init__(self, path: Path, mark: str = "") -> None:
        super().__init__(path)
        self.notes: list[str] = []
        self._mark = mark
        self._diary = Diary(path)

    @classmethod
    def at(cls, name: str) -> RunFolder:
        """Return a run folder that is there.

        Raises `UsageError` if it is none, and `RunFolderError` if it leads out of itself.
        """
        path = Path(name).expanduser()
        if not (path / "manifest.json").is_file():
            raise UsageError(
                f"{name} is no run folder: it has no manifest.json",
                "edit-harness ls runs lists them; -o DIR says where they are",
            )
        check_regular(path)
        return cls(path)

    @classmethod
    def open(
        cls, parent: Path, name: str, identity: Identity, *, new: bool, model: str = ""
    ) -> RunFolder:
        """Make the folder of a run, or find it again; nothing else is written before it is held.

        ``new`` makes a sibling if there is one already. Raises `RunFolderError` if the folder
        belongs to another run, or if there is one of the same run but for what lies at ``model``.
        """
        mark = fingerprint(identity)
        path = parent / f"{name}-{mark[:8]}"
        if new:
            path = next(p for p in _siblings(path) if not p.exists())
        elif model and not (path / "manifest.json").exists():
            _check_weights(path, identity, model)
        folder = cls(path, mark)
        try:
            path.mkdir(parents=True, exist_ok=True)
            durable.sync_folder(path.parent)
        except OSError as error:
            raise unwritable(path, error) from None
        known = None if folder._damage() else folder.manifest()
        if known and known.fingerprint != mark:
            raise RunFolderError(
                f"{path} holds a run of another kind ({known.fingerprint[:8]}, not {mark[:8]})",
                "start a sibling folder: --new",
            )
        return folder

    def _damage(self) -> str:
        """Return how the manifest is damaged; empty if it is not."""
        try:
            self.manifest()
        except RunFolderError as error:
            if "log format" in error.cause:
                raise
            return error.cause
        return ""

    def _put_aside(self) -> Iterator[str]:
        """Put a manifest that is damaged aside, and say so."""
        if damage := self._damage():
            aside = self.path / "manifest.bad.json"
            os.replace(self.path / "manifest.json", aside)
            yield f"{damage}; it was written again, the old one is {aside}"

    def records(self, *, whole: bool = False) -> Table:
        """Return the records so far: of each visit the last that was not withdrawn.

        A last row that is not whole is not looked at: another process may be writing it. Raises
        `RunFolderError` for damage, for two rows of one try that differ, and, if they are to be
        ``whole``, for rows that are gone since the results were written.
        """
        return self._read(Scan.read, whole)

    def visits(self, *, whole: bool = False) -> dict[Visit, str]:
        """Return the statuses of the same records by their visits: what a run that goes on needs."""
        found = self._read(Scan.read_heads, whole)
        visits = zip(found.cases, found.states.tolist(), strict=True)
        return dict(zip(visits, found.statuses, strict=True))

    def _read(self, how: Callable[[Scan, Iterator[Line]], None], whole: bool) -> Table:
        there = self.size_of_results  # read first: another process may be adding rows
        scan, end = Scan(Source(self.samples), Record.of), log.End()
        how(scan, log.scan(self.samples, self.mark, end))
        if whole and end.size < there:
            raise RunFolderError(
                f"rows that results.json counts are gone from {self.samples}: the last "
                f"{counted(there - end.size, 'byte')} of {there:,}",
                "the command that made the run makes them again",
            )
        return scan.counting()

    @property
    def mark(self) -> str:
        """What every row bears; empty if nothing says which run this is."""
        manifest = None if self._mark else self.manifest()
        return (manifest.fingerprint if manifest else self._mark)[: log.MARK]

    @contextmanager
    def writing(self, instead: str = "wait for it, or use --new") -> Iterator[Writer]:
        """Claim the folder, and yield what writes a record into it.

        A row that was cut off by an interruption is removed. ``instead`` is what to do if another
        process writes into it.
        """
        with lock.held(self.path, instead) as notes:
            aside = list(self._put_aside()) if self._mark else []
            samples = Log(self.samples, self.mark)
            try:
                self._diary.open(self.mark)
                for note in [*notes, *aside, *samples.notes, *self._oddities()]:
                    self.notes.append(note)
                    self.event("note", text=note)
                self.event("start", rows=samples.seq)
                self._warn_of_space(samples.seq)
                yield Writer(samples, self.event)
            finally:
                self._end(samples)

    def _end(self, samples: Log) -> None:
        try:
            samples.close()
        finally:
            self.event("stop", rows=samples.seq)
            self._diary.close()

    def event(self, kind: str, **details: Any) -> None:
        """Note in events.jsonl that something happened; that it cannot be noted stops nobody."""
        self._diary.note(self.mark, kind, details)

    def _warn_of_space(self, rows: int) -> None:
        lacking = (manifest.visits if (manifest := self.manifest()) else 0) - rows
        size = self.samples.stat().st_size / rows if rows else ROW
        free = disk_usage(self.path).free
        if free < 2 * lacking * size:
            self.notes.append(
                f"{free / 1e6:.0f} MB are free, and {lacking} rows may take {lacking * size / 1e6:.0f}"
            )


def _check_weights(path: Path, identity: Identity, model: str) -> None:
    """Raise `RunFolderError` if a folder beside a path has the run of what lay at ``model`` before.

    What editors find for a model is another for other weights, and is not compared.
    """

    def rest(identity: Identity) -> str:
        editor = structs.replace(identity.editor, provenance={})
        its = structs.replace(identity.model, digest="", config="", tokenizer="")
        return fingerprint(structs.replace(identity, editor=editor, model=its))

    for other in sorted(path.parent.glob(f"{path.name[:-8]}????????*/manifest.json")):
        changed = []
        with suppress(RunFolderError):  # its damage is no matter of this run
            there = RunFolder(other.parent).planned()
            if there.model.path == model and rest(there.identity) == rest(identity):
                then, now = (each.model for each in (there.identity, identity))
                changed = [MODEL[key] for key in MODEL if getattr(then, key) != getattr(now, key)]
        if changed:
            raise RunFolderError(
                f"{other.parent} is this run of {model} as it was before: "
                f"{' and '.join(changed)} changed since",
                "run the model as it is now in a folder of its own: --new",
            )


def _siblings(path: Path) -> Iterator[Path]:
    yield path
    number = 2
    while True:
        yield path.with_name(f"{path.name}-{number}")
        number += 1
