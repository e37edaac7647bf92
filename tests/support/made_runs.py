"""Runs of a tiny random model, for what is done with runs that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.builders import people

import edit_harness as eh
from edit_harness.run.results import Results
from edit_harness.testing import tiny_model

NAMES = ("Ada", "Bob", "Ann", "Danielle", "Paris", "Marie", "Leo", "Fiat", "Rome", "Oslo")


def made(
    folder: Path, editor: Any, *, count: int = len(NAMES), task: str = "counterfactplus",
    model: Any = None, **settings: Any,
) -> Results:  # fmt: skip
    """Run an editor on invented records, into ``folder / "results"``."""
    facts = people(folder, NAMES[:count], name=f"facts-{count}.json")
    return eh.evaluate(
        editor, task, model or tiny_model(),
        task_args={"data": facts}, output=folder / "results", **settings,
    )  # fmt: skip
