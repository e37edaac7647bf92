"""The command ``cluster-check``: what each worker of a cluster has, and whether they agree. No model is loaded.

Rows are of one run only where all that it depends on is the same, so a run refuses what disagrees
before its first row; here one sees it beforehand, and all of it at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from edit_harness.errors import PluginError, UsageError
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_executor
from edit_harness.terminal import Terminal
from edit_harness.wording import counted

from .choosing import Hiring
from .hand import surroundings

Survey = Mapping[str, Any]
AGREED, DIFFERENT = 0, PluginError.code
SHOWN = 12
"""Hexadecimal digits of a digest that are shown."""

out = Terminal()


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of ``cluster-check``, as they were parsed."""

    executor: str
    executor_args: Mapping[str, str]
    as_json: bool
    debug: bool


def survey(plugins: Plugins, flags: Flags) -> int:
    """Print what this process and each worker have, and return 3 if packages differ."""
    executor = make_executor(plugins, flags.executor, flags.executor_args)
    if not isinstance(executor, Hiring):
        raise UsageError(f"--executor {flags.executor} has no workers to ask", "say --executor ray")
    found = executor.survey()
    told = list(differences(surroundings(plugins), found))
    if flags.as_json:
        out.out(json.dumps({"workers": found, "differences": told}, indent=1))
    else:
        out.print(table(found))
        for line in lines(found, told):
            out.print(line)
    return DIFFERENT if told else AGREED


def differences(ours: Survey, found: Sequence[Survey]) -> Iterator[str]:
    """Yield a line for each worker that failed, and for each thing that one has otherwise than this process."""
    here = _had(ours)
    for number, each in enumerate(found):
        who = f"worker {number} on {each['node']}"
        if "problem" in each:
            yield f"{who}: {each['problem']}"
            continue
        there = _had(each)
        for name in sorted(here.keys() | there.keys()):
            mine, theirs = (had.get(name, "not at all") for had in (here, there))
            if mine != theirs:
                yield f"{who} has {name} {theirs}, this process has {mine}"


def _had(each: Survey) -> dict[str, str]:
    """Return versions, those of packages with their digests, by name."""
    packages = {p["name"]: f"{p['version']} ({p['digest'][:SHOWN]})" for p in each["packages"]}
    return {**each["versions"], **packages}


def table(found: Sequence[Survey]) -> Table:
    """Return the workers as they are printed, one a row."""
    shown = Table("worker", "node", "pid", "device", "memory", box=None, pad_edge=False)
    for number, each in enumerate(found):
        memory = f"{each['memory'] / 2**30:.0f} GiB" if "memory" in each else "–"
        shown.add_row(
            str(number), each["node"], str(each.get("pid", "–")), each.get("device", "–"), memory
        )
    return shown


def lines(found: Sequence[Survey], told: Sequence[str]) -> Iterator[str]:
    """Yield what there is to say below the table."""
    sound = next((each for each in found if "problem" not in each), None)
    if told:
        yield from told
    elif sound:
        for name, had in _had(sound).items():
            yield f"{name} {had}"
        yield f"{counted(len(found), 'worker')} and this process have the same"
