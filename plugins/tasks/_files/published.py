"""Tasks whose cases come from one published file: where it is, and whether it is the right one."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from edit_harness import Case, DataError, Generate, ModelSource, Task
from edit_harness.files import cache_folder, sha256_of
from edit_harness_plugins.downloads import Remote, fetch, from_hub, set_aside
from edit_harness_plugins.inputs import Layout, file_at

from .records import Entry, Form, Record, read

TEXT_TOKENS, TEXT_TOP_K = 100, 5
"""How texts are sampled: the length with the prompt, and among how many."""
HOSTS = ("https://rome.baulab.info", "https://memit.baulab.info")


def hosted(name: str, size: int = 0, sha256: str = "", hosts: Sequence[str] = HOSTS) -> Remote:
    """Return a file among the data that the authors of ROME and MEMIT share."""
    return Remote(tuple(f"{host}/data/dsets/{name}" for host in hosts), name, size, sha256)


def unusable(name: str, problem: str) -> Case:
    """Return the case of a record that none can be made of: it is listed, and not run."""
    return Case(name, (), (), problem=problem)


def sampled_text(prompt: str, words: str) -> Generate:
    """Return the query for a text as ROME's code samples it, drawn by a seed made of words."""
    most, seed = TEXT_TOKENS, zlib.crc32(words.encode())
    return Generate(
        prompt, max_new_tokens=most, top_k=TEXT_TOP_K, seed=seed, max_tokens=most, to_the_end=True
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


@dataclass
class SampledTask(Task):
    """A task on data of its authors', or on a sample that the model brings along."""

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), "download", or where the data are."""

    sample: ClassVar[str]
    """Key of the model's own sample among the data that its source brings along."""
    further: ClassVar[Mapping[str, Published]] = {}
    """Other files that the authors share, by the name that ``data`` may be."""
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
        authors = self.data if self.data in self.further else "file"
        return f"authors' {authors}" if self._downloads else Path(self.data).name

    @property
    def _downloads(self) -> bool:
        return self.data in ("auto", "download", *self.further)


@dataclass
class FileTask(SampledTask):
    """A task with one case, at most, for every record of a file.

    A record of no use makes a case that says why. Raises `DataError` if the data cannot be had, or are
    not of the layout.
    """

    data: str = "auto"
    """"auto" (the model's own sample, if it brings one), "download", or a .json or .jsonl file, such as
    one on the hub: hf://OWNER/NAME/FILE@REVISION."""

    published: ClassVar[Published]
    files: ClassVar[str] = ""
    """Which files there are, if no download can be vouched for: the user has to get one."""
    layout: ClassVar[type[Layout]]
    others: ClassVar[Sequence[Form]] = ()
    key: ClassVar[str] = ""
    """The field that a case is called by; without one, it is its record's position, counted from 0."""
    passed: ClassVar[Collection[str]] = ()

    @abstractmethod
    def _wrong(self, record: Record) -> Iterable[str]:
        """Say why no case can be made of a record; this and the fields above are for `records.read`."""

    @abstractmethod
    def _case(self, name: str, record: Record, position: int) -> Case:
        """Return the case of a record."""

    def _takes(self, record: Record) -> bool:
        """Tell whether a record has a case at all."""
        return True

    def records(self, path: Path) -> list[Entry]:
        """Return the records of a file, checked. Raises `DataError` that lists problems."""
        return read(path, self.layout, self._wrong, self.key, self.passed, self.others)

    @cached_property
    def _entries(self) -> list[Entry]:
        return self.records(self._file())

    def made_of(self, entries: Sequence[Entry]) -> Iterator[Case]:
        """Yield the cases, in the order of the records."""
        for i, (record, problem) in enumerate(entries):
            if self._takes(record):
                name = str(record[self.key] if self.key else i)
                yield unusable(name, problem) if problem else self._case(name, record, i)

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say what is known of the authors' file, and what is taken by default."""
        known, home = cls.published, " or ".join(cls.published.remote.urls)
        taken = "a file, data=FILE" if cls.files else "the authors' file"
        untried = "untried on the genuine files, read by their published layout"
        more = [
            f"{it.records:,} with data={it.title}, {it.remote.urls[0]}"
            for it in cls.further.values()
        ]
        sums = untried if cls.files else "a run says what it got"
        return {
            "default": f"the sample that the model brings along, or else {taken}",
            "records": cls.files or "; ".join([f"{known.records:,} in the authors' file", *more]),
            "from": f"{home} (not downloaded by edit-harness)" if cls.files else home,
            "size": f"{known.remote.size:,} bytes" if known.remote.size else "unknown",
            "sha256": known.sha256 or f"unknown; {sums}",
        }

    @property
    def _authors(self) -> Published:
        return self.further.get(self.data, self.published)

    @property
    def _downloads(self) -> bool:
        return not self.files and super()._downloads

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know of the data; it may download them."""
        known = self._authors
        if not self._downloads or (digest := self.digest) == known.sha256:
            return ()
        got = f"got sha256 {digest} ({self._file().stat().st_size:,} bytes)"
        if not known.sha256:
            return (f"no checksum of {known.title} is known; {got}",)
        expected = f"expected sha256 {known.sha256} ({known.remote.size:,} bytes)"
        return (f"the downloaded {known.title} is not the file that is known: {expected}, {got}",)

    @property
    def digest(self) -> str:
        """The SHA-256 of the file that the cases come from; it may download it."""
        return sha256_of(self._file())

    def cases(self) -> Iterable[Case]:
        """Yield the cases, in the order of the file."""
        path, known = self._file(), self._authors
        try:
            entries = self._entries = self.records(path)  # what is asked afterwards is of these
            if self._downloads and len(entries) != known.records:
                raise DataError(f"{path} has {len(entries):,} records, not {known.records:,}")
        except DataError as error:
            if not self._downloads:
                raise
            got = sha256_of(path)
            sums = f"expected sha256 {known.sha256}, got {got}" if known.sha256 else f"sha256 {got}"
            remedy = (
                f"{error.remedy}; the download was moved to {set_aside(path)}: try again, and if it is "
                "the same, correct a copy and name it with --task-args data=FILE"
            )
            raise DataError(f"{error.cause} ({sums})", remedy.lstrip("; ")) from None
        yield from self.made_of(entries)

    def _file(self) -> Path:
        if self._downloads:
            return fetch(self._authors.remote, ", or name another: --task-args data=FILE")
        if self.data == "auto":
            home = self.published.remote.urls[0]
            cause = f"{self.published.title} is not downloaded, and the model brings no sample"
            raise DataError(cause, f"get a file from {home}: --task-args data=FILE")
        if self.data.startswith("hf://"):
            return from_hub(self.data)
        names = ", ".join(map(repr, ("download", *self.further)))
        other = "" if self.files else f", or {names} (to {cache_folder()})"
        return file_at(
            self.data, f"data is a .json or .jsonl file, hf://OWNER/NAME/FILE@REVISION{other}"
        )
