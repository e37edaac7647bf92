"""Counts with their nouns."""

from edit_harness.errors import counted


def test_one_is_no_plural():
    assert counted(1, "case") == "1 case"
    assert counted(0, "case") == "0 cases"
    assert counted(1200, "case") == "1,200 cases"
    assert counted(2, "entry", "entries") == "2 entries"
