"""What all editors come to on a task of each family under each regime, on the bundled model."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import edit_harness as eh
from edit_harness_plugins.editors import EDITORS

TASKS = ("counterfactplus", "zsre", "rule-edit", "seesaw-cf", "mquake", "rippleedits")
REGIMES = {
    "single": None,
    "batch": eh.Regime("batch", 10),
    "sequential": eh.Regime("sequential"),
}
LIMIT = 20


def cast() -> dict[str, Any]:
    """Return all numbers, made by one process for each task, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(_elsewhere, TASKS)
    return {key: value for found in made for key, value in found.items()}


def of(task: str, editors: tuple[str, ...] = tuple(EDITORS), limit: int = LIMIT) -> dict[str, Any]:
    """Return a task's numbers: by regime and editor, values with intervals and counts, and statuses."""
    torch.set_num_threads(1)
    model, found = eh.load_model("pocket"), {}
    with TemporaryDirectory() as folder:
        for regime, editor in product(REGIMES, editors):
            run = eh.evaluate(
                editor, task, model, limit=limit, regime=REGIMES[regime], output=folder
            )
            results = run.results()
            found[f"{task} {regime} {editor}"] = {
                key: value for key, value in results["results"].items() if value is not None
            } | {"failures": results["failures"]}
    return found


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
