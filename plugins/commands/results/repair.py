"""``score --repair``: damaged lines of a run's log are moved aside, never mended; those cases run again."""

from __future__ import annotations

import re
from pathlib import Path

import click

from edit_harness import files
from edit_harness.data import Visit
from edit_harness.errors import ResourceError, RunFolderError, counted
from edit_harness.folder import log
from edit_harness.folder.folder import RunFolder, check_regular
from edit_harness.folder.record import Record

WITHDRAWN = re.compile(rb'\[(\d+), (\d+)\], "why"')
BOM = b"\xef\xbb\xbf"
"""What some editors put before a text."""


def repair(run: str) -> None:
    """Move damaged lines of a run folder aside, so that the command that made it goes on."""
    path = Path(run).expanduser()
    if not (path / "samples.jsonl").is_file():
        return
    check_regular(path)
    with open(path / "samples.jsonl", "rb") as file:
        # Of a folder without a manifest the first sound row says which run it is.
        first = next((head[3].decode() for head in map(log.sound, file) if head), "")
    folder = RunFolder(path, RunFolder(path).mark or first)
    try:
        with files.locked(path, "wait until it has ended"):
            try:
                folder.records()
                click.echo(f"no line of {path} is damaged")
                return
            except RunFolderError as error:
                if "log format" in error.cause:
                    raise
            kept, bad = sorted_out(folder)
            lines = [log.encoded(seq, folder.mark, record.row) for seq, record in enumerate(kept)]
            files.put(path / "samples.bad.jsonl", b"".join(bad))
            files.put(folder.samples, b"".join(lines))
            (path / "results.json").unlink(missing_ok=True)  # it is of all rows
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be repaired: {error.strerror}", "nothing was changed; make room"
        ) from None
    damaged = counted(len(bad), "damaged line")
    click.echo(f"kept {counted(len(kept), 'row')}; {damaged} in samples.bad.jsonl")


def sorted_out(folder: RunFolder) -> tuple[list[Record], list[bytes]]:
    """Return the records that stand, and the lines that are damaged or contradict each other.

    Raises `RunFolderError` if all rows are another run's.
    """
    found: dict[bytes, tuple[int, Record]] = {}
    bad: list[bytes] = []
    marks, withdrawn = set[str](), list[tuple[int, int]]()
    with open(folder.samples, "rb") as file:
        for data in file:
            # Line ends that were changed, as by git, are put right.
            line = data.removeprefix(BOM).replace(b"\r\n", b"\n")
            head = log.sound(line)
            marks |= {head[3].decode()} if head else set()
            if not head or head[3].decode() != folder.mark:
                bad.append(data)
                # What was withdrawn stays so, though the row that says it is damaged.
                withdrawn += [(int(a), int(b)) for a, b in WITHDRAWN.findall(data)]
                continue
            try:
                row = log.Line(int(head[2]), 0, line).row
                if "withdraws" in row:
                    withdrawn.append(tuple(row["withdraws"]))
                else:
                    found[line] = int(head[2]), Record.read(line)
            except (ValueError, TypeError, KeyError):
                bad.append(line)
    if marks and folder.mark not in marks:
        raise RunFolderError(
            f"{folder.path / 'manifest.json'} is of another run than all rows are",
            "nothing was changed; put the run's own manifest.json and cases.jsonl back",
        )
    standing = {
        line: record
        for line, (number, record) in sorted(found.items(), key=lambda item: item[1][0])
        if not any(first <= number <= last for first, last in withdrawn)
    }
    latest: dict[Visit, Record] = {}
    doubtful = set()  # visits of which two rows say different things
    for record in standing.values():
        if (earlier := latest.get(record.visit)) and record.contradicts(earlier):
            doubtful.add(record.visit)
        latest[record.visit] = record
    bad += [line for line, record in standing.items() if record.visit in doubtful]
    return [record for record in standing.values() if record.visit not in doubtful], bad
