"""Logic with a third value: None is what has no verdict, and may still turn out either way."""

from __future__ import annotations

from collections.abc import Iterable


def some(found: Iterable[bool | None]) -> bool | None:
    """Tell whether one is true; None if that hangs on what is not known."""
    values = list(found)
    return True if True in values else None if None in values else False


def every(found: Iterable[bool | None]) -> bool | None:
    """Tell whether all are true; None if that hangs on what is not known."""
    values = list(found)
    return False if False in values else None if None in values else True
