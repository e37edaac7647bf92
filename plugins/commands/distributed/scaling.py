"""``merge`` and ``cluster-check``: runs that many machines share."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.options import SETTINGS, as_json, debug, settings, with_plugins
from edit_harness.registry.registry import Plugins


@click.command(context_settings=SETTINGS)
@click.argument("shards", nargs=-1, required=True, metavar="SHARD…")
@click.option("-o", "--output-path", default="results", show_default=True, metavar="DIR",
              help="Where the run folder goes.")  # fmt: skip
@click.option("--new", is_flag=True, help="Make a sibling if the folder is there.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure in the table.")
@as_json
@debug
@with_plugins
def merge(plugins: Plugins, **flags: Any) -> int:
    """Join the shards of one run to the run that one process would have made."""
    from . import merging

    return merging.merge(plugins, merging.Flags(**flags))


@click.command("cluster-check", context_settings=SETTINGS)
@click.option("--executor", default="ray", show_default=True, metavar="NAME",
              help="Whose workers.")  # fmt: skip
@settings("--executor-args",
              help="address, num_workers, gpus_per_worker.")  # fmt: skip
@as_json
@debug
@with_plugins
def cluster_check(plugins: Plugins, **flags: Any) -> int:
    """Say what each worker has: device, memory, versions, plugins; and whether all agree."""
    from . import surveying

    return surveying.survey(plugins, surveying.Flags(**flags))
