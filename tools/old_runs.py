"""Make the run folders that the transcripts are of, once: ``python -m tools.old_runs``.

They stay as the version of their day wrote them, so that later ones are seen to read them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import edit_harness as eh
from edit_harness.folder.folder import RunFolder
from tests.contracts.transcripts import RUNS

SINGLE = {"editor": "rome", "task": "counterfactplus", "limit": 4}
MADE: dict[str, Mapping[str, Any]] = {
    "single": SINGLE,
    "unedited": {**SINGLE, "editor": "none"},
    "batch": {"editor": "memit", "task": "counterfact", "limit": 6, "regime": eh.Regime("batch", 3)},
    "sequential": {
        "editor": "ft-l", "task": "zsre", "limit": 4,
        "regime": eh.Regime("sequential", immediate=True, checkpoints=(2,)),
    },
    "judged": {"editor": "none", "task": "rule-edit", "limit": 2},
    "controls": {"editor": "rome", "task": "counterfact", "limit": 2, "controls": ["text"]},
    "shard": {"editor": "none", "task": "zsre", "limit": 66, "shard": "2/2"},
}  # fmt: skip


def main() -> None:
    """Write the folders anew."""
    torch.set_num_threads(1)
    model = eh.load_model("pocket")
    shutil.rmtree(RUNS, ignore_errors=True)
    for name, settings in MADE.items():
        with TemporaryDirectory() as folder:
            run = eh.evaluate(model=model, output=folder, **settings)
            shutil.copytree(run.folder.path, RUNS / name)
    for name, spoil in (("damaged", damage), ("withdrawn", withdraw)):
        shutil.copytree(RUNS / "single", RUNS / name)
        spoil(RUNS / name)


def damage(run: Path) -> None:
    """Change a byte in the middle of the second row."""
    samples = run / "samples.jsonl"
    lines = samples.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:200] + b"#" + lines[1][201:]
    samples.write_bytes(b"".join(lines))


def withdraw(run: Path) -> None:
    """Take the last row back."""
    with RunFolder(run).writing() as writer:
        writer.withdraw(writer.seq - 1, "tried")


if __name__ == "__main__":
    main()
