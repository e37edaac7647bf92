"""Bundled controls of side effects, by name; each loads on first use."""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_controls(register: Register) -> None:
    """Name the controls."""
    here = "edit_harness_plugins.controls"
    register("text", f"{here}.text:Text", "Perplexity of a bundled text that no edit is about")
    register("lm-eval", f"{here}.lm_eval_task:LMEval", "A task of lm-evaluation-harness, in memory")
