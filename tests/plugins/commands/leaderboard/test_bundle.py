"""Bundles that are made to do harm: each is refused with a reason, within the limits of memory and time."""

import json
import os
import resource
import struct
import zipfile
import zlib

import pytest
from support.builders import MANIFEST
from support.bundles import archive_of, digest, sums

from edit_harness.errors import RunFolderError
from edit_harness.folder.manifest import fingerprint
from edit_harness.folder.record import Record
from edit_harness_plugins.commands.leaderboard import bundle
from edit_harness_plugins.commands.leaderboard.bundle import MEMBERS, Limits, Rejected
from edit_harness_plugins.commands.leaderboard.evidence import Evidence
from edit_harness_plugins.commands.leaderboard.verify import inspect

SMALL = Limits(compressed=200_000, uncompressed=400_000)


def members(**changes):
    """Return members that are no bundle, but get as far as being unpacked."""
    return dict.fromkeys(MEMBERS, b"{}\n") | changes


def archive(path, entries):
    """Write an archive of entries as they are given."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        for info, data in entries:
            written.writestr(info, data)
    return path


def named(*names):
    return lambda path: archive(path, [(name, b"{}") for name in names])


def twice(path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        return named("manifest.json", "manifest.json")(path)


def with_nul(path):
    path.write_bytes(named("manifest.json_.exe")(path).read_bytes().replace(b"_", b"\0"))
    return path


def slow_bomb(path):
    """Each member is small, all together are not within the size."""
    noise = os.urandom(4_000)
    return archive(path, [(name, noise + b"0" * 100_000) for name in MEMBERS])


def lying_sizes(path):
    """The headers say that there are two bytes."""
    data = bytearray(archive(path, [("samples.jsonl", b"0" * 300_000)]).read_bytes())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.find(mark) + at, 2)
    path.write_bytes(data)
    return path


def bytes_of(data):
    def make(path):
        path.write_bytes(data)
        return path

    return make


def pipe(path):
    os.mkfifo(path)
    return path


def run_folder(path):
    path.mkdir()
    (path / "samples.jsonl").touch()
    return path


CONTAINERS = {
    "a path above": (named("../manifest.json"), "a member that no bundle has: ../manifest.json"),
    "a backslash": (named("..\\manifest.json"), "a member that no bundle has"),
    "a name with a NUL": (with_nul, "a member that no bundle has"),
    "its folder around it": (named("prompt/manifest.json"), "without a folder"),
    "a name twice": (twice, "two members have the name manifest.json"),
    "a slow bomb": (slow_bomb, r"unpacks to more than [\d,]+ bytes"),
    "sizes that lie": (lying_sizes, "no .zip that can be read"),
    "too large": (bytes_of(b"PK" * 200_000), "400,000 bytes, more than 200,000"),
    "nothing": (lambda path: path, "no .zip that can be read: .*No such file"),
    "a pipe": (pipe, "no file: `edit-harness leaderboard submit RUN` makes a bundle"),
    "a run": (
        run_folder,
        "a run folder: `edit-harness leaderboard submit .*bundle.zip` bundles it",
    ),
}


@pytest.mark.parametrize(("make", "why"), CONTAINERS.values(), ids=CONTAINERS)
def test_a_container_that_is_no_bundle(make, why, tmp_path):
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(Rejected, match=why):
        bundle.unpack(make(tmp_path / "bundle.zip"), into, SMALL)
    assert sum(file.stat().st_size for file in into.iterdir()) <= SMALL.uncompressed


def test_what_is_packed_is_unpacked(tmp_path):
    content = members()
    for name in ("a.zip", "b.zip"):
        bundle.pack(content, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    into = tmp_path / "into"
    into.mkdir()
    found = bundle.unpack(tmp_path / "a.zip", into, SMALL)
    assert {name: found[name] for name in content} == {n: digest(d) for n, d in content.items()}
    assert {path.name: path.read_bytes() for path in into.iterdir()} == {
        **content, "SHA256SUMS": sums(content),
    }  # fmt: skip


TEXTS = {
    "NaN": (b'{"a": NaN}', "NaN is no number"),
    "a number of a million digits": (b"[" + b"7" * 10**6 + b"]", "no JSON: Exceeds the limit"),
    "a key twice": (b'{"a": 1, "b": {"c": 1, "c": 2}}', "a key is there twice"),
    "very deep": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "half a surrogate": (rb'["\ud800"]', "surrogates not allowed"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte 0 is not ASCII: 0xef"),
}


@pytest.mark.parametrize(("text", "why"), TEXTS.values(), ids=TEXTS)
def test_json_that_is_not_strict(text, why):
    with pytest.raises(Rejected, match=why):
        bundle.loads(text)
    whole = b'{"a": [1, -2.5e-3, null, true, "\\u00e9\\ud83d\\ude00"]}'
    assert bundle.loads(whole) == json.loads(whole)


MARK = fingerprint(MANIFEST.identity)[:12]
ROW = {"v": 4, "seq": 0, "fp": MARK, **Record("1", "ok", {}).row}


def row(old="", new="", **fields):
    """Return a row with other fields, and with another text for one that JSON has of it."""
    body = json.dumps({**ROW, **fields}).replace(old, new).removesuffix("}").encode()
    return body + b', "crc": "%08x"}\n' % zlib.crc32(body)


ROWS = {
    "no end": (row()[:-1], "the last row was changed or cut off"),
    "a stale checksum": (row()[:-4] + b'"}\n' + row(), "its checksum does not fit"),
    "another version": (row(v=3), "was made by another version"),
    "a key twice": (row('"case": "1"', '"case": "1", "case": "2"'), "a key is there twice"),
    "a boolean as a number": (row(state=True), "Expected `int`, got `bool`"),
    "a number beyond floats": (
        row('"values": {}', '"values": {"m": {"x": 1e999}}'),
        "[Nn]umber out of range",
    ),
}


@pytest.mark.parametrize(("data", "why"), ROWS.values(), ids=ROWS)
def test_rows_that_are_none(data, why, tmp_path):
    (tmp_path / "samples.jsonl").write_bytes(data)
    evidence = Evidence(tmp_path, tmp_path, None)
    evidence.manifest = MANIFEST
    with pytest.raises((Rejected, RunFolderError), match=why):
        _ = evidence.standing


def inspected(tmp_path, manifest, limits):
    """Return what is found of a bundle with a manifest, in a process of its own."""
    place = tmp_path / "place"
    place.mkdir()
    content = members(**{"cases.jsonl": b"", "manifest.json": manifest})
    path = archive_of(tmp_path / "bundle.zip", {**content, "SHA256SUMS": sums(content)})
    return inspect(path, 3, place, [], limits)


def test_memory_is_bounded(tmp_path):
    """A document of small objects takes many times its size in memory: the process may not have it."""
    many = b'{"a": [' + b"[[]]," * 4_000_000 + b"[]]}"
    found = inspected(tmp_path, many, Limits(memory=700 << 20))
    assert not found.good
    assert found.having("failed")[0].text == (
        "reading it ended the process (exit code 1); it may take 120 s of processor time and "
        "734,003,200 bytes of memory"
    )
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10 < 2 << 30


def test_time_is_bounded(tmp_path):
    found = inspected(tmp_path, b'{"a": [' + b"1," * 29_000_000 + b"1]}", Limits(seconds=1))
    assert "it may take 1 s of processor time" in found.having("failed")[0].text
