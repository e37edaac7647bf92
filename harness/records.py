"""The run folder: manifest, one line of JSON for each measured case, and the results.

Raw answers are stored beside the values, so that metrics can be recomputed without a model. This
module needs no torch. A line is written whole, after its case is done; a run that was interrupted
goes on where it stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import jsonlines
import numpy as np

from edit_harness.cases import Answer, Case, Distribution, Divergence, Scores, Text, Verdict
from edit_harness.errors import ResourceError, RunFolderError

SCHEMA = 3
OK = "ok"


@dataclass(frozen=True)
class Record:
    """What one case yielded."""

    case: str
    status: str
    """``ok``, or why there is no valid answer: edit_failed, nonfinite, too_long, oom, error."""
    values: Mapping[str, Mapping[str, float]]
    """Values by metric, then by name."""
    before: Sequence[Any] = ()
    """Raw answers of the case's probes, as `encode_answer` gives them."""
    after: Sequence[Any] = ()
    edit: Mapping[str, Any] = field(default_factory=dict)
    """The editor's diagnostics."""
    noop: bool = False
    """Whether the edit changed none of the answers."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    message: str = ""


def encode_answer(answer: Answer) -> dict[str, Any] | list[Any] | None:
    """Return an answer as JSON-ready data; None for what is never stored.

    A divergence is a list of its numbers: a case may have twenty, before and after.
    """
    if isinstance(answer, Divergence):
        return finite(astuple(answer))
    if isinstance(answer, Text):
        return {"text": answer.text, "verdict": answer.verdict and vars(answer.verdict)}
    return None if isinstance(answer, Distribution) else finite(vars(answer))


def decode_answer(data: Mapping[str, Any] | Sequence[Any] | None) -> Answer | None:
    """Return the answer that `encode_answer` stored."""
    if data is None:
        return None
    if not isinstance(data, Mapping):
        return Divergence(*data)
    if "logprobs" in data:
        return Scores(**{name: tuple(map(tuple, data[name])) for name in data})
    verdict = data.get("verdict")
    return Text(data["text"], Verdict(**verdict) if verdict else None)


def finite(data: Any) -> Any:
    """Return data with None for numbers that JSON has no word for."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return data


def dumps(data: Any) -> str:
    """Write JSON: ASCII, sorted keys, None for numbers that JSON has no word for."""
    try:
        return json.dumps(data, sort_keys=True, allow_nan=False)
    except ValueError:
        return json.dumps(finite(data), sort_keys=True, allow_nan=False)


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
        self._replace("manifest.json", manifest)

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Put the results into place."""
        self._replace("results.json", results)

    def records(self) -> list[Record]:
        """Return the records so far, the first of each case.

        A last line that was cut off is removed from the file. Raises `RunFolderError` for a
        damaged line in the middle.
        """
        self._cut_torn_tail()
        found: dict[str, Record] = {}
        try:
            with jsonlines.open(self.samples, loads=json.loads) as reader:
                for row in reader:
                    record = Record(**{k: v for k, v in row.items() if k != "v"})
                    found.setdefault(record.case, record)
        except (jsonlines.InvalidLineError, ValueError, TypeError, AttributeError) as error:
            line = getattr(error, "lineno", len(found) + 1)
            raise RunFolderError(
                f"line {line} of {self.samples} is damaged",
                "nothing was changed; mend the file, or start a sibling folder: --new",
            ) from None
        return list(found.values())

    @contextmanager
    def writing(self) -> Iterator[Callable[[Record], None]]:
        """Claim the folder, and yield what writes a record into it."""
        with open(self.samples, "a", encoding="ascii") as file:
            self._claim(file)
            writer = jsonlines.Writer(file, dumps=dumps, flush=True)

            def write(record: Record) -> None:
                try:
                    writer.write({"v": SCHEMA, **vars(record)})
                except OSError as error:
                    raise ResourceError(
                        f"{self.samples} cannot be written: {error.strerror}",
                        "make room; the same command goes on",
                    ) from None

            yield write

    def _claim(self, file: TextIO) -> None:
        """Keep other processes from writing to the file until it is closed."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFolderError(
                f"{self.path} is in use by another process", "wait for it, or use --new"
            ) from None

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

    def _replace(self, name: str, data: Mapping[str, Any]) -> None:
        partial = self.path / f".{name}.{os.getpid()}"
        text = json.dumps(finite(data), indent=1, sort_keys=True, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self.path / name)


def _siblings(path: Path) -> Iterator[Path]:
    yield path
    number = 2
    while True:
        yield path.with_name(f"{path.name}-{number}")
        number += 1
