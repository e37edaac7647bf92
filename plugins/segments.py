"""Segments of a run: which rows were made by which software, on which machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType, structs

from edit_harness.folder.manifest import Asked, Segment

if TYPE_CHECKING:
    from edit_harness.run.rows import RunRows

NUMERIC = ("torch", "transformers", "tokenizers", "numpy", "cuda", "processor")
"""What of an environment numbers may depend on: on another Python, system or number of threads, less."""


def changed(rows: RunRows, environment: Mapping[str, str]) -> list[str]:
    """Return how software differs from that of the last rows, as far as numbers may depend on it."""
    before = [s for s in rows.folder.planned().segments if s.first < rows.first]
    return software(before[-1].environment, environment) if before else []


def begin(rows: RunRows, environment: Mapping[str, str], asked: Asked | UnsetType = UNSET) -> None:
    """Note the environment of the next rows, and what was ``asked`` again in it."""
    manifest = rows.folder.planned()
    *known, now = extended(manifest.segments, rows.first, environment)
    now = structs.replace(now, asked=asked) if asked else now
    rows.folder.write_manifest(structs.replace(manifest, segments=[*known, now]))


def extended(
    segments: Sequence[Segment], seq: int, environment: Mapping[str, str]
) -> list[Segment]:
    """Return the segments of a run whose rows are made in an environment from one on."""
    known = [s for s in segments if s.first < seq]
    if seq and not known:  # the manifest was lost
        known = [Segment(first=0, last=None, environment={})]
    if known and known[-1].environment == environment:
        return [*known[:-1], structs.replace(known[-1], last=None)]
    ended = [structs.replace(segment, last=seq - 1) for segment in known[-1:]]
    return [*known[:-1], *ended, Segment(first=seq, last=None, environment=dict(environment))]


def software(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Say in what two environments differ that numbers may depend on; what is not known of one is not."""
    return [
        f"{name} {other[name]}, not {one[name]}"
        for name in NUMERIC
        if name in one and name in other and one[name] != other[name]
    ]
