"""The safe reader of a bundle: an archive, or a folder, to plain files of known names in a folder of ours.

Nothing is parsed here but the archive itself, and nothing is trusted that its headers say. Members are
read as streams, one after the other, and counted; there is no way to name another file than those on the
list.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import IO

from .findings import Rejected, shown
from .limits import MEMBERS, NAMES, Limits

PIECE = 1 << 16
DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members, so that the same run gives the same bytes."""
RUN = "lock"
"""A file that the folder of a run has, and no bundle."""
LITTER = {".DS_Store", "__MACOSX", "Thumbs.db", "desktop.ini"}
"""What file managers leave behind."""
BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    OverflowError, LookupError, OSError,
)  # fmt: skip
"""What `zipfile` raises for archives that are damaged, or made to be."""


def unpack(bundle: Path, into: Path, limits: Limits) -> dict[str, str]:
    """Copy the members of a bundle into a folder, and return their SHA-256 by name.

    Raises `Rejected` for anything that is no bundle, before more than the limits are read or written.
    """
    try:
        mode = bundle.stat().st_mode
    except OSError as error:
        raise Rejected(f"cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        return _from_folder(bundle, into, limits)
    if not stat.S_ISREG(mode):
        raise Rejected("neither a .zip nor a folder")
    if (size := bundle.stat().st_size) > limits.compressed:
        raise Rejected(f"{size:,} bytes, more than {limits.compressed:,}")
    try:
        with zipfile.ZipFile(bundle) as archive:
            return _from_archive(archive, into, limits)
    except BROKEN as error:
        raise Rejected(f"no .zip that can be read: {shown(str(error))}") from None


def pack(members: dict[str, bytes], out: Path) -> None:
    """Write members and their checksums as an archive; the same members give the same bytes.

    Raises `OSError`.
    """
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    whole = {**members, "SHA256SUMS": sums(members)}
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(whole):
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, whole[name])
    partial.replace(out)


def sums(members: dict[str, bytes]) -> bytes:
    """Return the file of checksums, in the one form that it may have."""
    return listed({name: digest(data) for name, data in members.items()})


def digest(data: bytes) -> str:
    """Return the SHA-256 of a member, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def listed(digests: dict[str, str]) -> bytes:
    """Return the file of checksums that says these, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def _from_folder(folder: Path, into: Path, limits: Limits) -> dict[str, str]:
    with os.scandir(folder) as entries:
        found = sorted(entry.name for entry in islice(entries, limits.members + 1))
    _check_names(found, limits)
    budget = _Budget(limits)
    digests = {}
    for name in found:
        try:
            # No link is followed, and opening waits for nobody.
            number = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise Rejected(f"{name} cannot be opened: {error.strerror}") from None
        with closing(_Descriptor(number)) as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise Rejected(f"{name} is no regular file of its own")
            digests[name] = _copied(file.read, into / name, budget)
    return digests


def _from_archive(archive: zipfile.ZipFile, into: Path, limits: Limits) -> dict[str, str]:
    infos = archive.infolist()
    _check_names([info.orig_filename for info in infos], limits)
    for info in infos:
        _check_member(info)
    budget = _Budget(limits)
    digests = {}
    for info in infos:
        with closing(archive.open(info)) as member:
            read = _reader(member, info, limits.ratio)
            digests[info.filename] = _copied(read, into / info.filename, budget)
        if (size := (into / info.filename).stat().st_size) != info.file_size:
            raise Rejected(
                f"{info.filename} has {size:,} bytes, and not as many as its header says"
            )
    return digests


def _check_names(names: Iterable[str], limits: Limits) -> None:
    """Raise `Rejected` unless every name is on the list, and none is there twice."""
    names = list(names)
    if len(names) > limits.members:
        raise Rejected(f"more than {limits.members} members")
    if wrong := [name for name in names if name not in NAMES]:
        raise Rejected(f"a member that no bundle has: {shown(wrong[0])}{_hint(names, wrong)}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise Rejected(f"two members have the name {twice[0]}")


def _hint(names: list[str], wrong: list[str]) -> str:
    """Return what has probably happened to somebody who meant no harm; empty if that is not known."""
    if RUN in names:
        return "; this is a run's folder: `edit-harness submit RUN` makes a bundle of it"
    if any(LITTER & {*name.split("/")} for name in wrong):
        return ", of a file manager; `edit-harness submit RUN` makes the archive without it"
    if {name.rpartition("/")[2] for name in names} & {*MEMBERS}:
        return "; pack the files themselves, without their folder, as `edit-harness submit` does"
    return ""


def _check_member(info: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise Rejected(f"{info.filename} is no regular file")
    if info.flag_bits & 1:
        raise Rejected(f"{info.filename} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Rejected(
            f"{info.filename} is compressed in another way than deflate, which `edit-harness submit` uses"
        )


def _reader(member: IO[bytes], info: zipfile.ZipInfo, ratio: int) -> Callable[[int], bytes]:
    """Return what reads a member, and raises `Rejected` when it unpacks to more than the ratio allows."""
    left = ratio * max(info.compress_size, 1)

    def read(size: int) -> bytes:
        nonlocal left
        piece = member.read(size)
        left -= len(piece)
        if left < 0:
            raise Rejected(f"{info.filename} unpacks to over {ratio} times its size")
        return piece

    return read


class _Descriptor:
    """An open file, of whatever kind, that is read piece by piece."""

    def __init__(self, number: int) -> None:
        self.number = number

    def read(self, size: int) -> bytes:
        return os.read(self.number, size)

    def close(self) -> None:
        os.close(self.number)


class _Budget:
    """How many bytes all members may still have together."""

    def __init__(self, limits: Limits) -> None:
        self.left = self.most = limits.uncompressed

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise Rejected(f"unpacks to more than {self.most:,} bytes")


def _copied(read: Callable[[int], bytes], path: Path, budget: _Budget) -> str:
    """Copy a stream to a new file, and return its SHA-256."""
    digest = hashlib.sha256()
    with path.open("xb") as file:
        while piece := read(PIECE):
            budget.take(len(piece))
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()
