"""A baseline: what an unedited model answers to a task's cases, published as a file of JSON Lines.

It shows that a run was of this model, on these cases, asked in this way; it says nothing of what comes
after an edit. This module needs no torch; `build` makes the files.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, json

from edit_harness.data import Answer, Case, Scores, Text
from edit_harness.errors import DataError
from edit_harness.files import digest, dumps, replacing
from edit_harness.folder.encoding import encode_case
from edit_harness.folder.manifest import Identity
from edit_harness.interfaces import ModelSource

UNIT = 1e-5
"""What log-probabilities are stored in whole numbers of, in nats: machines differ by more."""
TOLERANCE = 1e-4
"""How far two honest measurements of a target's log-probability may be apart, in nats."""
SHARE = 0.999
"""How many of the values have to be within the tolerance."""
MAKE = "make one: edit-harness leaderboard baseline -m MODEL -t TASK --output FILE"
Answered = Iterable[tuple[Case, Sequence[Answer | None]]]


class Header(Struct, frozen=True, kw_only=True):
    """What a file is of."""

    baseline: Literal[1] = 1
    name: str = ""
    """Under which the model is published."""
    model: str
    config: str
    tokenizer: str
    dtype: str
    task: str
    version: str
    data: str

    @property
    def place(self) -> tuple[str, ...]:
        """What a run's baseline is called."""
        return self.model, self.dtype, self.task, self.version, self.data


class Line(Struct, frozen=True, omit_defaults=True):
    """What is published of one case."""

    id: str
    hash: str
    """Of all that the case consists of."""
    tokens: str = ""
    """A digest of the tokens that its candidates consist of."""
    likeliest: str = ""
    """A digest of the tokens that the model found likeliest in their places."""
    answers: list[Any] = []
    """By probe: log-probabilities of the candidates in `UNIT`, the digest of a text, or None; empty of a
    case that cannot be asked."""


@dataclass(frozen=True)
class Baseline:
    """A file: what it is of, and its cases in their order."""

    header: Header
    lines: Mapping[str, Line]


def place_of(identity: Identity) -> tuple[str, ...]:
    """Return what a run's baseline is called, from what identifies the run."""
    model, task = identity.model, identity.task
    return model.digest, model.dtype, task.name, task.version, task.data


def line(case: Case, answers: Sequence[Answer | None]) -> Line:
    """Return what is published of a case; ``answers`` are its probes', in order, or none."""
    scores = [answer for answer in answers if isinstance(answer, Scores)]
    published: list[Any] = []
    for answer in answers:
        if isinstance(answer, Scores):
            published.append([round(_sum(part) / UNIT) for part in answer.logprobs])
        else:
            published.append(_short(answer.text) if isinstance(answer, Text) else None)
    return Line(
        case.id,
        digest(encode_case(case))[:16],
        _short([answer.tokens for answer in scores]) if scores else "",
        _short([answer.argmax for answer in scores]) if scores else "",
        published,
    )


def _sum(logprobs: Sequence[float | None]) -> float:
    """Return the log-probability of all tokens; None among them stands for a number that is not finite."""
    return -math.inf if None in logprobs else math.fsum(logprobs)  # type: ignore[arg-type]


def _short(data: Any) -> str:
    return f"{zlib.crc32(dumps(data).encode()):08x}"


def disagreement(baseline: Baseline, answered: Answered) -> str:
    """Say how answers before the edits cannot be the same model's; empty if they can.

    Few values may be beyond the tolerance, and the rest may not drift.
    """
    found: list[tuple[float, str]] = []
    for case, answers in answered:
        if (published := baseline.lines.get(case.id)) is not None and answers:
            apart = _differences(published, line(case, answers), answers)
            found += [(off, case.id) for off in apart]
    beyond = sum(not off <= TOLERANCE for off, _ in found)
    finite = [off for off, _ in found if math.isfinite(off)]
    mean = math.fsum(finite) / len(finite) if finite else 0.0
    if beyond <= (1 - SHARE) * len(found) and not mean > TOLERANCE / 10:
        return ""
    worst, where = max(found)
    return (
        f"{beyond} of {len(found)} values before the edits are not those of the baseline (worst "
        f"{worst:.3g} nats, case {where!r}; mean {mean:.2g}; allowed {TOLERANCE:g})"
    )


def _differences(
    published: Line, measured: Line, answers: Sequence[Answer | None]
) -> Iterator[float]:
    """Yield how far each value is from what was published, in nats; infinity for another token or text."""
    if len(published.answers) != len(answers):
        yield math.inf
        return
    if published.likeliest:
        same = [published.tokens, published.likeliest] == [measured.tokens, measured.likeliest]
        yield 0.0 if same else math.inf
    for known, answer, own in zip(published.answers, answers, measured.answers, strict=True):
        if isinstance(known, list) and isinstance(answer, Scores):
            if len(known) != len(answer.logprobs):
                yield math.inf
                continue
            for number, part in zip(known, answer.logprobs, strict=True):
                yield abs(number * UNIT - _sum(part))
        elif known is not None:
            yield 0.0 if known == own else math.inf


def write(path: Path, header: Header, lines: Iterable[Line]) -> None:
    """Write a baseline; its folder is there. Raises `OSError`."""
    with replacing(path) as partial, partial.open("wb") as file:
        for each in (header, *lines):
            file.write(json.encode(each) + b"\n")


def header_of(path: Path) -> Header:
    """Return what a file says that it is of. Raises `DataError` if it is no baseline."""
    try:
        with path.open("rb") as file:
            return json.decode(file.readline(), type=Header)
    except OSError as error:
        raise DataError(f"the baseline {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path} is no baseline: {error}", MAKE) from None


def read(path: Path) -> Baseline:
    """Return the baseline of a file. Raises `DataError` if it is none."""
    header = header_of(path)
    try:
        _, *rest = path.read_bytes().splitlines()
        lines = [json.decode(text, type=Line) for text in rest]
    except ValueError as error:
        raise DataError(f"the baseline {path} is damaged: {error}", MAKE) from None
    return Baseline(header, {each.id: each for each in lines})


def shipped(source: ModelSource) -> list[Path]:
    """Return the baselines that a model brings along."""
    return sorted(Path(source.baselines).glob("*.jsonl")) if source.baselines else []


def find(paths: Iterable[Path], place: tuple[str, ...]) -> Baseline | None:
    """Return the baseline of a model, a dtype and a task's data, if one of the files is it."""
    return next((read(path) for path in paths if header_of(path).place == place), None)


def mismatch(source: ModelSource, identity: Identity, answered: Answered) -> str:
    """Say how answers before the edits differ from the baseline that the model brings, if it brings one."""
    known = find(shipped(source), place_of(identity))
    return disagreement(known, answered) if known else ""
