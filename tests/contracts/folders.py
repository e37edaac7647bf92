"""Run folders as they are written: every file, without what differs from run to run or from code to code."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import edit_harness as eh
from edit_harness_plugins.command_line import chosen

SITE = Path(eh.__file__).parents[1]
RUNS: dict[str, Mapping[str, Any]] = {
    "single": {"editor": "rome", "task": "counterfactplus"},
    "batch": {"editor": "memit", "task": "counterfact", "regime": eh.Regime("batch", 2)},
    "sequential": {
        "editor": "ft-l",
        "task": "zsre",
        "regime": eh.Regime("sequential", immediate=True, checkpoints=(2,)),
    },
    "judged": {"editor": "none", "task": "rule-edit"},
    "controls": {"editor": "none", "task": "counterfact", "controls": ["text"]},
    "groups": {"editor": "prompt", "task": "seesaw-cf", "judge": "length"},
}
JUDGE = str(Path(__file__).with_name("length.py"))
"""Registers the judge of texts that have none by default."""
LIMIT = 3
FLEETING = {
    "seconds", "crc", "fp", "code", "fingerprint", "sha256", "cases_sha256", "samples", "distributions",
    "environment", "segments", "parameters", "path", "at", "pid", "host", "time", "bytes",
}  # fmt: skip
"""Keys of what differs without another answer: times, digests that cover the code, machines, paths."""
DIGEST = re.compile(r"\b[0-9a-f]{8,64}\b")
VERSION = re.compile(r"\bedit-harness \d+\.\d+\.\d+")
FILES = ("manifest.json", "cases.jsonl", "samples.jsonl", "results.json")


def cast() -> dict[str, Any]:
    """Return the content of each file, lines as a list."""
    torch.set_num_threads(1)
    model, found = eh.load_model("pocket"), {}
    with TemporaryDirectory() as folder, chosen(plugin=[JUDGE]):
        for name, settings in RUNS.items():
            run = eh.evaluate(model=model, limit=LIMIT, output=Path(folder) / name, **settings)
            for file in FILES:
                found[f"{name} {file}"] = _content(run.folder.path / file)
    return found


def _content(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return steady(json.loads(text))
    return [steady(json.loads(line)) for line in text.splitlines()]


def steady(value: Any) -> Any:
    """Return JSON without what differs from run to run; keys in their order, as the files have them."""
    if isinstance(value, Mapping):
        return {key: steady(each) for key, each in value.items() if key not in FLEETING}
    if isinstance(value, list):
        return [steady(each) for each in value]
    if isinstance(value, str):
        value = value.replace(str(SITE), "<site>")
        return VERSION.sub("edit-harness", DIGEST.sub("<digest>", value))
    return value
