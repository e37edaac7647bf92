"""The command ``repair``: damaged lines of a run folder are moved aside, never mended.

What is kept are rows whose checksum fits; the others run again. The log that remains is a clean one,
numbered anew and put into place whole, so that a repair that is interrupted changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from edit_harness import files
from edit_harness.data import Visit
from edit_harness.errors import ResourceError, RunFolderError, UsageError, counted
from edit_harness.folder import log
from edit_harness.folder.folder import RunFolder, check_regular
from edit_harness.folder.log import HEAD
from edit_harness.folder.record import FRAME, Record
from edit_harness.shell.options import debug

IN_USE = "wait until it has ended"
BOM = b"\xef\xbb\xbf"
"""What some editors put before a text."""


@click.command()
@click.argument("run", metavar="RUN")
@debug
def repair(run: str, debug: bool) -> None:
    """Move damaged lines of a run folder aside, so that the command that made it goes on."""
    path = Path(run).expanduser()
    if not (path / "samples.jsonl").is_file():
        raise UsageError(f"{run} is no run folder: it has no samples.jsonl", "name one")
    check_regular(path)
    folder = RunFolder(path, mark_of(path))
    try:
        with files.locked(path, IN_USE):
            said = [*repair_events(path), *repair_log(folder), *repair_results(folder)]
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be repaired: {error.strerror}", "nothing was changed; make room"
        ) from None
    if said:
        folder.event("repair")
    for line in said:
        click.echo(line)
    # A manifest and cases that do not fit cannot be repaired, since no row says what they were.
    if folder.manifest():
        folder.cases()
    if not said:
        click.echo(f"nothing to repair in {path}")


def mark_of(path: Path) -> str:
    """Return what the rows of a folder have to bear; if its manifest is damaged, the first's.

    Raises `RunFolderError` if the manifest is of another run than all rows are.
    """
    with open(path / "samples.jsonl", "rb") as file:
        marks = dict.fromkeys(
            head[3].decode() for data in file if (head := HEAD.match(sound(data)))
        )
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


def sound(data: bytes) -> bytes:
    """Return a line as it was written, but for its end and a byte order mark; empty if it is not."""
    data = data.removeprefix(BOM)
    data = data[:-2] + b"\n" if data.endswith(b"\r\n") else data
    return data if log.sound(data) else b""


def repair_events(path: Path) -> Iterator[str]:
    """Move an event log aside that is damaged."""
    try:
        for _ in log.scan(path / "events.jsonl"):
            pass
    except RunFolderError:
        aside = path / "events.bad.jsonl"
        os.replace(path / "events.jsonl", aside)
        yield f"events.jsonl was damaged: it is {aside} now"


def repair_results(folder: RunFolder) -> Iterator[str]:
    """Remove results that are of other rows, or were changed."""
    try:
        folder.results()
    except RunFolderError as error:
        (folder.path / "results.json").unlink()
        files.sync_folder(folder.path)
        yield f"{error.cause}: it was removed; edit-harness score {folder.path} makes it again"


def repair_log(folder: RunFolder) -> Iterator[str]:
    """Write a log anew that is damaged, without what is."""
    try:
        folder.records()
    except RunFolderError as error:
        if "log format" in error.cause:
            raise
    else:
        if not (torn := unfinished(folder)).endswith(b"\n"):
            if torn:
                yield f"the next run removes {counted(len(torn), 'byte')} of an unfinished row"
            return
    kept, bad = sorted_out(folder)
    rows = [{key: value for key, value in row.items() if key not in FRAME} for row in kept]
    lines = [log.encoded(seq, folder.mark, row) for seq, row in enumerate(rows)]
    files.put(folder.path / "samples.bad.jsonl", b"".join(bad))
    files.put(folder.samples, b"".join(lines))
    yield f"kept {counted(len(kept), 'row')}; {counted(len(bad), 'damaged line')} in samples.bad.jsonl"
    if bad:
        yield "the command that made the run goes on, and runs again what is missing"


def unfinished(folder: RunFolder) -> bytes:
    """Return what stands behind the last sound row: the start of one, or lines that are damaged."""
    end = log.End()
    for _ in log.scan(folder.samples, folder.mark, end):
        pass
    with open(folder.samples, "rb") as file:
        file.seek(end.size)
        return file.read()


def sorted_out(folder: RunFolder) -> tuple[list[dict[str, object]], list[bytes]]:
    """Return the rows that stand, in the order of their numbers, and the lines that are moved aside.

    These are what is damaged, and rows that contradict each other, of which none stands.
    """
    found: dict[bytes, tuple[int, dict[str, object], Record]] = {}
    bad: list[bytes] = []
    withdrawn = list(withdrawn_by_events(folder.path))
    with open(folder.samples, "rb") as file:
        for data in file:
            head = HEAD.match(line := sound(data))
            if not head or head[3].decode() != folder.mark:
                bad.append(data)
                continue
            try:
                row = log.Line(int(head[2]), 0, line).row
                if "withdraws" in row:
                    first, last = row["withdraws"]
                    withdrawn.append((first, last))
                else:
                    found[line] = (int(head[2]), row, Record.read(line))
            except (ValueError, TypeError, KeyError):
                bad.append(line)
    latest: dict[Visit, Record] = {}
    doubtful = set()
    standing = [
        (data, row, record)
        for data, (seq, row, record) in sorted(found.items(), key=lambda item: item[1][0])
        if not any(first <= seq <= last for first, last in withdrawn)
    ]
    for _, _, record in standing:
        if (earlier := latest.get(record.visit)) and record.contradicts(earlier):
            doubtful.add(record.visit)
        latest[record.visit] = record
    kept = [row for _, row, record in standing if record.visit not in doubtful]
    return kept, bad + [data for data, _, record in standing if record.visit in doubtful]


def withdrawn_by_events(path: Path) -> Iterator[tuple[int, int]]:
    """Yield what was withdrawn since the last repair: the row that says so may be damaged."""
    ranges: list[tuple[int, int]] = []
    for line in log.scan(path / "events.jsonl"):
        row = line.row
        if row.get("kind") == "repair":
            ranges = []
        elif row.get("kind") == "withdraw":
            ranges.append((row["first"], row["last"]))
    yield from ranges
