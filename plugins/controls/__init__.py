"""Bundled controls of side effects, by name; each loads on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edit_harness import Choose, Register, hookimpl

if TYPE_CHECKING:
    from edit_harness.model.model import Model
    from edit_harness.run.results import Results


@hookimpl
def edit_harness_register_controls(register: Register) -> None:
    """Name the controls."""
    here = "edit_harness_plugins.controls"
    register("text", f"{here}.text:Text", "Perplexity of texts that no edit is about")
    register("lm-eval", f"{here}.lm_eval_task:LMEval", "A task of lm-evaluation-harness, in memory")


@hookimpl
def edit_harness_watch(model: Model) -> Choose:
    """Ask for the text."""
    from .text import Text

    return Text().query(model)[0]


@hookimpl
def edit_harness_results(run: Results) -> Mapping[str, Any]:
    """Return the perplexity of the control text where edits share a model, and the measures of controls."""
    from .collapse import perplexities
    from .effects import side_effects

    found: dict[str, Any] = {}
    if run.regime.mode != "single":
        states = sorted(perplexities(run).items())
        found["perplexity"] = [
            {"state": state, "before": old, "after": new} for state, (old, new) in states
        ]
    return found | (side_effects(run).data if run.manifest.identity.asked else {})
