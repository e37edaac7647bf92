"""What all editors come to on a task of each family under each regime, on the bundled model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import edit_harness as eh
from edit_harness.folder.manifest import as_json
from edit_harness_plugins.command_line import chosen
from edit_harness_plugins.editors import EDITORS
from tests.contracts.folders import JUDGE

TASKS = ("counterfactplus", "zsre", "rule-edit", "seesaw-cf", "mquake", "rippleedits")
REGIMES = {
    "single": None,
    "batch": eh.Regime("batch", 10),
    "sequential": eh.Regime("sequential"),
}
JUDGES = {"seesaw-cf": "length"}
LIMIT = 20


def cast() -> dict[str, Any]:
    """Return all numbers, made by one process for each task, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(_elsewhere, TASKS)
    return {key: value for found in made for key, value in found.items()}


def of(task: str, editors: tuple[str, ...] = tuple(EDITORS), limit: int = LIMIT) -> dict[str, Any]:
    """Return a task's numbers by regime and editor: value, interval and count of each measure.

    With them stand the counts of cases by what became of them, and the run's identity but for the code.
    """
    torch.set_num_threads(1)
    model, found = eh.load_model("pocket"), {}
    with TemporaryDirectory() as folder, chosen(plugin=[JUDGE]):
        for regime, editor in product(REGIMES, editors):
            how = {"regime": REGIMES[regime], "judge": JUDGES.get(task, "")}
            run = eh.evaluate(editor, task, model, limit=limit, output=folder, **how)
            found[f"{task} {regime} {editor}"] = _told(run.results()) | {
                "identity": _own(as_json(run.folder.planned().identity))
            }
    return found


def _told(results: Mapping[str, Any]) -> dict[str, Any]:
    flat, counts = results["results"], ("cases", "missing", "noop", "undecided", "unparsed")
    ends = ("", "_low", "_high", "_n")
    measures = {
        key.split(",")[0]: key.split(",")[1] for key in flat if key.endswith("_n", 0, key.find(","))
    }
    found: dict[str, Any] = {
        name.removesuffix("_n"): [flat[f"{name.removesuffix('_n')}{end},{mode}"] for end in ends]
        for name, mode in measures.items()
    }
    return found | {name: results[name] for name in counts} | {"failed": results["failed"]}


def _own(identity: Mapping[str, Any]) -> Any:
    """Return what a run is, without the digests and the versions of its code."""
    return {
        key: _own(each) if isinstance(each, Mapping) else each
        for key, each in identity.items()
        if key != "code" and not str(each).startswith("edit-harness ")
    }


def _elsewhere(task: str) -> dict[str, Any]:
    """Return what this module prints of a task in a process of its own."""
    import json

    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", __name__, task]
    done = subprocess.run(
        command, env=env, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[2]
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    import json

    print(json.dumps(of(sys.argv[1])))
