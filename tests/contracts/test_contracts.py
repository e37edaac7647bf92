"""Nets are cast by `python -m tests.contracts`; here the quick one, and that they see what moves."""

import pytest

from tests.contracts import nets, transcripts


def test_commands_print_what_they_printed():
    """If it is meant: `python -m tests.contracts transcripts --write`, and read the difference.

    Numbers of JSON have all their digits, which another processor rounds otherwise.
    """
    said = nets.changes(nets.stored("transcripts"), transcripts.cast(), nets.TOLERANCE)
    assert not [line for line in said if "--json" not in line]


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
