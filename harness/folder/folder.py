"""The run folder: its log, and the files that are made from what is known: manifest, cases, results.

How a row becomes safe, and what a crash leaves, stands in `log`. The other files are replaced whole,
and have digests that are checked when they are read; whatever does not fit is an error that says which
command makes it again. This module needs no torch.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

from .. import files
from ..data import Case
from ..errors import ResourceError, RunFolderError, UsageError, counted
from ..files import dumps
from . import log
from .encoding import encode_case
from .log import Log
from .manifest import AGAIN, Identity, Manifest, as_json, decoded, fingerprint
from .record import Writer
from .table import Cases, RunTable


def folder_name(
    label: str, task: str, model: str, mode: str, precision: str = "", share: str = ""
) -> str:
    """Return what the folder of a run is called, but for its fingerprint; single edits go unsaid."""
    parts = label, task, model, "" if mode == "single" else mode, precision, share
    return "-".join(re.sub(r"[^\w.=]|_", "-", part).strip("-") for part in parts if part)


def check_regular(folder: Path) -> None:
    """Raise `RunFolderError` for a link, a pipe or a device in a folder, or one level below it.

    A folder that somebody sent may hold a link to a file of ours, which a command would then write into.
    """
    for path in (*folder.glob("*"), *folder.glob("*/*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            cause = f"{path} is a link or no file at all, which no run folder has"
            raise RunFolderError(cause, "if the folder is yours, put the file itself there")


class RunFolder:
    """One run on disk. Raises `ResourceError` if a file cannot be read or written."""

    def __init__(self, path: Path, mark: str = "") -> None:
        self.path = path
        self.samples = path / "samples.jsonl"
        self.notes: list[str] = []
        self._cases = path / "cases.jsonl"
        self._cases_digest = ""
        self._mark = mark

    @classmethod
    def at(cls, name: str) -> RunFolder:
        """Return a run folder that is there. Raises `UsageError` if it is none, and what `check_regular` does."""
        path = Path(name).expanduser()
        if not (path / "manifest.json").is_file():
            cause = f"{name} is no run folder: it has no manifest.json"
            raise UsageError(cause, "edit-harness ls runs lists them; -o DIR says where they are")
        check_regular(path)
        return cls(path)

    @classmethod
    def open(cls, parent: Path, name: str, identity: Identity, *, new: bool) -> RunFolder:
        """Make the folder of a run, or find it again; ``new`` makes a sibling if there is one already."""
        mark = fingerprint(identity)
        path = parent / f"{name}-{mark[:8]}"
        if new:
            siblings = (path.with_name(f"{path.name}-{number}") for number in count(2))
            path = next(each for each in chain([path], siblings) if not each.exists())
        with written(path):
            path.mkdir(parents=True, exist_ok=True)
            files.sync_folder(path.parent)
        return cls(path, mark)

    @property
    def mark(self) -> str:
        """What every row bears; empty if nothing says which run this is."""
        manifest = None if self._mark else self.manifest()
        return (manifest.fingerprint if manifest else self._mark)[: log.MARK]

    def manifest(self) -> Manifest | None:
        """Return the manifest; None if there is none yet. Raises `RunFolderError` if it is damaged."""
        path = self.path / "manifest.json"
        if not (data := self._document(path.name, AGAIN)):
            return None
        try:
            manifest = decoded(data, Manifest)
        except ValueError as error:
            raise RunFolderError(f"{path} is damaged: {error}", AGAIN) from None
        if manifest.fingerprint != fingerprint(manifest.identity):
            raise RunFolderError(f"the fingerprint of {path} is not of what it names", AGAIN)
        return manifest

    def planned(self) -> Manifest:
        """Return the manifest. Raises `RunFolderError` also if there is none."""
        if (manifest := self.manifest()) is None:
            raise RunFolderError(f"{self.path} has no manifest.json", AGAIN)
        return manifest

    def results(self) -> dict[str, Any]:
        """Return the results; empty if there are none yet. Raises `RunFolderError` if they are of other rows."""
        remedy = f"edit-harness score {self.path} makes it again"
        results = self._document("results.json", remedy)
        if results and results.get("samples") != self._rows():
            raise RunFolderError(f"{self.path / 'results.json'} is of other rows", remedy)
        return results

    def cases(self, ids: Sequence[str] = ()) -> Cases:
        """Return the cases of the run, in their order; ``ids`` are known ones. Raises `RunFolderError`."""
        if damage := self._cases_damage(self.manifest()):
            raise RunFolderError(f"{self._cases} {damage}", AGAIN)
        return Cases(self._cases, ids)

    def has_cases(self, ids: Sequence[str]) -> bool:
        """Tell whether the folder has these cases, in this order, as they were written."""
        manifest = self.manifest()
        same = manifest is not None and manifest.cases == list(ids)
        return same and not self._cases_damage(manifest)

    def _cases_damage(self, manifest: Manifest | None) -> str:
        if not self._cases.exists():
            return "was missing"
        same = manifest is not None and manifest.cases_sha256 == files.sha256_of(self._cases)
        return "" if same else "was changed after it was written"

    def records(self, *, whole: bool = False) -> RunTable:
        """Return the records so far: of each visit the last that was not withdrawn.

        A last row that is not whole is not looked at: another process may be writing it. Raises
        `RunFolderError` for damage, for two rows of one try that differ, and, if they are to be
        ``whole``, for rows that are gone since the results were written.
        """
        there, end = 0, log.End()
        with suppress(RunFolderError, TypeError, KeyError):
            there = int(self._document("results.json", AGAIN)["samples"]["bytes"]) if whole else 0
        table = RunTable.read(self.samples, log.scan(self.samples, self.mark, end))
        if end.size < there:
            gone = f"the last {counted(there - end.size, 'byte')} of {there:,}"
            cause = f"rows that results.json counts are gone from {self.samples}: {gone}"
            raise RunFolderError(cause, "the command that made the run makes them again")
        return table

    def write_manifest(self, manifest: Manifest) -> None:
        """Put the manifest into place, with the fingerprint and the digest of the cases."""
        known = None if self._cases_digest or manifest.cases_sha256 else self.manifest()
        digest = self._cases_digest or (known or manifest).cases_sha256
        own = {"fingerprint": fingerprint(manifest.identity), "cases_sha256": digest}
        self._put("manifest.json", files.sealed(as_json(manifest) | own))

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Put the results into place, with the digest of the rows that they are of."""
        self._put("results.json", files.sealed({**results, "samples": self._rows()}))

    def write_cases(self, cases: Iterable[Case]) -> None:
        """Put the cases into place; the manifest is to be written next, which has their digest."""
        data = "".join(dumps(encode_case(case)) + "\n" for case in cases).encode()
        self._put(self._cases.name, data)
        self._cases_digest = hashlib.sha256(data).hexdigest()

    @contextmanager
    def writing(self, instead: str = "wait for it, or use --new") -> Iterator[Writer]:
        """Claim the folder, cut off an unfinished row, and yield what writes a record.

        ``instead`` is what to do if another process writes into it.
        """
        with files.locked(self.path, instead):
            samples = Log(self.samples, self.mark)
            try:
                self.notes += [*samples.notes, *self._aside()]
                yield Writer(samples)
            finally:
                samples.close()

    def _aside(self) -> list[str]:
        """Put a damaged manifest aside, since the run writes it again; return what to say of it."""
        path = self.path / "manifest.json"
        try:
            self.manifest()
        except RunFolderError as error:
            if not self._mark:
                raise
            aside = path.with_name("manifest.bad.json")
            os.replace(path, aside)
            return [f"{error.cause}; it was written again, the old one is {aside}"]
        return []

    def _rows(self) -> dict[str, Any]:
        """Return what identifies the rows: their digest and how many bytes they are."""
        if not self.samples.exists():
            return {"sha256": hashlib.sha256().hexdigest(), "bytes": 0}
        return {"sha256": files.sha256_of(self.samples), "bytes": self.samples.stat().st_size}

    def _document(self, name: str, remedy: str) -> dict[str, Any]:
        path = self.path / name
        try:
            return files.unsealed(path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ResourceError(f"{path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise RunFolderError(f"{path} is damaged: {error}", remedy) from None

    def _put(self, name: str, data: bytes) -> None:
        with written(self.path / name):
            files.put(self.path / name, data)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Say which place the system does not let be written."""
    try:
        yield
    except OSError as error:
        cause = f"the run folder {path} cannot be written: {error.strerror}"
        raise ResourceError(cause, "see to that place, or name another: --output DIR") from None
