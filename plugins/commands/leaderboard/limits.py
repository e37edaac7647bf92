"""What a bundle may take: of disk, memory and time, and of each thing in it."""

from __future__ import annotations

from dataclasses import dataclass

MEMBERS = ("cases.jsonl", "manifest.json", "results.json", "samples.jsonl", "submission.json")
"""What a bundle consists of, besides its checksums."""
SUMS = "SHA256SUMS"
OPTIONAL = ("events.jsonl",)
NAMES = frozenset({*MEMBERS, *OPTIONAL, SUMS})


@dataclass(frozen=True)
class Limits:
    """The limits of one bundle; sizes in bytes."""

    members: int = 16
    compressed: int = 200_000_000
    uncompressed: int = 2_000_000_000
    """Counted while it is read: headers may lie."""
    ratio: int = 200
    """Of a member's size to what it takes in the archive."""
    document: int = 64_000_000
    """A file that is one JSON value."""
    row: int = 1_000_000
    rows: int = 1_100_000
    text: int = 64_000
    """Characters of a string."""
    name: int = 100
    """Characters of what pages show as a name."""
    word: int = 1_000
    """Characters of what a submitter says of one thing."""
    depth: int = 16
    number: int = 32
    """Characters of a number."""
    memory: int = 2 << 30
    """Address space of the process that reads it."""
    seconds: int = 120
    """Processor time of that process."""
