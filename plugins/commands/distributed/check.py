"""The command ``cluster-check``: what workers on each node of a cluster have, and whether they agree.

A run refuses workers that disagree before its first row; here one sees it beforehand, and all of it at
once. No model is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from rich.table import Table

from edit_harness.errors import PluginError, UsageError
from edit_harness.options import SETTINGS, as_json, debug, settings, with_plugins
from edit_harness.registry.components import make_executor
from edit_harness.registry.plugins import Plugins
from edit_harness.terminal import Terminal
from edit_harness.wording import counted

Answer = Mapping[str, Any]
"""What a process has: see `surroundings` in `worker`; or a ``problem``."""
SHOWN = 12
"""Hexadecimal digits of a digest that are shown."""
out = Terminal()


@click.command("cluster-check", context_settings=SETTINGS)
@click.option("--executor", default="ray", show_default=True, metavar="NAME",
              help="Whose workers.")  # fmt: skip
@settings("--executor-args",
              help="address, num_workers, gpus_per_worker.")  # fmt: skip
@as_json
@debug
@with_plugins
def cluster_check(
    plugins: Plugins, executor: str, executor_args: Mapping[str, str], as_json: bool, debug: bool
) -> int:
    """Say what each worker has: device, memory, versions, plugins; and whether all agree."""
    from .pool import WorkerExecutor
    from .worker import surroundings

    asked = make_executor(plugins, executor, executor_args)
    if not isinstance(asked, WorkerExecutor):
        raise UsageError(f"--executor {executor} has no workers to ask", "say --executor ray")
    return told(surroundings(plugins), asked.survey(), as_json)


def told(ours: Answer, found: Sequence[Answer], as_json: bool) -> int:
    """Print what each worker has, and return 3 if one has something else than this process."""
    differ = list(differences(ours, found))
    if as_json:
        out.out(json.dumps({"workers": found, "differences": differ}, indent=1))
        return PluginError.code if differ else 0
    table = Table("worker", "node", "pid", "device", "memory", box=None, pad_edge=False)
    for number, each in enumerate(found):
        memory = f"{each['memory'] / 2**30:.0f} GiB" if "memory" in each else "–"
        pid, device = str(each.get("pid", "–")), each.get("device", "–")
        table.add_row(str(number), each["node"], pid, device, memory)
    out.print(table)
    for line in differ or [
        *(f"{name} {had}" for name, had in _had(ours).items()),
        f"{counted(len(found), 'worker')} and this process have the same",
    ]:
        out.print(line)
    return PluginError.code if differ else 0


def differences(ours: Answer, found: Sequence[Answer]) -> Iterator[str]:
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


def _had(each: Answer) -> dict[str, str]:
    """Return versions, those of packages with their digests, by name."""
    packages = {p["name"]: f"{p['version']} ({p['digest'][:SHOWN]})" for p in each["packages"]}
    return {**each["versions"], **packages}
