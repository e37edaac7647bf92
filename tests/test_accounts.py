"""What is looked at when a run ends."""

import pytest

from edit_harness.errors import HarnessError, ResourceError
from edit_harness.folder import accounts
from edit_harness.folder.records import Record, RunFolder

VISITS = [("a", 0), ("b", 0), ("c", 0)]


@pytest.fixture
def folder(tmp_path):
    """A folder of three rows."""
    made = RunFolder.open(tmp_path, "run", {}, new=False)
    with made.writing() as write:
        for name, _ in VISITS:
            write(Record(name, "ok", {"m": {"post_x": 1.0, "pre_x": float("nan")}}))
    return made


@pytest.fixture
def known(folder):
    return {record.visit: record for record in folder.records()}


def test_rows_as_they_were_written_pass(folder, known):
    accounts.check(VISITS, folder, known)


def test_a_row_that_is_missing_is_a_mistake_of_ours(folder, known):
    del known["b", 0]
    with pytest.raises(HarnessError, match="1 of 3 planned cases have no row, such as b") as caught:
        accounts.check(VISITS, folder, known)
    assert caught.value.code == 70


def test_a_status_that_there_is_not_is_a_mistake_of_ours(folder, known):
    known["c", 0] = Record("c", "fine", {})
    with pytest.raises(HarnessError, match="such as c"):
        accounts.check(VISITS, folder, known)


def test_a_row_that_reads_otherwise_than_it_was_made_is_the_disks(folder, known):
    known["c", 0] = Record("c", "ok", {"m": {"post_x": 0.5}})
    with pytest.raises(
        ResourceError, match=r"the row of case c in .* is not what was written"
    ) as e:
        accounts.check(VISITS, folder, known)
    assert e.value.code == 5
