"""Runs of a tiny random model, for what is done with runs that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.builders import record

import edit_harness as eh
from edit_harness.run.results import Results
from edit_harness.testing import tiny_model

NAMES = ("Ada", "Bob", "Ann", "Danielle", "Paris", "Marie", "Leo", "Fiat", "Rome", "Oslo")


def made(
    folder: Path, editor: Any, *, count: int = len(NAMES), task: str = "counterfactplus",
    model: Any = None, **settings: Any,
) -> Results:  # fmt: skip
    """Run an editor on invented records, into ``folder / "results"``."""
    facts = folder / f"facts-{count}.json"
    facts.write_text(json.dumps([record(i, subject=name) for i, name in enumerate(NAMES[:count])]))
    return eh.evaluate(
        editor, task, model or tiny_model(),
        task_args={"data": str(facts)}, output=folder / "results", **settings,
    )  # fmt: skip
