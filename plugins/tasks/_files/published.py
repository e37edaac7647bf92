"""Tasks whose cases come from one published file: where it is, and whether it is the right one."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from edit_harness import Case, DataError, Generate, ModelSource, Task
from edit_harness.files import cache_folder, sha256_of
from edit_harness_plugins.downloads import Remote, fetch, set_aside
from edit_harness_plugins.inputs import file_at

from .records import Entry

TEXT_TOKENS, TEXT_TOP_K = 100, 5
"""How texts are sampled: the length with the prompt, and among how many."""
HOSTS = ("https://rome.baulab.info", "https://memit.baulab.info")


def hosted(name: str, size: int = 0, sha256: str = "") -> Remote:
    """Return a file among the data that the authors of ROME and MEMIT share."""
    return Remote(tuple(f"{host}/data/dsets/{name}" for host in HOSTS), name, size, sha256)


def unusable(name: str, problem: str) -> Case:
    """Return the case of a record that none can be made of: it is listed, and not run."""
    return Case(name, (), (), problem=problem)


def sampled_text(prompt: str, words: str) -> Generate:
    """Return the query for a text as ROME's code samples it, drawn by a seed made of words."""
    return Generate(
        prompt,
        max_new_tokens=TEXT_TOKENS,
        top_k=TEXT_TOP_K,
        seed=zlib.crc32(words.encode()),
        max_tokens=TEXT_TOKENS,
        to_the_end=True,
    )


@dataclass(frozen=True)
class Published:
    """A benchmark's file as its authors share it."""

    title: str
    """What the benchmark is called in messages."""
    remote: Remote
    records: int
    """How many it has; a download with another number is not right."""
    sha256: str = ""
    """Empty if unknown. A download that departs from it may still be right, and is noted."""
    size: int = 0
    """In bytes; 0 if unknown."""


@dataclass
class SampledTask(Task):
    """A task on data of its authors', or on a sample that the model brings along."""

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), "download", or where the data are."""

    sample: ClassVar[str]
    """Key of the model's own sample among the data that its source brings along."""
    otherwise: ClassVar[str] = "download"
    """What "auto" is for a model without a sample."""
    _sampled = False

    def bind(self, source: ModelSource) -> Self:
        """Return the task with the model's own sample, or with the authors' data."""
        if self.data != "auto":
            return self
        sample = source.data.get(self.sample, "")
        bound = replace(self, data=sample or self.otherwise)
        bound._sampled = bool(sample)
        return bound

    @property
    def origin(self) -> str:
        """Say in a few words which data the cases come from."""
        if self._sampled:
            return "bundled sample"
        return "authors' file" if self._downloads else Path(self.data).name

    @property
    def _downloads(self) -> bool:
        return self.data in ("auto", "download")


@dataclass
class FileTask(SampledTask):
    """A task with one case, at most, for every record of a file.

    A record of no use makes a case that says why. Raises `DataError` if the data cannot be had, or are
    not of the layout.
    """

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), "download", or a .json or .jsonl file."""

    published: ClassVar[Published]

    @abstractmethod
    def records(self, path: Path) -> list[Entry]:
        """Return the records of a file, checked. Raises `DataError` that lists problems."""

    @abstractmethod
    def made_of(self, entries: Sequence[Entry]) -> Iterable[Case]:
        """Yield the cases, in the order of the records."""

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say what is known of the authors' file, and what is taken by default."""
        known = cls.published
        return {
            "default": "the sample that the model brings along, or else the authors' file",
            "records": f"{known.records:,} in the authors' file",
            "from": " or ".join(known.remote.urls),
            "size": f"{known.size:,} bytes" if known.size else "unknown",
            "sha256": known.sha256 or "unknown; a run says what it got",
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data; it may download them."""
        known = self.published
        if not self._downloads or (digest := self.digest) == known.sha256:
            return ()
        got = f"got sha256 {digest} ({self._file().stat().st_size:,} bytes)"
        if not known.sha256:
            return (f"no checksum of {known.title} is known; {got}",)
        expected = f"expected sha256 {known.sha256} ({known.size:,} bytes)"
        return (f"the downloaded {known.title} is not the file that is known: {expected}, {got}",)

    @property
    def digest(self) -> str:
        """The SHA-256 of the file that the cases come from; it may download it."""
        return sha256_of(self._file())

    def cases(self) -> Iterable[Case]:
        """Yield the cases, in the order of the file."""
        path = self._file()
        try:
            entries = self.records(path)
            wanted = self.published.records
            if self._downloads and len(entries) != wanted:
                raise DataError(f"{path} has {len(entries):,} records, not {wanted:,}")
        except DataError as error:
            if not self._downloads:
                raise
            got, known = sha256_of(path), self.published.sha256
            sums = f"expected sha256 {known}, got {got}" if known else f"sha256 {got}"
            remedy = (
                f"{error.remedy}; the download was moved to {set_aside(path)}: try again, and if it is "
                "the same, correct a copy and name it with --task-args data=FILE"
            )
            raise DataError(f"{error.cause} ({sums})", remedy.lstrip("; ")) from None
        yield from self.made_of(entries)

    def _file(self) -> Path:
        if self._downloads:
            return fetch(self.published.remote)
        remedy = f"data is a .json or .jsonl file, or 'download' (to {cache_folder()})"
        return file_at(self.data, remedy)


@dataclass
class GivenFileTask(FileTask):
    """A task on a file of its authors' that the user gets, since no download can be vouched for.

    Raises `DataError` that says where the file is if none is given and the model brings no sample.
    """

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), or a .json or .jsonl file."""

    otherwise = "auto"
    files: ClassVar[str]
    """The authors' files, and how many records each has."""

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say where the authors' files are, and that none of them has been tried."""
        return {
            "default": "the sample that the model brings along; or else a file, data=FILE",
            "records": cls.files,
            "from": f"{cls.published.remote.urls[0]} (not downloaded by edit-harness)",
            "size": "unknown",
            "sha256": "unknown; untried on the genuine files, read by their published layout",
        }

    @property
    def _downloads(self) -> bool:
        return False

    def _file(self) -> Path:
        if self.data != "auto":
            return file_at(self.data, "data is a .json or .jsonl file")
        raise DataError(
            f"{self.published.title} is not downloaded, and the model brings no sample of it",
            f"get a file from {self.published.remote.urls[0]}: --task-args data=FILE",
        )
