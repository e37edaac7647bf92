"""Why a check did not pass, in a line or two, and checks that are no tests of a suite."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from edit_harness.errors import HarnessError
from edit_harness.ledger import Finding, Ledger

T = TypeVar("T")
LONGEST = 400


class NotTried(Exception):
    """Something cannot be checked, and the message says why."""


def reason(error: BaseException) -> str:
    """Return what an error says in one line, or a `HarnessError` in two."""
    if isinstance(error, NotTried | HarnessError):
        return str(error)
    said = next((line.strip() for line in str(error).split("\n") if line.strip()), "")
    if isinstance(error, AssertionError):
        return (said or _statement(error.__traceback__))[:LONGEST]
    return f"{type(error).__name__}: {said}".removesuffix(": ")[:LONGEST]


def _statement(trace: TracebackType | None) -> str:
    """Return the line that raised."""
    last = traceback.extract_tb(trace)[-1:]
    lines = [linecache.getline(frame.filename, frame.lineno or 0).strip() for frame in last]
    return lines[0] if lines else "an assertion does not hold"


def attempt(ledger: Ledger, finding: Finding, function: Callable[[], T]) -> T | None:
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
        ended = finding.ended("failed", reason(error), details=traceback.format_exc())
    if earlier is None:
        ledger.end(ended)
    return value
