"""Every operation on a run folder fails once, in every way: nothing is lost, nothing is changed."""

from itertools import count

import pytest
from support.builders import IDENTITY, MANIFEST, with_entries
from support.faults import ERRORS, SHORT, failing

from edit_harness.errors import HarnessError, ResourceError
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.record import Record

ROWS = 6
HARMLESS = (SHORT,)


def complete(parent, rows=ROWS):
    """Do what a run does with its folder, as far as it lacks it; return what is in it."""
    folder = RunFolder.open(parent, "run", IDENTITY, new=False)
    folder.write_manifest(with_entries(MANIFEST, visits=ROWS))
    with folder.writing() as writer:
        there = {record.case for record in folder.records()}
        for number in range(rows):
            if str(number) not in there:
                assert writer(Record(str(number), "ok", {"m": {"x": number / 3}})) == number
    folder.write_results({"rows": ROWS})
    return {path.name: path.read_bytes() for path in folder.path.glob("[mrs]*.json*")}


def interrupt(parent):
    """Leave a folder as a run does that was killed in its third row."""
    complete(parent, rows=2)
    (samples,) = parent.glob("*/samples.jsonl")
    with open(samples, "ab") as file:
        file.write(b'{"v": 4, "seq": 2')


def attempt(parent):
    """Do it, and return what it fails with; what is no `HarnessError` would be a traceback."""
    try:
        complete(parent)
    except HarnessError as failure:
        return failure
    return None


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return complete(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(("name", "error"), [(n, e) for n in ERRORS for e in ERRORS[n]])
def test_each_operation_may_fail(tmp_path, expected, name, error, lasting):
    """As SQLite is tried: the first fails, then the second, until a run ends before its turn."""
    if lasting and error in HARMLESS:
        pytest.skip("what is harmless once and never ends would never end")
    for number in count(1):
        parent = tmp_path / str(number)
        parent.mkdir()
        if number % 2:
            interrupt(parent)
        with failing(name, error, number, lasting=lasting) as faulty:
            failure = attempt(parent)
        if failure is not None:
            assert error not in HARMLESS
            assert (type(failure), failure.code) == (ResourceError, 5), failure
            assert str(parent) in failure.cause
            assert failure.remedy
        assert complete(parent) == expected
        assert not list(parent.glob("*/.*")), "nothing is left of files that were not finished"
        if not faulty.failed and number % 2:
            break
    assert number > 2
