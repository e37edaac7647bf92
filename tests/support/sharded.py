"""Runs of a tiny random model, whole and in shards."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from support.local_workers import Some
from support.saboteurs import Honest

from edit_harness.interfaces import ModelSource, Regime
from edit_harness.registry.registry import Plugins
from edit_harness.run import evaluation
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.loop import run_all
from edit_harness.run.results import Results
from edit_harness.run.spec import RunSpec, Selection
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.run.local import turns
from edit_harness_plugins.commands.run.shards import Share

SINGLE = Regime()
COUNT, BROKEN = 10, 2
plugins = cache(Plugins.installed)
model = cache(tiny_model)


def assembled(
    share: Share | None = None, regime: Regime = SINGLE, broken: int = BROKEN, **settings: Any
) -> evaluation.Evaluation:
    """Return what a run of the task needs; with chunks of two if the caller has patched the runner."""
    task = Some(COUNT, broken, requests=2)
    benchmark = make_benchmark(plugins(), task, {}, ModelSource(""))
    own = {name: settings.pop(name) for name in ("limit", "samples") if name in settings}
    spec = RunSpec(Honest(), task, regime=regime, **settings)
    return evaluation.assemble(plugins(), model(), benchmark, spec, Selection(share=share, **own))


def made(
    output: Path, share: Share | None = None, *, new: bool = False, **settings: Any
) -> Results:
    """Run it, or go on."""
    one = assembled(share, **settings)
    return run_all({one: one.open(output, new=new)}, turns=turns)[0]


def shards(output: Path, of: int = 3, **settings: Any) -> list[str]:
    """Run all shards, and return the names of their folders."""
    runs = [made(output, Share(number, of), **settings) for number in range(1, of + 1)]
    return [str(run.folder.path) for run in runs]


def timeless(folder: Path) -> list[str]:
    """Return the rows as they stand in the log, but for the seconds and the checksums over them."""
    rows = map(json.loads, (folder / "samples.jsonl").read_text().splitlines())
    left_out = ("seconds", "crc")
    return [json.dumps({k: v for k, v in row.items() if k not in left_out}) for row in rows]


def documents(folder: Path) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """Return cases, manifest and results, but for what the bytes of the rows decide."""
    manifest, results = (
        json.loads((folder / name).read_text()) for name in ("manifest.json", "results.json")
    )
    results = {k: v for k, v in results.items() if k not in ("samples", "sha256")}
    return (folder / "cases.jsonl").read_bytes(), manifest, results
