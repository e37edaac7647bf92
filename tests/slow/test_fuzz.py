"""A run folder that is cut, changed, mixed up anywhere: it says so, or nothing has changed in it."""

import json
import os
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.builders import IDENTITY
from support.folders import FILES, made

from edit_harness.errors import RunFolderError
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import Manifest, as_json
from edit_harness.folder.record import Record
from edit_harness_plugins.commands.results.repair import repair

EXAMPLES = int(os.environ.get("EDIT_HARNESS_FUZZ") or 500)
"""How many mutations are tried; 10,000 were before a release."""


@cache
def originals():
    """Two runs, and what may be read of the first: its documents, and its records by rows kept."""
    parent = Path(tempfile.mkdtemp(prefix="edit-harness-fuzz-"))
    path, other = made(parent, 0), made(parent, 1)
    lines = (path / FILES[0]).read_bytes().splitlines(keepends=True)
    prefixes = []
    for count in range(len(lines) + 1):
        copy = Path(shutil.copytree(path, parent / f"prefix-{count}"))
        (copy / FILES[0]).write_bytes(b"".join(lines[:count]))
        prefixes.append(seen(RunFolder(copy).records))
    documents = [seen(read) for read in readers(RunFolder(path))]
    records = [Record.read(line) for line in lines if b'"withdraws"' not in line]
    rows = {seen(lambda r=r: [r]) for r in records}
    return path, other, prefixes, documents, rows


def readers(folder):
    return [folder.manifest, folder.results, folder.cases]


def seen(read):
    """Return what is read, or None where it is refused."""
    try:
        found = read()
    except RunFolderError as error:
        return None if error.code == 7 and error.remedy else error
    if found is None or isinstance(found, Manifest):
        return found and json.dumps(as_json(found), sort_keys=True)
    if isinstance(found, dict):
        return json.dumps(found, sort_keys=True)
    return repr([item.row if isinstance(item, Record) else item for item in found])


@st.composite
def mutations(draw):
    """Return what turns the bytes of a file into others, and which file's."""
    name = draw(st.sampled_from(FILES[:1] * 4 + FILES[1:]))
    path, other, *_ = originals()
    data = (path / name).read_bytes()
    lines = data.splitlines(keepends=True)
    place = draw(st.integers(0, len(data) - 1))
    one, two = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    kind = draw(st.sampled_from(KINDS))
    if kind == "cut":
        changed = data[:place]
    elif kind == "cut out":
        changed = data[:place] + data[place + draw(st.integers(1, 400)) :]
    elif kind == "byte":
        changed = data[:place] + bytes([draw(st.integers(0, 255))]) + data[place + 1 :]
    elif kind == "insert":
        changed = data[:place] + draw(st.binary(min_size=1, max_size=9)) + data[place:]
    elif kind == "swap":
        lines[one], lines[two] = lines[two], lines[one]
        changed = b"".join(lines)
    elif kind == "remove":
        changed = b"".join([*lines[:one], *lines[one + 1 :]])
    elif kind == "line of another run":
        lines[one] = draw(st.sampled_from((other / name).read_bytes().splitlines(keepends=True)))
        changed = b"".join(lines)
    else:
        changed = ((path if kind == "file" else other) / draw(st.sampled_from(FILES))).read_bytes()
    return name, changed


KINDS = (
    "cut", "cut out", "byte", "byte", "insert", "swap", "remove", "line of another run", "file", "file of another run",
)  # fmt: skip


@settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=EXAMPLES == 500,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(mutations())
def test_no_change_is_silent(mutation):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDIT_HARNESS_FSYNC", "none")
        check(*mutation)


def check(name, changed):
    path, _, prefixes, documents, rows = originals()
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(shutil.copytree(path, Path(temporary, path.name)))
        (copy / name).write_bytes(changed)
        records = seen(RunFolder(copy).records)
        assert records is None or records in prefixes
        if name == "samples.jsonl" and records != prefixes[-1]:
            assert seen(partial(RunFolder(copy).records, whole=True)) is None
        for read, expected in zip(readers(RunFolder(copy)), documents, strict=True):
            # What is sound and of another run is told by the rows.
            assert seen(read) in (None, expected) or records is None
        if name == "samples.jsonl" and records != prefixes[-1]:
            assert seen(RunFolder(copy).results) is None
        assert (copy / name).read_bytes() == changed, "who reads changes nothing"
        went_on = seen(lambda: gone_on(copy))
        assert went_on in (None, prefixes[-1] if name == "manifest.json" else records)
        mended(copy, rows)


def gone_on(path):
    folder = RunFolder.open(path.parent, "run", IDENTITY, new=False)
    with folder.writing():
        return folder.records()


def mended(path, rows):
    """Repair the folder; what is left are rows that were there."""
    try:
        repair(str(path))
    except RunFolderError as error:  # a manifest that does not fit is not repaired
        if "of another run than all rows" in error.cause:
            return
    if seen(RunFolder(path).manifest) is not None:
        found = RunFolder(path).records()
        assert {seen(lambda r=r: [r]) for r in found} <= rows


def test_the_folder_itself_is_sound():
    path, _, prefixes, documents, _ = originals()
    assert seen(RunFolder(path).records) == prefixes[-1]
    assert None not in documents
