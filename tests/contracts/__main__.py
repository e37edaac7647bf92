"""Cast the nets anew and say what changed, or write them down.

    python -m tests.contracts [NET ...] [--write] [--bits]

It ends with exit code 1 if a net differs from its file. Numbers may differ by `TOLERANCE`, since another
processor rounds in another way; with ``--bits`` not even by a bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from tests.contracts import folders, nets, transcripts
from tools import numbers

NETS: dict[str, Callable[[], Any]] = {
    "folders": folders.cast,
    "transcripts": transcripts.cast,
    "numbers": numbers.cast,
}
MOST = 40
"""Differences of a net that are printed."""


@click.command()
@click.argument("which", nargs=-1, type=click.Choice(list(NETS)))
@click.option("--write", is_flag=True, help="Keep what was found as the net.")
@click.option("--bits", is_flag=True, help="Numbers must be equal to the bit.")
def main(which: tuple[str, ...], write: bool, bits: bool) -> None:
    """Cast nets, all by default."""
    failed = False
    for name in which or NETS:
        found = NETS[name]()
        changes = nets.changes(nets.stored(name), found, 0.0 if bits else nets.TOLERANCE)
        for line in changes[:MOST]:
            print(f"{name}: {line}")
        print(f"{name}: {len(changes)} differences", flush=True)
        failed |= bool(changes) and not write
        if write:
            nets.store(name, found)
    sys.exit(failed)


if __name__ == "__main__":
    main()
