"""Runs of a tiny random model, whole and in shards."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from support.saboteurs import Honest

from edit_harness import Case, Choose, Probe, Request
from edit_harness.interfaces import ModelSource, Regime, Task
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
NAMES = ("Ada", "Bob", "Ann", "Danielle", "Paris", "Rome", "Oslo", "Marie", "Leo", "Fiat")
BAD = "Ann"
plugins = cache(Plugins.installed)
model = cache(tiny_model)


@dataclass
class Ten(Task):
    """Ten cases of two requests, of which one may be of no use."""

    bad: str = BAD
    metrics = ("success",)

    def cases(self):
        for name in NAMES:
            requests = (
                Request("{} lives in", name, "Paris", "Rome"),
                Request("{} works in", name, "Oslo", "Rome"),
            )
            probes = tuple(
                Probe("efficacy", Choose(r.text, (r.target_new, "Rome"))) for r in requests
            )
            yield Case(name, requests, probes, problem="it has no end" * (name == self.bad))


def assembled(
    share: Share | None = None, regime: Regime = SINGLE, bad: str = BAD, **settings: Any
) -> evaluation.Evaluation:
    """Return what a run of the task needs; with chunks of two if the caller has patched the runner."""
    benchmark = make_benchmark(plugins(), Ten(bad), {}, ModelSource(""))
    own = {name: settings.pop(name) for name in ("limit", "samples") if name in settings}
    spec = RunSpec(Honest(), Ten(bad), regime=regime, **settings)
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
