"""A finished command again: its runs are shown from their folders, without torch, while all is as it was.

Most of a run's identity takes a loaded model to know. So a finished command leaves a receipt in the cache, by a digest
of all that the identity is made from: flags, code, software, and files, by when they changed. It leaves none where
there is more: plugins of others, a model on the hub, controls, a judge or a metric that has a provenance.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape, glob
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edit_harness import files
from edit_harness.errors import HarnessError
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.table import cases_digest
from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.interfaces import ModelSource
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_task, source_of
from edit_harness.run.results import Results
from edit_harness_plugins.command_line import taken
from edit_harness_plugins.reading import own_metrics

from . import console
from .flags import Options

SHOWING = ("quiet", "verbose", "as_json")
"""Flags that change nothing but what is printed."""
OTHERWISE = ("new", "retry_failed", "shard", "control", "trust_remote_code")
"""Flags with which a command leaves no receipt."""
VARIABLES = ("CUDA", "EDIT_HARNESS", "HF_", "TORCH")
"""How variables begin that may decide how a model is loaded."""
SOFTWARE = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
FOLDER = "receipts"


def key_of(plugins: Plugins, given: Mapping[str, Any]) -> str:
    """Return a digest of all that decides a command's runs; empty if only a loaded model tells."""
    single = all(len(given[name]) == 1 for name in ("model", "task", "seed"))
    plain = given["executor"] == "local" and not any(given[name] for name in OTHERWISE)
    if not (single and plain and [each.name for each in plugins.packages] == [DISTRIBUTION]):
        return ""
    try:
        source = source_of(plugins, given["model"][0])
        parts = {
            "flags": {name: value for name, value in given.items() if name not in SHOWING},
            "where": os.getcwd(),
            "environment": {n: v for n, v in os.environ.items() if n.startswith(VARIABLES)},
            "software": [platform.python_version(), *map(version, SOFTWARE)],
            "code": [(each.version, each.digest) for each in plugins.packages],
            "files": _files(source, given),
        }
    except (HarnessError, OSError):
        return ""
    return files.digest(parts) if Path(source.path).is_dir() else ""


def _files(source: ModelSource, given: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return what shows of all files that a run may read that they are as they were: nobody sets a ctime."""
    texts = [*given["editor_args"].values(), *given["judge_args"].values(), given["preset"] or ""]
    named = [part.strip() for text in texts for part in (text, *text.split(","))]
    brought = [source.path, *source.data.values(), source.moments, source.baselines]
    found = {}
    for place in filter(None, [*brought, str(files.cache_folder()), *named]):
        top = os.path.expanduser(place)
        for path in (top, *glob(f"{escape(top)}/**", recursive=True, include_hidden=True)):
            if os.path.isfile(path) and Path(path).parent.name != FOLDER:
                mark = os.stat(path)
                found[path] = [mark.st_ino, mark.st_size, mark.st_mtime_ns, mark.st_ctime_ns]
    return found


def keep(key: str, heading: Sequence[tuple[str, str]], runs: Sequence[Results]) -> None:
    """Leave a receipt of finished runs, if they are all that their folders have."""
    for run in runs:
        its = run.manifest.identity
        more = its.measured_by or (its.judge and its.judge.provenance)
        if more or run.missing or run.manifest != run.folder.planned():
            return
    folders = [(str(run.folder.path), _digests(run.folder.path)) for run in runs]
    with suppress(OSError):  # without it, the command goes the long way again
        files.put(
            files.cache_folder() / FOLDER / key,
            files.sealed({"heading": heading, "folders": folders}),
        )


def _digests(folder: Path) -> list[str]:
    """Return digests of what changes whenever a run folder does."""
    return [files.sha256_of(folder / name) for name in ("manifest.json", "results.json")]


def _read(plugins: Plugins, path: str, digests: Sequence[str]) -> Results:
    """Return a run as it was when its receipt was made. Raises `ValueError` if it has changed since."""
    folder = RunFolder.at(path)
    if _digests(folder.path) != digests or not folder.results():
        raise ValueError
    return replace(Results.read(folder, own_metrics(plugins, folder)), plugins=plugins)


def show(plugins: Plugins, given: Mapping[str, Any]) -> int | None:
    """Show the runs of a command's receipt, and return the exit code; None if only the long way tells."""
    try:
        told = files.unsealed((files.cache_folder() / FOLDER / key_of(plugins, given)).read_bytes())
        runs = [_read(plugins, *each) for each in told["folders"]]
        if args := given["task_args"]:  # a task may read what lies beside a file that is named
            source, seed = source_of(plugins, given["model"][0]), int(given["seed"][0])
            task = make_task(plugins, given["task"][0], args, source, seed).value
            data = cases_digest(task.cases())
            if any(run.manifest.identity.task.data != data for run in runs):
                return None
    except (HarnessError, OSError, ValueError):
        return None
    options = taken(Options, given)
    if not options.quiet:
        console.header(told["heading"])
        for run in runs:
            console.note_nothing(run.folder)
    console.show(runs, options)
    return console.ended(runs, [console.DONE], several=len(runs) > 1, as_json=options.as_json)
