"""What the suites of all kinds share: a check that changes the process leaves nothing to the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..registry import process


class Suite:
    """The base of all suites."""

    @pytest.fixture(autouse=True)
    def process_as_before(self) -> Iterator[None]:
        """Put the process back, so that one fault fails the checks that are for it, and no others."""
        before = process.read()
        yield
        process.put_back(before)
