"""A bundle: read safely, from an archive to plain files of known names and strict JSON, and what is found in it.

A stranger wrote it. No header is trusted, no name or link is followed, and bytes are counted while they
are read.
"""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from edit_harness import files

MEMBERS = ("cases.jsonl", "manifest.json", "results.json", "samples.jsonl", "submission.json")
SUMS = "SHA256SUMS"
NAMES = frozenset({*MEMBERS, SUMS})
PIECE = 1 << 16
DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members, so that the same run gives the same bytes."""
HIGHEST = 3
"""The level of the last check that needs no model."""
REPLAY = ("4.1", "replay")
"""The check that runs cases again."""
Outcome = Literal["passed", "failed", "unchecked"]
SHOWN = 160
"""Characters of what a bundle says that are repeated."""


class Rejected(Exception):
    """What speaks against a bundle, in one line."""


class CannotCheck(Exception):
    """Why something of a bundle cannot be checked here."""


class Unchecked(str):
    """A remark that says why something cannot be checked here."""


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    check: str
    """Its number, which begins with its level."""
    name: str
    outcome: Outcome
    text: str = ""


def findings(number: str, name: str, remarks: Sequence[str]) -> list[Finding]:
    """Return what a check came to by its remarks; a plain text is a reason to reject the bundle."""
    return [
        Finding(number, name, "unchecked" if isinstance(each, Unchecked) else "failed", str(each))
        for each in remarks
    ] or [Finding(number, name, "passed")]


@dataclass(frozen=True)
class Report:
    """All that is found in a bundle."""

    bundle: str
    level: int
    findings: Sequence[Finding] = ()
    digest: str = ""
    """SHA-256 of its SHA256SUMS, which covers all its content; empty if it has none that can be read."""
    replay: dict[str, Any] = field(default_factory=dict)
    """What came of the cases that were run again; empty below level 4."""

    def having(self, outcome: Outcome) -> list[Finding]:
        """Return the findings of one kind."""
        return [finding for finding in self.findings if finding.outcome == outcome]

    @property
    def reached(self) -> int:
        """The highest level whose checks, and all below, have passed; -1 if none."""
        short = [each for each in self.findings if each.outcome != "passed"]
        return min([self.level, *(int(finding.check[0]) - 1 for finding in short)])

    @property
    def good(self) -> bool:
        """Whether all that was asked for was checked, and nothing speaks against the bundle."""
        return self.reached == self.level

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data."""
        return {**asdict(self), "reached": self.reached, "good": self.good}


def shown(text: object) -> str:
    """Return what a bundle says in printable ASCII, cut short: it may be made for a terminal."""
    plain = ascii(text)[1:-1] if isinstance(text, str) else ascii(text)
    return plain if len(plain) <= SHOWN else f"{plain[:SHOWN]}..."


@dataclass(frozen=True)
class Limits:
    """What one bundle may take; sizes in bytes."""

    compressed: int = 200_000_000
    uncompressed: int = 2_000_000_000
    """Counted while it is read: headers may lie."""
    memory: int = 2 << 30
    """Address space of the process that reads it."""
    seconds: int = 120
    """Processor time of that process."""


LIMITS = Limits()


@dataclass(frozen=True, kw_only=True)
class Draw:
    """How cases are drawn, and run again."""

    beacon: str
    number: int
    model: str = "pocket"
    seconds: float = 3600.0
    """How long all of it may take; 0 for as long as it takes."""


def pack(members: Mapping[str, bytes], out: Path) -> None:
    """Write members and their checksums; the same give the same bytes. Raises `OSError`."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    whole = {**members, SUMS: listed(digests)}
    with files.replacing(out) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name in sorted(whole):
            info = zipfile.ZipInfo(name, DATE)
            info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, whole[name], zipfile.ZIP_DEFLATED, 6)


def listed(digests: Mapping[str, str]) -> bytes:
    """Return the file of checksums, in the one form that it may have."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def unpack(bundle: Path, into: Path, limits: Limits) -> dict[str, str]:
    """Copy the members into a folder, within limits; return their SHA-256 by name. Raises `Rejected`."""
    try:
        if (bundle / "samples.jsonl").is_file():
            raise Rejected(f"a run folder: `edit-harness leaderboard submit {bundle}` bundles it")
        status = bundle.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Rejected("no file: `edit-harness leaderboard submit RUN` makes a bundle, a .zip")
        if status.st_size > limits.compressed:
            raise Rejected(f"{status.st_size:,} bytes, more than {limits.compressed:,}")
        size = 0
        with zipfile.ZipFile(bundle) as archive:
            # Whatever a header says of a member, it becomes a plain file of so many bytes.
            names = [info.orig_filename for info in archive.infolist()]
            if wrong := [name for name in names if name not in NAMES]:
                raise Rejected(
                    f"a member that no bundle has: {shown(wrong[0])}; `edit-harness leaderboard submit RUN` makes a "
                    "bundle, of nothing but its files and without a folder around them"
                )
            if len(names) > len(set(names)):
                raise Rejected(f"two members have the name {Counter(names).most_common(1)[0][0]}")
            for name in names:
                with archive.open(name) as member, (into / name).open("xb") as file:
                    while piece := member.read(PIECE):
                        size += len(piece)
                        if size > limits.uncompressed:
                            most = f"{limits.uncompressed:,} bytes"
                            raise Rejected(f"{name} unpacks to more than {most}")
                        file.write(piece)
            return {name: files.sha256_of(into / name) for name in names}
    except Rejected:
        raise
    # zipfile raises many of an archive that is damaged, or made to do harm.
    except Exception as error:
        raise Rejected(f"no .zip that can be read: {shown(str(error))}") from None


def loads(raw: bytes) -> Any:
    """Return a JSON value. Raises `Rejected` for what is not ASCII, or what parsers read in two ways."""
    try:
        value = files.strict(raw.decode("ascii"))
        if b"\\ud" in raw.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise Rejected(f"byte {error.start} is not ASCII: 0x{raw[error.start]:02x}") from None
    except ValueError as error:
        raise Rejected(f"no JSON: {shown(str(error))}") from None
    return value
