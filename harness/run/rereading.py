"""Runs read again: their values computed anew from their stored answers, without a model.

Nothing is written, and no judge is asked: that is the affair of `edit_harness_plugins.commands.results.score`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import PluginError
from ..folder.manifests import Manifest
from ..folder.records import INVALID, Record, RunFolder
from ..hookspecs import DISTRIBUTION
from ..interfaces import Metric
from ..registry.components import make_metrics
from ..registry.plugins import Plugins
from . import control
from .outcome import Run
from .values import answers, values


def reread(plugins: Plugins, name: str, metrics: Sequence[str] = ()) -> Run:
    """Return the finished run in a folder, as metrics measure it now: the named ones, or its own.

    Raises `UsageError` if there is no run, `RunFolderError` if it is damaged or not finished, and
    `PluginError` for a metric that is not installed or fails.
    """
    folder = RunFolder.at(name)
    found = make_metrics(plugins, metrics) if metrics else own_metrics(plugins, folder)
    run = Run.read(folder, found)
    run.check_finished()
    return replace(run, everything=valued(run, found))


def own_metrics(plugins: Plugins, folder: RunFolder) -> dict[str, Metric]:
    """Return the run's own metrics, in its order.

    Raises `RunFolderError` for a run that does not name them, and `PluginError`, with what the run was
    made with, for one that is not installed.
    """
    manifest = folder.planned()
    try:
        return make_metrics(plugins, manifest.metrics)
    except PluginError as error:
        raise PluginError(error.cause, _made_with(manifest) or error.remedy) from error


def _made_with(manifest: Manifest) -> str:
    """Return which of a run's distributions other than ours there were; empty if none."""
    named = [
        f"{part['name']} {part['version']} ({part['source']})"
        for part in manifest.distributions
        if part["name"] != DISTRIBUTION
    ]
    return f"the run was made with {', '.join(named)}" if named else ""


def valued(run: Run, metrics: Mapping[str, Metric]) -> list[Record]:
    """Return the records with the values that metrics give them; controls' have none."""
    return [
        r
        if control.is_control(r.case) or r.status == INVALID
        else replace(r, values=values(run.by_id[r.case], answers(r), metrics, r.status))
        for r in run.everything
    ]
