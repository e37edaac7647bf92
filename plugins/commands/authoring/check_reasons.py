"""Why a check did not pass, in a line or two, and checks that are no tests of a suite."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import TypeVar

from edit_harness.errors import HarnessError

from .ledger import Finding, Ledger

T = TypeVar("T")
LONGEST = 400


class NotTried(Exception):
    """Something cannot be checked, and the message says why."""


def reason(error: BaseException, files: Collection[str] = ()) -> str:
    """Return what an error says in one line, or a `HarnessError` in two.

    What is raised in one of the package's files is followed by the place.
    """
    if isinstance(error, NotTried | HarnessError):
        return str(error)
    said = next((line.strip() for line in _text(error).split("\n") if line.strip()), "")
    where = _place(error, files)
    if isinstance(error, AssertionError):
        return (said or _statement(error.__traceback__))[:LONGEST] + where
    return f"{type(error).__name__}: {said}".removesuffix(": ")[:LONGEST] + where


def report(error: BaseException, files: Collection[str], whole: str) -> str:
    """Return a whole report of an error, the frames of the package's own files first."""
    own = list(_own(error, files))
    if not own:
        return whole
    head = ["In files of the package:\n", *traceback.format_list(own)]
    return f"{''.join(head)}{type(error).__name__}: {_text(error)}\n\n{whole}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "its text cannot be made"


def _own(error: BaseException, files: Collection[str]) -> Iterator[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    yield from (frame for frame in frames if os.path.realpath(frame.filename) in files)


def _place(error: BaseException, files: Collection[str]) -> str:
    """Return the last place in the package's files, unless it is a test of its suite's."""
    last = list(_own(error, files))[-1:]
    if not last or last[0].name.startswith("test_"):
        return ""
    return f" ({os.path.basename(last[0].filename)}:{last[0].lineno})"


def _statement(trace: TracebackType | None) -> str:
    """Return the line that raised."""
    last = traceback.extract_tb(trace)[-1:]
    lines = [linecache.getline(frame.filename, frame.lineno or 0).strip() for frame in last]
    return lines[0] if lines else "an assertion does not hold"


def attempt(
    ledger: Ledger, finding: Finding, function: Callable[[], T], files: Collection[str] = ()
) -> T | None:
    """Return what a function returns, and note how it went; None if it did not go well.

    What an earlier process tried is tried again only if it went well, and not noted again.
    """
    earlier = ledger.read().known.get(finding.key)
    if earlier and earlier.outcome != "passed":
        return None
    if earlier is None:
        ledger.begin(finding)
    value, ended = None, finding
    try:
        value = function()
    except NotTried as error:
        ended = finding.ended("not tried", reason(error))
    except (Exception, SystemExit) as error:
        details = report(error, files, traceback.format_exc())
        ended = finding.ended("failed", reason(error, files), details=details, raised=True)
    if earlier is None:
        ledger.end(ended)
    return value
