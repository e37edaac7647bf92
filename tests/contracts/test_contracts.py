"""Nets are cast by `python -m tests.contracts`; here, that they see what moves."""

import pytest

from tests.contracts import nets


@pytest.mark.parametrize(
    ("now", "seen"),
    [
        ({"post_ES": 0.5 + 1e-5, "n": 3}, False),
        ({"post_ES": 0.51, "n": 3}, True),
        ({"post_ES": 0.5, "n": 4}, True),
        ({"post_ES": 0.5, "n": 3, "new": 1}, True),
    ],
)
def test_a_number_that_moved_is_seen(now, seen):
    then = {"rome": {"post_ES": 0.5, "n": 3}}
    assert bool(nets.changes(then, {"rome": now}, nets.TOLERANCE)) == seen
