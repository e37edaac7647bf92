"""Runs whose workers are killed, against the run of one process: what was lost, doubled or changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

TIMINGS = ("seconds", "crc", "seq", "try")
"""What of a row depends on how long something took, on who came first, or on how often."""
CLOSE = 1e-4
"""Nats by which numbers may differ that come from batches of another size."""


def workers(title: str) -> list[psutil.Process]:
    """Return the processes of workers that this process's nodes have started, by pid.

    Ray has those that wait called ``ray::WorkerActor``, and those at work ``ray::WorkerActor.run``.
    """
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            said = " ".join(child.cmdline()).split()
        except psutil.Error:
            continue
        if said[:1] == [title]:
            found.append(child)
    return sorted(found, key=lambda child: child.pid)


def rows(output: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the rows of a run by their visits, without what depends on timing."""
    read = map(json.loads, samples(output).splitlines())
    return {
        (row["case"], row["state"]): {k: v for k, v in row.items() if k not in TIMINGS}
        for row in read
    }


def samples(output: Path) -> str:
    """Return the log of the one run in a folder."""
    (path,) = output.glob("*/samples.jsonl")
    return path.read_text(encoding="utf-8")


def differences(alone: Path, killed: Path) -> Iterator[str]:
    """Yield what was lost, doubled or changed."""
    written = map(json.loads, samples(killed).splitlines())
    visits = Counter((row["case"], row["state"], row["try"]) for row in written)
    yield from (f"{visit} is there {n} times" for visit, n in visits.items() if n > 1)
    ours, theirs = rows(alone), rows(killed)
    yield from (f"{visit} is lost" for visit in ours.keys() - theirs.keys())
    yield from (f"{visit} was never planned" for visit in theirs.keys() - ours.keys())
    for visit in ours.keys() & theirs.keys():
        yield from (f"{visit}: {what}" for what in unlike(ours[visit], theirs[visit]))


def unlike(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Yield where two rows differ by more than rounding does."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in one.keys() | other.keys():
            yield from unlike(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from unlike(a, b, f"{where}[{i}]")
    elif isinstance(one, float) and isinstance(other, float):
        if not abs(one - other) <= CLOSE:
            yield f"{where} is {other}, not {one}"
    elif one != other:
        yield f"{where} is {other}, not {one}"
