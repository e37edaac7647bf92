"""The run folder: manifest, cases, one line of JSON for each measured case, and the results.

Raw answers are stored beside the values, so that metrics can be recomputed without a model. This
module needs no torch. A line is written whole, after its case is done; a run that was interrupted
goes on where it stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar

import jsonlines
import numpy as np

from edit_harness.cases import Case, Visit
from edit_harness.encoding import decode_case, dumps, encode_case, finite
from edit_harness.errors import DataError, ResourceError, RunFolderError, UsageError

SCHEMA = 3
OK, INVALID = "ok", "invalid_case"
"""The statuses of a case that was run, and of one that could not be."""
STATUSES = (
    OK,
    "edit_failed",
    "nonfinite",
    "too_long",
    INVALID,
    "oom",
    "timeout",
    "device_error",
    "plugin_error",
    "leak",
    "error",
)
"""What may become of a case."""
T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    """What one case yielded."""

    case: str
    status: str
    """One of `STATUSES`."""
    values: Mapping[str, Mapping[str, float]]
    """Values by metric, then by name."""
    state: int = 0
    """Which edited model answered: see `edit_harness.plan.Step.state`."""
    before: Sequence[Any] = ()
    """Raw answers of the case's probes, as `edit_harness.encoding.encode_answer` gives them."""
    after: Sequence[Any] = ()
    edit: Mapping[str, Any] = field(default_factory=dict)
    """The editor's diagnostics."""
    noop: bool = False
    """Whether the edit changed none of the answers."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    message: str = ""
    attempt: int = 1
    """How many times the visit has been tried."""

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
        answers = (a for a in (*self.before, *self.after) if isinstance(a, Mapping))
        return Counter(a["verdict"]["status"] for a in answers if a.get("verdict"))


def fingerprint(identity: Mapping[str, Any]) -> str:
    """Return a SHA-256 over what the numbers of a run depend on."""
    return hashlib.sha256(dumps(identity).encode()).hexdigest()


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
        raise _unwritable(parent, error) from None


def _unwritable(path: Path, error: OSError) -> ResourceError:
    return ResourceError(
        f"the run folder {path} cannot be written: {error.strerror}",
        "name another place: --output-path DIR",
    )


def columns(records: Sequence[Record], metric: str) -> dict[str, np.ndarray]:
    """Return one metric's values as columns; a case without a value has NaN."""
    rows = [record.values.get(metric, {}) for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    return {n: np.array([row.get(n, np.nan) for row in rows], dtype=float) for n in names}


class RunFolder:
    """One run on disk. Raises `ResourceError` if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples = path / "samples.jsonl"
        self.notes: list[str] = []

    @classmethod
    def at(cls, name: str) -> RunFolder:
        """Return a run folder that is there. Raises `UsageError` if it is none."""
        path = Path(name).expanduser()
        if not (path / "manifest.json").is_file():
            raise UsageError(
                f"{name} is no run folder: it has no manifest.json",
                "edit-harness ls runs lists them; -o DIR says where they are",
            )
        return cls(path)

    @classmethod
    def open(cls, parent: Path, name: str, identity: Mapping[str, Any], *, new: bool) -> RunFolder:
        """Make the folder of a run, or find it again.

        ``new`` makes a sibling if there is one already. Raises `RunFolderError` if the folder
        belongs to another run.
        """
        mark = fingerprint(identity)
        path = parent / f"{name}-{mark[:8]}"
        if new:
            path = next(p for p in _siblings(path) if not p.exists())
        folder = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with open(folder.samples, "ab"):
                pass
        except OSError as error:
            raise _unwritable(path, error) from None
        known = folder.manifest().get("fingerprint", mark)
        if known != mark:
            raise RunFolderError(
                f"{path} holds a run of another kind ({known[:8]}, not {mark[:8]})",
                "start a sibling folder: --new",
            )
        return folder

    def manifest(self) -> dict[str, Any]:
        """Return the manifest; empty if there is none yet."""
        return self._json("manifest.json")

    def results(self) -> dict[str, Any]:
        """Return the results; empty if there are none yet."""
        return self._json("results.json")

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Put the manifest into place."""
        self._replace("manifest.json", _indented(manifest))

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Put the results into place."""
        self._replace("results.json", _indented(results))

    def records(self) -> list[Record]:
        """Return the records so far, the last of each visit: a later one has more verdicts.

        A last line that is not whole is not looked at: another process may be writing it. Raises
        `RunFolderError` for a damaged line in the middle.
        """
        rows = list(self._lines(self.samples, _row)) if self.samples.exists() else []
        gone = {
            n
            for row in rows
            if "withdraws" in row
            for n in range(row["withdraws"][0], row["withdraws"][1] + 1)
        }
        found: dict[Visit, Record] = {}
        for seq, row in enumerate(rows):
            if seq not in gone and "withdraws" not in row:
                record = _record(row)
                found[record.visit] = record
        return list(found.values())

    def event(self, kind: str, **details: Any) -> None:
        """Append to events.jsonl."""
        with open(self.path / "events.jsonl", "a", encoding="ascii") as file:
            file.write(dumps({"event": kind, **details}) + "\n")

    def cases(self) -> list[Case]:
        """Return the cases of the run, in their order. Raises `RunFolderError`."""
        if not self._cases.exists():
            raise RunFolderError(
                f"{self.path} has no {self._cases.name}", "it is no run folder, or an older one"
            )
        return list(self._lines(self._cases, decode_case))

    def write_cases(self, cases: Iterable[Case]) -> None:
        """Put the cases into place, so that the numbers can be had without their task."""
        text = "".join(dumps(encode_case(case)) + "\n" for case in cases)
        self._replace(self._cases.name, text)

    @property
    def _cases(self) -> Path:
        return self.path / "cases.jsonl"

    def _lines(self, path: Path, decode: Callable[[dict[str, Any]], T]) -> Iterator[T]:
        number = 0
        try:
            with open(path, encoding="utf-8") as file:
                whole = (line for line in file if line.endswith("\n"))
                for row in jsonlines.Reader(whole, loads=json.loads):
                    number += 1
                    yield decode(row)
        except (
            jsonlines.InvalidLineError,
            ValueError,
            TypeError,
            AttributeError,
            KeyError,
            DataError,
        ) as error:
            line = getattr(error, "lineno", number)
            raise RunFolderError(
                f"line {line} of {path} is damaged",
                "nothing was changed; mend the file, or start a sibling folder: --new",
            ) from None

    @contextmanager
    def writing(self, instead: str = "wait for it, or use --new") -> Iterator[Writer]:
        """Claim the folder, and yield what writes a record into it.

        A line that was cut off by an interruption is removed.

        ``instead`` is what to do if another process writes into it.
        """
        with open(self.samples, "a", encoding="ascii") as file:
            self._claim(file, instead)
            self._cut_torn_tail()
            yield Writer(self, jsonlines.Writer(file, dumps=dumps, flush=True))

    def _claim(self, file: TextIO, instead: str) -> None:
        """Keep other processes from writing to the file until it is closed."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFolderError(f"{self.path} is in use by another process", instead) from None

    def _cut_torn_tail(self) -> None:
        data = self.samples.read_bytes() if self.samples.exists() else b""
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            with open(self.samples, "rb+") as file:
                file.truncate(whole)
            self.notes.append(f"removed {len(data) - whole} bytes of an unfinished line")

    def _json(self, name: str) -> dict[str, Any]:
        try:
            data = json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise RunFolderError(f"{self.path / name} is damaged", "start a sibling folder: --new")
        return data

    def _replace(self, name: str, text: str) -> None:
        partial = self.path / f".{name}.{os.getpid()}"
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.path / name)


class Writer:
    """Appends rows."""

    def __init__(self, folder: RunFolder, lines: Any) -> None:
        self.folder, self._lines = folder, lines
        self.seq = folder.samples.read_bytes().count(b"\n")

    def __call__(self, record: Record) -> int:
        """Write a record; return its number."""
        return self._write(vars(record))

    def withdraw(self, first: int, why: str) -> None:
        """Withdraw the rows from one on."""
        self._write({"withdraws": [first, self.seq - 1], "why": why})

    def _write(self, row: Mapping[str, Any]) -> int:
        try:
            self._lines.write({"v": SCHEMA, **row})
        except OSError as error:
            raise ResourceError(
                f"{self.folder.samples} cannot be written: {error.strerror}",
                "make room; the same command goes on",
            ) from None
        self.seq += 1
        return self.seq - 1


def _row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if "withdraws" not in row:
        _record(row)
    return row


def _record(row: Mapping[str, Any]) -> Record:
    """Return the record of a line. Raises `TypeError` if it is none."""
    record = Record(**{k: v for k, v in row.items() if k != "v"})
    if not isinstance(record.case, str) or not isinstance(record.state, int):
        raise TypeError("a record has a case and a state")
    return record


def _indented(data: Mapping[str, Any]) -> str:
    return json.dumps(finite(data), indent=1, sort_keys=True, allow_nan=False) + "\n"


def _siblings(path: Path) -> Iterator[Path]:
    yield path
    number = 2
    while True:
        yield path.with_name(f"{path.name}-{number}")
        number += 1
