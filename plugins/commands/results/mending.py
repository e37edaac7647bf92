"""The command ``repair``: damaged lines of a run folder are moved aside, never mended.

What is kept are rows whose checksum fits; the others run again. The log that remains is a clean one,
numbered anew and put into place whole, so that a repair that is interrupted changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from edit_harness import durable, lock
from edit_harness.cases import Visit
from edit_harness.errors import ResourceError, RunFolderError, UsageError
from edit_harness.folder import log
from edit_harness.folder.folder import RunFolder, check_regular
from edit_harness.folder.log import BOM, HEAD, Line
from edit_harness.folder.record import FRAME, Record
from edit_harness.wording import counted

DONE = 0
IN_USE = "wait until it has ended"
NAMED = re.compile(rb'"case": "((?:[^"\\]|\\.)*)"')
SHOWN = 10
"""Cases that are named at most."""


@dataclass
class Found:
    """What a damaged log consists of."""

    kept: list[tuple[Line, Record]] = field(default_factory=list)
    bad: list[bytes] = field(default_factory=list)
    withdrawn: list[tuple[int, int]] = field(default_factory=list)
    changed: bool = False
    """Whether the log is to be written anew."""


def repair(run: str) -> int:
    """Repair what can be repaired, say what was done, and return the exit code.

    Raises `RunFolderError` for a manifest or cases that do not fit, since no row says what they were;
    for one of another run, before anything is touched.
    """
    path = Path(run).expanduser()
    if not (path / "samples.jsonl").is_file():
        raise UsageError(f"{run} is no run folder: it has no samples.jsonl", "name one")
    check_regular(path)
    folder = RunFolder(path, _belongs(path))
    try:
        with lock.held(path, IN_USE):
            said = [*_events(folder), *_samples(folder), *_results(folder)]
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be repaired: {error.strerror}", "nothing was changed; make room"
        ) from None
    if said:
        folder.event("repair")
    for line in said:
        click.echo(line)
    if folder.manifest():
        folder.cases()
    if not said:
        click.echo(f"nothing to repair in {path}")
    return DONE


def _belongs(path: Path) -> str:
    """Return what the rows of a folder have to bear; if its manifest is damaged, the first's."""
    with open(path / "samples.jsonl", "rb") as file:
        marks = dict.fromkeys(_mark(line) for data in file if (line := _unchanged(data)))
    try:
        known = RunFolder(path).mark
    except RunFolderError as error:
        if "log format" in error.cause:
            raise
        known = ""
    if known and marks and known not in marks:
        raise RunFolderError(
            f"{path / 'manifest.json'} is of another run than all rows are ({known}, not {min(marks)})",
            "nothing was changed; put the run's own manifest.json and cases.jsonl back",
        )
    return known or next(iter(marks), "")


def _events(folder: RunFolder) -> Iterator[str]:
    """Move a diary aside that is damaged."""
    path = folder.path / "events.jsonl"
    try:
        for _ in log.scan(path):
            pass
    except RunFolderError:
        aside = path.with_name("events.bad.jsonl")
        os.replace(path, aside)
        yield f"events.jsonl was damaged: it is {aside} now"


def _results(folder: RunFolder) -> Iterator[str]:
    """Remove results that are of other rows, or were changed."""
    try:
        folder.results()
    except RunFolderError as error:
        (folder.path / "results.json").unlink()
        durable.sync_folder(folder.path)
        yield f"{error.cause}: it was removed; edit-harness score {folder.path} makes it again"


def _samples(folder: RunFolder) -> Iterator[str]:
    """Write a log anew that is damaged, without what is."""
    try:
        folder.records()
    except RunFolderError as error:
        if "log format" in error.cause:
            raise
    else:
        if not (torn := _torn(folder)).endswith(b"\n"):
            if torn:
                yield f"the next run removes {counted(len(torn), 'byte')} of an unfinished row"
            return
    found = _found(folder)
    kept, conflicting = _counting(found)
    bad = [*found.bad, *(line.data for line in conflicting)]
    lines = [log.encoded(seq, folder.mark, _content(line)) for seq, line in enumerate(kept)]
    durable.put(folder.path / "samples.bad.jsonl", b"".join(bad))
    durable.put(folder.samples, b"".join(lines))
    yield f"kept {counted(len(kept), 'row')}; {counted(len(bad), 'damaged line')} in samples.bad.jsonl"
    yield from _again(bad, kept)


def _torn(folder: RunFolder) -> bytes:
    """Return what stands behind the last sound row: the start of one, or lines that are damaged."""
    end = log.End()
    for _ in log.scan(folder.samples, folder.mark, end):
        pass
    with open(folder.samples, "rb") as file:
        file.seek(end.size)
        return file.read()


def _again(bad: Sequence[bytes], kept: Sequence[Line]) -> Iterator[str]:
    """Say which cases will run again, as far as the lines name them."""
    there = {_case(line.data) for line in kept}
    names = dict.fromkeys(name for line in bad if (name := _case(line)) and name not in there)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    if names:
        yield (
            f"the command that made the run goes on, and runs again: "
            f"{', '.join(list(names)[:SHOWN])}{more}"
        )


def _case(line: bytes) -> str:
    named = NAMED.search(line)
    return named[1].decode("ascii", "replace") if named else ""


def _found(folder: RunFolder) -> Found:
    """Return the rows of a log that are as they were written, wherever they stand."""
    found = Found()
    seen: set[bytes] = set()
    with open(folder.samples, "rb") as file:
        for data in file:
            line = _unchanged(data)
            if not line or _mark(line) != folder.mark:
                found.bad.append(data)
            elif line not in seen:
                seen.add(line)
                _take(found, line)
    found.withdrawn += _told(folder)
    return found


def _take(found: Found, data: bytes) -> None:
    """Take a sound line in: a row, or what withdraws rows."""
    head = HEAD.match(data)
    assert head is not None
    line = Line(int(head[2]), 0, data)
    try:
        if "withdraws" in (row := line.row):
            first, last = row["withdraws"]
            found.withdrawn.append((first, last))
        else:
            found.kept.append((line, Record.read(data)))
    except (ValueError, TypeError, KeyError):
        found.bad.append(data)


def _told(folder: RunFolder) -> Iterator[tuple[int, int]]:
    """Yield what was withdrawn since the last repair, as the diary has it too."""
    ranges: list[tuple[int, int]] = []
    for line in log.scan(folder.path / "events.jsonl"):
        row = line.row
        if row.get("kind") == "repair":
            ranges = []
        elif row.get("kind") == "withdraw":
            ranges.append((row["first"], row["last"]))
    yield from ranges


def _counting(found: Found) -> tuple[list[Line], list[Line]]:
    """Return the rows that stand, and those that contradict each other, of which none does."""
    last: dict[Visit, Record] = {}
    doubtful = set()
    standing = [
        (line, record)
        for line, record in sorted(found.kept, key=lambda pair: pair[0].seq)
        if not any(first <= line.seq <= last for first, last in found.withdrawn)
    ]
    for _, record in standing:
        if (earlier := last.get(record.visit)) and record.contradicts(earlier):
            doubtful.add(record.visit)
        last[record.visit] = record
    kept = [line for line, record in standing if record.visit not in doubtful]
    return kept, [line for line, record in standing if record.visit in doubtful]


def _unchanged(data: bytes) -> bytes:
    """Return a line as it was written, but for its end and a byte order mark; empty if it is not."""
    data = data.removeprefix(BOM)
    data = data[:-2] + b"\n" if data.endswith(b"\r\n") else data
    return data if log.sound(data) else b""


def _mark(line: bytes) -> str:
    head = HEAD.match(line)
    return head[3].decode() if head else ""


def _content(line: Line) -> dict[str, object]:
    return {key: value for key, value in line.row.items() if key not in FRAME}
