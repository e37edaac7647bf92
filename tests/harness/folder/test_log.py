"""The log: what is kept, what a crash leaves, what is said of damage; and every operation fails once."""

import errno
import json
import os
import zlib
from contextlib import contextmanager
from itertools import count

import pytest
from support.builders import IDENTITY, MANIFEST, with_entries

from edit_harness import files
from edit_harness.errors import HarnessError, ResourceError, RunFolderError
from edit_harness.folder import folder
from edit_harness.folder import log as log_module
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.log import Log, encoded, scan
from edit_harness.folder.record import Record

MARK = "0123456789ab"
SHORT = -1
"""A write that takes one byte only, in the place of an error."""
FULL = errno.EIO, errno.ENOSPC
ERRORS = {"ftruncate": FULL, "write": (SHORT, *FULL), "fsync": FULL, "replace": FULL, "open": FULL}
"""What may come of each call."""


class Faulty:
    """The module `os`, whose n-th call of one name fails, once or from then on."""

    def __init__(self, name, error, number, lasting):
        self.name, self.error, self.number, self.lasting = name, error, number, lasting
        self.calls = 0
        self.failed = False

    def __getattr__(self, name):
        return self.call if name == self.name else getattr(os, name)

    def call(self, *args, **extra):
        self.calls += 1
        due = self.calls >= self.number if self.lasting else self.calls == self.number
        if not due:
            return getattr(os, self.name)(*args, **extra)
        self.failed = True
        if self.error == SHORT:
            return os.write(args[0], bytes(args[1])[:1])
        raise OSError(self.error, os.strerror(self.error))


@contextmanager
def failing(name, error, number, *, lasting=False):
    """Let the n-th call of a name fail in the modules that write a run folder."""
    faulty = Faulty(name, error, number, lasting)
    with pytest.MonkeyPatch.context() as patch:
        for module in (files, folder, log_module):
            patch.setattr(module, "os", faulty)
        yield faulty


def written(path, rows=3):
    log = Log(path, MARK)
    for number in range(rows):
        log.append({"case": f"c{number}", "x": number / 3})
    log.close()
    return path.read_bytes().splitlines(keepends=True)


def read(path, mark=MARK):
    return [line.row["case"] for line in scan(path, mark)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "samples.jsonl"


def test_a_row_is_what_the_format_says(path):
    line = written(path, 1)[0].decode()
    assert line.startswith('{"v": 4, "seq": 0, "fp": "0123456789ab", "case": "c0", "x": ')
    body, _, check = line.partition(', "crc": "')
    assert check == f'{zlib.crc32(body.encode()):08x}"}}\n'
    assert json.loads(line)["x"] == 0


def test_rows_are_ascii_and_have_no_nan(path):
    log = Log(path, MARK)
    log.append({"case": "ü\u2028\ud800", "x": [float("nan"), float("inf")]})
    log.close()
    assert path.read_bytes().isascii()
    (line,) = scan(path)
    assert (line.row["case"], line.row["x"]) == ("ü\u2028\ud800", [None, None])


@pytest.mark.parametrize("fill", [b'{"v": 4, "se', b"\x00" * 40, b'{"v": 4}\n', b""])
def test_an_unfinished_row_is_put_aside_and_cut_before_the_next(path, fill):
    whole = b"".join(written(path))
    path.write_bytes(whole + fill)
    assert read(path) == ["c0", "c1", "c2"]
    assert path.read_bytes() == whole + fill, "who reads changes nothing"
    log = Log(path, MARK)
    assert path.read_bytes() == whole
    if fill:
        assert log.notes == [f"removed {len(fill)} bytes of an unfinished row"]
    assert (log.seq, log.append({"case": "c3"}), log.seq) == (3, 3, 4), "numbers go on"
    log.close()
    assert read(path) == ["c0", "c1", "c2", "c3"]


DAMAGE = {
    "row 1 of .* is damaged .byte 84.: its checksum": lambda a, b, c: (
        a + b.replace(b"c1", b"c7") + c
    ),
    "row 1 of .*: row 2 stands in its place": lambda a, b, c: a + c,
    "row 1 of .*: row 0 stands": lambda a, b, c: a + a + b + c,
    "row 0 of .*: its checksum": lambda a, b, c: (a + b).replace(b"\n", b"\r\n"),
    "row 1 of .*: it is of another run": lambda a, b, c: a + encoded(1, "ba9876543210", {}) + c,
    "another version .log format 5, not 4.": lambda a, b, c: (
        b'{"v": 5, "seq": 0, "fp": "0123456789ab", "crc": "%08x"}\n'
        % zlib.crc32(b'{"v": 5, "seq": 0, "fp": "0123456789ab"')
    ),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_damage_is_said_and_nothing_is_modified(path, said):
    changed = DAMAGE[said](*written(path))
    path.write_bytes(changed)
    for attempt in (lambda: read(path), lambda: Log(path, MARK)):
        with pytest.raises(RunFolderError, match=said) as error:
            attempt()
        assert error.value.code == 7
        assert "repair" in error.value.remedy or "version" in error.value.cause
    assert path.read_bytes() == changed


def test_a_full_disk_keeps_what_was_kept_and_ends_it(path):
    log = Log(path, MARK)
    log.append({"case": "c0"})
    with failing("write", errno.ENOSPC, 1), pytest.raises(ResourceError) as error:
        log.append({"case": "c1"})
    assert error.value.cause == f"{path} cannot be written (No space left on device): 1 rows kept"
    assert error.value.remedy == "make room or see to the disk, and start the same command again"
    with pytest.raises(ResourceError, match="No space left"):
        log.append({"case": "c1"})
    log.close()
    assert read(path) == ["c0"]


def test_a_failed_sync_is_never_tried_again(path):
    log = Log(path, MARK)
    with failing("fsync", errno.EIO, 1) as faulty:
        with pytest.raises(ResourceError, match=r"Input/output error.*: 0 rows kept"):
            log.append({"case": "c0"})
        with pytest.raises(ResourceError):
            log.append({"case": "c1"})
        log.close()
        assert faulty.calls == 1


@pytest.mark.parametrize(("policy", "syncs"), [("row", 3), ("none", 0)])
def test_the_policy_says_when_rows_are_made_safe(path, monkeypatch, policy, syncs):
    monkeypatch.setenv("EDIT_HARNESS_FSYNC", policy)
    log = Log(path, MARK)
    with failing("fsync", errno.EIO, 10**9) as faulty:
        for _ in range(3):
            log.append({})
        log.close()
        assert faulty.calls == syncs


@pytest.mark.parametrize(
    "how",
    [
        lambda path: path.unlink(),
        lambda path: (path.rename(path.with_name("x")), path.write_bytes(b"")),
        lambda path: path.open("ab").write(b"x"),
    ],
)
def test_what_other_programs_do_to_the_file_is_seen(path, how):
    log = Log(path, MARK)
    log.append({})
    how(path)
    with pytest.raises(RunFolderError, match="was changed by another program") as error:
        log.append({})
    assert error.value.code == 7
    log.close()


ROWS = 6


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


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return complete(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(("name", "error"), [(n, e) for n in ERRORS for e in ERRORS[n]])
def test_each_operation_may_fail(tmp_path, expected, name, error, lasting):
    """As SQLite is tried: the first fails, then the second, until a run ends before its turn."""
    if lasting and error == SHORT:
        return  # what is harmless once and never ends would never end
    for number in count(1):
        parent = tmp_path / str(number)
        parent.mkdir()
        if number % 2:
            interrupt(parent)
        failures = []
        with failing(name, error, number, lasting=lasting) as faulty:
            try:
                complete(parent)
            except HarnessError as failure:  # what is none would be a traceback
                failures.append(failure)
        for failure in failures:
            assert error != SHORT
            assert (type(failure), failure.code) == (ResourceError, 5)
            assert str(parent) in failure.cause
        assert complete(parent) == expected
        assert not list(parent.glob("*/.*")), "nothing is left of files that were not finished"
        if not faulty.failed and number % 2:
            break
    assert number > 2
