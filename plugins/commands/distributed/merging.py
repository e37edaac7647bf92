"""The command ``merge``: shards, which machines made without a word between them, as one run.

What is checked, and how the run is written, stands in `edit_harness_plugins.commands.distributed.joining`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edit_harness.folder.folder import check_writable
from edit_harness.registry.plugins import Plugins

from ..run import console
from .joining import Joined

DONE, SOME_FAILED = 0, 1


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``merge``, as they were parsed."""

    shards: Sequence[str]
    output_path: str
    new: bool
    quiet: bool
    verbose: bool
    as_json: bool
    debug: bool


def merge(plugins: Plugins, flags: Flags) -> int:
    """Join the shards, print the table of the run, and return the exit code."""
    joined = Joined.of(plugins, flags.shards)
    output = Path(flags.output_path)
    check_writable(output)
    run = joined.write(output, new=flags.new)
    if flags.quiet:
        console.note_pending(run)
    for note in run.folder.notes if not flags.quiet else ():
        console.err.print(f"note     {note}", markup=False)
    if flags.as_json:
        console.out.out(json.dumps(run.results(), indent=1))
    else:
        console.finished(run, quiet=flags.quiet, verbose=flags.verbose)
    return DONE if run.sound else SOME_FAILED
