"""Bundled controls of side effects, by name; each loads on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edit_harness import Register, hookimpl

if TYPE_CHECKING:
    from edit_harness.run.results import Results


@hookimpl
def edit_harness_register_controls(register: Register) -> None:
    """Name the controls."""
    here = "edit_harness_plugins.controls"
    register("text", f"{here}.text:Text", "Perplexity of a bundled text that no edit is about")
    register("lm-eval", f"{here}.lm_eval_task:LMEval", "A task of lm-evaluation-harness, in memory")


@hookimpl
def edit_harness_results(run: Results) -> Mapping[str, Any]:
    """Return the measures of a run's controls, if it has any."""
    if not run.manifest.identity.asked:
        return {}
    from .effects import side_effects

    return side_effects(run).data
