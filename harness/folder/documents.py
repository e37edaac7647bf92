"""The files of a run folder that are made from what is known: manifest, cases and results.

Each is replaced whole, and has a digest that is checked when it is read; whatever does not fit is an
error that says which command makes it again. The rows that results are of stand in `records`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import files
from ..data import Case
from ..errors import ResourceError, RunFolderError, counted
from ..files import dumps
from ..folder.encoding import encode_case
from . import log
from .manifests import AGAIN, Manifest, as_json, decoded, fingerprint
from .stored import Cases


class Documents:
    """The derived files of a run folder. Raises `ResourceError` if one cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples = path / "samples.jsonl"
        self._cases_digest = ""

    def manifest(self) -> Manifest | None:
        """Return the manifest; None if there is none yet.

        Raises `RunFolderError` if it is of another form or was changed, or its fingerprint is not of
        what it names.
        """
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
        """Return the results; empty if there are none yet.

        Raises `RunFolderError` if they were changed, or are of other rows than there are now.
        """
        remedy = f"edit-harness score {self.path} makes it again"
        results = self._document("results.json", remedy)
        if results and results.get("samples") != self._rows():
            raise RunFolderError(f"{self.path / 'results.json'} is of other rows", remedy)
        return results

    def cases(self) -> Cases:
        """Return the cases of the run, in their order. Raises `RunFolderError`."""
        if not self._cases.exists():
            raise RunFolderError(f"{self.path} has no {self._cases.name}", AGAIN)
        if self._stored_digest() != files.sha256_of(self._cases):
            raise RunFolderError(f"{self._cases} was changed after it was written", AGAIN)
        return Cases(self._cases, AGAIN)

    def has_cases(self, ids: Sequence[str]) -> bool:
        """Tell whether the folder has these cases, in this order, as they were written."""
        manifest = self.manifest()
        if manifest is None or manifest.cases != list(ids) or not self._cases.exists():
            return False
        return manifest.cases_sha256 == files.sha256_of(self._cases)

    @property
    def size_of_results(self) -> int:
        """How many bytes of rows the results are of; 0 without results, or with damaged ones."""
        with suppress(RunFolderError, TypeError, KeyError):
            return int(self._document("results.json", AGAIN)["samples"]["bytes"])
        return 0

    def _oddities(self) -> Iterator[str]:
        """Yield what of a run that is held is gone or changed, and is written or run again.

        A manifest that is damaged was put aside before, and an unfinished row cut off. Results whose
        rows are gone are removed.
        """
        size = self.samples.stat().st_size
        aside = self.path / "manifest.bad.json"
        manifest = self.manifest()
        if manifest and manifest.cases:
            if not self._cases.exists():
                yield f"{self._cases.name} was missing: it was written again"
            elif manifest.cases_sha256 != files.sha256_of(self._cases):
                yield f"{self._cases.name} was changed after it was written: it was written again"
        elif size and not (manifest or aside.exists()):
            yield "manifest.json was missing: it was written again"
        if (lost := self.size_of_results - size) > 0:
            (self.path / "results.json").unlink()
            yield (
                f"{counted(lost, 'byte')} of rows that results.json counts were gone: what they were of "
                "runs again"
            )

    def write_manifest(self, manifest: Manifest) -> None:
        """Put the manifest into place, with the fingerprint and the digest of the cases."""
        digest = self._cases_digest or manifest.cases_sha256 or self._stored_digest()
        own = {"fingerprint": fingerprint(manifest.identity), "cases_sha256": digest}
        self._put("manifest.json", files.sealed(as_json(manifest) | own))

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Put the results into place, with the digest of the rows that they are of."""
        self._put("results.json", files.sealed({**results, "samples": self._rows()}))

    def write_cases(self, cases: Iterable[Case]) -> None:
        """Put the cases into place, so that the numbers can be had without their task.

        The manifest is to be written next: it has their digest.
        """
        data = "".join(dumps(encode_case(case)) + "\n" for case in cases).encode()
        self._put(self._cases.name, data)
        self._cases_digest = hashlib.sha256(data).hexdigest()

    @property
    def _cases(self) -> Path:
        return self.path / "cases.jsonl"

    def _stored_digest(self) -> str:
        return manifest.cases_sha256 if (manifest := self.manifest()) else ""

    def _rows(self) -> dict[str, Any]:
        """Return what identifies the rows: their digest and how many bytes they are."""
        if not self.samples.exists():
            return {"sha256": hashlib.sha256().hexdigest(), "bytes": 0}
        size = self.samples.stat().st_size
        return {"sha256": files.sha256_of(self.samples), "bytes": size}

    def _document(self, name: str, remedy: str) -> dict[str, Any]:
        path = self.path / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ResourceError(f"{path} cannot be read: {error.strerror}") from None
        try:
            return files.unsealed(data)
        except ValueError as error:
            _check_version(path, data)
            raise RunFolderError(f"{path} is damaged: {error}", remedy) from None

    def _put(self, name: str, data: bytes) -> None:
        try:
            files.put(self.path / name, data)
        except OSError as error:
            raise unwritable(self.path / name, error) from None


def unwritable(path: Path, error: OSError) -> ResourceError:
    """Return the error for a place that the system does not let be written."""
    return ResourceError(
        f"the run folder {path} cannot be written: {error.strerror}",
        "make room, or name another place: --output-path DIR",
    )


def _check_version(path: Path, data: bytes) -> None:
    """Raise `RunFolderError` if a manifest is of another version of the format."""
    try:
        version = files.strict(data)["identity"]["schema"]
    except (ValueError, TypeError, KeyError):
        return
    if isinstance(version, int) and version != log.VERSION:
        raise log.other_version(path.parent, version)
