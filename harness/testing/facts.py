"""What editors under test are asked to write; nothing here needs torch."""

from __future__ import annotations

from edit_harness.cases import Request

FACTS = (
    Request("{} lives in", "Ann", "Rome", "Oslo"),
    Request("The firm of {} is", "Bob", "Saab", "Fiat"),
)
"""What editors are asked to write."""
