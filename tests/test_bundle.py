"""Bundles that are made to do harm: each is refused with a reason, within the limits of memory and time."""

import json
import os
import resource
import stat
import struct
import time
import zipfile
from dataclasses import replace
from io import BytesIO

import pytest
from bundles import digest, folder_of

from edit_harness_plugins.commands.leaderboard import bundle, strict
from edit_harness_plugins.commands.leaderboard.findings import Rejected
from edit_harness_plugins.commands.leaderboard.inspecting import inspect
from edit_harness_plugins.commands.leaderboard.limits import MEMBERS, Limits
from edit_harness_plugins.commands.leaderboard.rows import Rows

SMALL = Limits(
    members=8, compressed=200_000, uncompressed=400_000, ratio=50, document=100_000, row=2_000, rows=40,
    text=500,
)  # fmt: skip


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


def linked(path):
    info = zipfile.ZipInfo("manifest.json")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return archive(path, [(info, "/etc/passwd")])


def device(path):
    info = zipfile.ZipInfo("samples.jsonl")
    info.create_system, info.external_attr = 3, (stat.S_IFCHR | 0o666) << 16
    return archive(path, [(info, b"")])


def twice(path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        return named("manifest.json", "manifest.json")(path)


def with_nul(path):
    path.write_bytes(named("manifest.json_.exe")(path).read_bytes().replace(b"_", b"\0"))
    return path


def encrypted(path):
    data = bytearray(named("manifest.json")(path).read_bytes())
    data[6] |= 1
    data[data.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    return path


def lzma(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as written:
        written.writestr("manifest.json", b"{}")
    return path


def bomb(path):
    return archive(path, [("samples.jsonl", b"0" * 300_000)])


def slow_bomb(path):
    """Each member is within its ratio, all together are not within the size."""
    noise = os.urandom(4_000)
    return archive(path, [(name, noise + b"0" * 100_000) for name in MEMBERS])


def lying_sizes(path):
    """The headers say that there are two bytes."""
    data = bytearray(bomb(path).read_bytes())
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.find(mark) + at, 2)
    path.write_bytes(data)
    return path


def zip64_lies(path):
    """The central directory says that the member has 2^64 - 2 bytes."""
    data = bytearray(named("manifest.json")(path).read_bytes())
    at = data.find(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 0xFFFFFFFF)
    struct.pack_into("<H", data, at + 30, 12)
    name = at + 46 + len("manifest.json")
    data[name:name] = struct.pack("<HHQ", 1, 8, 2**64 - 2)
    end = data.find(b"PK\x05\x06")
    struct.pack_into("<I", data, end + 12, struct.unpack_from("<I", data, end + 12)[0] + 12)
    path.write_bytes(data)
    return path


def nested(path):
    inner = BytesIO()
    with zipfile.ZipFile(inner, "w") as written:
        written.writestr("manifest.json", b"{}")
    return archive(path, [("inner.zip", inner.getvalue())])


def cut_off(path):
    path.write_bytes(named(*MEMBERS)(path).read_bytes()[:-30])
    return path


def bytes_of(data):
    def make(path):
        path.write_bytes(data)
        return path

    return make


def pipe(path):
    os.mkfifo(path)
    return path


def folder_with(make):
    def made(path):
        path.mkdir()
        make(path / "manifest.json")
        return path

    return made


def hard_linked(path):
    elsewhere = path.parent.with_name("elsewhere")
    elsewhere.write_text("{}")
    os.link(elsewhere, path)


CONTAINERS = {
    "a path above": (named("../manifest.json"), "a member that no bundle has: ../manifest.json"),
    "an absolute path": (named("/etc/cron.d/x"), "a member that no bundle has: /etc/cron.d/x"),
    "a backslash": (named("..\\manifest.json"), "a member that no bundle has"),
    "a name with a NUL": (with_nul, "a member that no bundle has"),
    "a name in other letters": (
        named("Manifest.json"),
        "a member that no bundle has: Manifest.json",
    ),
    "a name with a control sequence": (named("\x1b[2J"), r"a member that no bundle has: \\x1b\[2J"),
    "a folder": (named("manifest.json/"), "a member that no bundle has: manifest.json/"),
    "its folder around it": (
        named("prompt/manifest.json"),
        "pack the files themselves, without their folder, as `edit-harness submit` does",
    ),
    "litter": (named(".DS_Store", "manifest.json"), "of a file manager; `edit-harness submit RUN`"),
    "more litter": (named("__MACOSX/._manifest.json"), "of a file manager"),
    "a run's folder": (
        named("manifest.json", "lock"),
        "this is a run's folder: `edit-harness submit RUN` makes a bundle of it",
    ),
    "code": (named("plugin.py"), "a member that no bundle has: plugin.py"),
    "a pickle": (named("edit.pkl"), "a member that no bundle has: edit.pkl"),
    "an archive inside": (nested, "a member that no bundle has: inner.zip"),
    "too many members": (named(*(f"{i}.json" for i in range(9))), "more than 8 members"),
    "a name twice": (twice, "two members have the name manifest.json"),
    "a link": (linked, "manifest.json is no regular file"),
    "a device": (device, "samples.jsonl is no regular file"),
    "encrypted": (encrypted, "manifest.json is encrypted"),
    "another compression": (lzma, "manifest.json is compressed in another way than deflate"),
    "a bomb": (bomb, "samples.jsonl unpacks to over 50 times its size"),
    "a slow bomb": (slow_bomb, "unpacks to more than 400,000 bytes"),
    "sizes that lie": (lying_sizes, "no .zip that can be read"),
    "sizes of 2^64": (zip64_lies, "manifest.json has 2 bytes, and not as many as its header says"),
    "too large": (bytes_of(b"PK" * 200_000), "400,000 bytes, more than 200,000"),
    "cut off": (cut_off, "no .zip that can be read"),
    "empty": (bytes_of(b""), "no .zip that can be read"),
    "no archive": (bytes_of(b"\x7fELF" + bytes(1000)), "no .zip that can be read"),
    "nothing": (lambda path: path, "cannot be read: No such file"),
    "a pipe": (pipe, "neither a .zip nor a folder"),
    "a folder with a link": (
        folder_with(lambda p: p.symlink_to("/etc/passwd")),
        "cannot be opened",
    ),
    "a folder with a hard link": (folder_with(hard_linked), "no regular file of its own"),
    "a folder with a pipe": (folder_with(os.mkfifo), "no regular file of its own"),
    "a folder with a folder": (folder_with(lambda p: p.mkdir()), "no regular file of its own"),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_that_is_no_bundle(name, tmp_path):
    make, why = CONTAINERS[name]
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
        **content, "SHA256SUMS": bundle.sums(content),
    }  # fmt: skip


TEXTS = {
    "NaN": (b'{"a": NaN}', "NaN is no JSON number"),
    "infinity": (b"[-Infinity]", "-Infinity is no JSON number"),
    "beyond floats": (b"[1e999]", "1e999 is out of range"),
    "a long number": (b"[" + b"7" * 33 + b"]", "a number of 33 characters"),
    "a number of a million digits": (
        b"[" + b"7" * 10**6 + b"]",
        "a number of 1,000,000 characters",
    ),
    "a long fraction": (b"[0." + b"3" * 40 + b"]", "a number of 42 characters"),
    "a key twice": (b'{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is there twice"),
    "deep": (b"[" * 17 + b"]" * 17, "deeper than 16"),
    "very deep": (b"[" * 100_000 + b"]" * 100_000, "deeper than 16"),
    "deep in objects": (b'{"a":' * 17 + b"1" + b"}" * 17, "deeper than 16"),
    "a long text": (b'"' + b"x" * 501 + b'"', "a text of 501 characters"),
    "a long key": (b'{"' + b"x" * 501 + b'": 1}', "a text of 501 characters"),
    "half a surrogate": (rb'["\ud800"]', "half of a surrogate pair"),
    "half a surrogate in a key": (rb'{"\udfff": 1}', "half of a surrogate pair"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte 0 is not ASCII: 0xef"),
    "UTF-16": ("{}".encode("utf-16"), "byte 0 is not ASCII"),
    "a NUL": (b'{"a": "\0"}', "no JSON"),
    "bytes after it": (b"{} {}", "no JSON"),
    "nothing": (b"", "no JSON"),
    "a comment": (b"{} // no", "no JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_json_that_is_not_strict(name):
    text, why = TEXTS[name]
    with pytest.raises(Rejected, match=why):
        strict.loads(text, SMALL)


def test_json_that_is_strict():
    deep = "[" * 16 + "]" * 16
    for text in (
        '{"a": [1, -2.5e-3, null, true, "\\u00e9\\ud83d\\ude00"]}',
        deep,
        '"' + "x" * 500 + '"',
    ):
        assert strict.loads(text.encode(), SMALL) == json.loads(text)


ROW = {"v": 4, "seq": 0, "fp": "0" * 12, "case": "1", "state": 0, "try": 1, "status": "ok"}
CRC = {"crc": "00000000"}
BACK = {"v": 4, "seq": 5, "fp": "0" * 12}


def jsonl(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


FILES = {
    "a huge row": (jsonl({**ROW, "message": "x" * 2000, **CRC}), "line 1 is longer than 2,000 bytes"),
    "too many rows": (jsonl(*[{**ROW, **CRC}] * 41), "more than 40 lines"),
    "no end": (jsonl({**ROW, **CRC})[:-1], "line 1 has no end: the file was cut off"),
    "no object": (b"[]\n", "line 1: no JSON object"),
    "an empty line": (b"\n", "line 1: no JSON"),
    "CRLF": (jsonl({**ROW, **CRC}).replace(b"\n", b"\r\n") + b"\x85\n", "line 2: byte 0 is not ASCII"),
    "another version": (jsonl({**ROW, "v": 3, **CRC}), "line 1: version 3 of rows, not 4"),
    "another order": (jsonl({**dict(reversed(ROW.items())), **CRC}), "line 1: a row begins with v, seq"),
    "a number as a case": (jsonl({**ROW, "case": 1, **CRC}), "line 1: case is 1, no str"),
    "a boolean as a number": (jsonl({**ROW, "state": True, **CRC}), "line 1: state is True, no int"),
    "a try of 0": (jsonl({**ROW, "try": 0, **CRC}), "tries at 1"),
    "values that are none": (jsonl({**ROW, "values": {"m": {"x": None}}, **CRC}), "values are no num"),
    "an unknown field": (jsonl({**ROW, "zeal": 1, **CRC}), "a row has no field 'zeal'"),
    "fields out of order": (jsonl({**ROW, "noop": True, "before": [], **CRC}), "sorted by name"),
    "taking back what is to come": (
        jsonl({**BACK, "withdraws": [0, 9], "why": "", **CRC}), "cannot be withdrawn by row 5"),
    "taking back nothing": (jsonl({**BACK, "withdraws": 3, "why": "", **CRC}), "from one number to"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_rows_that_are_none(name, tmp_path):
    data, why = FILES[name]
    path = tmp_path / "samples.jsonl"
    path.write_bytes(data)
    with pytest.raises(Rejected, match=why):
        Rows.read(path, SMALL)


def inspected(tmp_path, path, limits=None, level=3):
    place = tmp_path / "place"
    place.mkdir()
    return inspect(path, level, place, limits=limits)


def test_a_bundle_of_nonsense_is_refused_in_a_process_of_its_own(tmp_path):
    content = members(**{"cases.jsonl": b"", "manifest.json": b'{"cases": [\n'})
    path = folder_of(tmp_path / "bundle", {**content, "SHA256SUMS": bundle.sums(content)})
    found = inspected(tmp_path, path)
    assert [finding.check for finding in found.failed] == ["0.4"]
    assert "manifest.json: no JSON" in found.failed[0].text
    assert not found.good


def test_memory_is_bounded(tmp_path):
    """A document of small objects takes many times its size in memory: the process may not have it."""
    content = members(
        **{"cases.jsonl": b"", "manifest.json": b'{"a": [' + b"[[]]," * 4_000_000 + b"[]]}"}
    )
    path = folder_of(tmp_path / "bundle", {**content, "SHA256SUMS": bundle.sums(content)})
    limits = Limits(memory=700 << 20)
    found = inspected(tmp_path, path, limits)
    assert found.failed[0].text == "reading it takes more than 734,003,200 bytes of memory"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10 < 2 << 30


def test_time_is_bounded(tmp_path):
    rows = b'{"a": [[[[[1, 2, 3]]]]]}\n' * 1_000_000
    content = members(**{"cases.jsonl": b"", "events.jsonl": rows})
    path = folder_of(tmp_path / "bundle", {**content, "SHA256SUMS": bundle.sums(content)})
    begun = time.monotonic()
    found = inspected(tmp_path, path, replace(Limits(), seconds=4))
    assert "more than 4 s of processor time" in found.failed[0].text
    assert time.monotonic() - begun < 60
