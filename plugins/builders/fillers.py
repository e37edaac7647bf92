"""Sentences that say nothing of the facts, to stand before a paraphrase as CounterFact's do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from string import Formatter
from typing import Any

from edit_harness import DataError
from edit_harness_plugins.inputs import json_of, text_of

BUILT_IN = Path(__file__).with_name("fillers.json")
REMEDY = 'write a sentence in each line, or {"frames": ["The {noun} was {adj}."], "noun": [...]}'


@dataclass(frozen=True)
class Fillers:
    """Sentence frames, and what their places are filled with."""

    frames: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    """At least two words of each kind: ``{noun}`` and ``{noun2}`` are never the same."""
    ranges: Mapping[str, tuple[int, int]]
    """The least and the greatest number of each kind."""

    def sentence(self, rng: Random) -> str:
        """Fill one frame at random."""
        values: dict[str, str] = {}
        for kind, words in self.words.items():
            values[kind], values[f"{kind}2"] = rng.sample(words, 2)
        for kind, (low, high) in self.ranges.items():
            values[kind] = str(rng.randint(low, high))
        return rng.choice(self.frames).format_map(values)


def read(path: Path) -> Fillers:
    """Return the sentences of a file: JSON with frames and words, or a text of one in each line.

    In JSON there are ``frames``, and a list for each place that they have: two whole numbers are a
    range, and anything else is words. Raises `DataError` if a frame has a place that nothing is said of.
    """
    text = text_of(path)
    data: Any = {"frames": [line.strip() for line in text.splitlines() if line.strip()]}
    if path.suffix.lower() == ".json":
        data = json_of(path, text)
    frames = data.get("frames") if isinstance(data, dict) else None
    if not isinstance(frames, list) or not frames or not _all(str, frames):
        raise DataError(f"{path} has no sentences", REMEDY)
    asked = {place: frame for frame in frames for place in _places(path, frame)}
    kinds = {place.removesuffix("2") for place in asked}
    found = {name: tuple(v) for name, v in data.items() if name in kinds and isinstance(v, list)}
    ranges = {name: v for name, v in found.items() if len(v) == 2 and _all(int, v) and v[0] <= v[1]}
    words = {name: v for name, v in found.items() if len(v) > 1 and _all(str, v)}
    if unknown := asked.keys() - {*words, *(f"{name}2" for name in words), *ranges}:
        place = min(unknown)
        raise DataError(f"{path}: nothing is said of {{{place}}} in {asked[place]!r}", REMEDY)
    return Fillers(tuple(frames), words, ranges)


def _all(kind: type, values: Iterable[Any]) -> bool:
    return all(type(value) is kind for value in values)


def _places(path: Path, frame: str) -> list[str]:
    try:
        return [name for _, name, _, _ in Formatter().parse(frame) if name is not None]
    except ValueError as error:
        raise DataError(f"{path}: {frame!r} is no frame: {error}", REMEDY) from None
