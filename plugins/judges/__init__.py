"""Bundled judges, by name; each loads on first use."""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_judges(register: Register) -> None:
    """Name the judges."""
    here = "edit_harness_plugins.judges"
    register("match", f"{here}.match:Match", "Names: is it the answer, or is the answer in it?")
    register(
        "symbolic", f"{here}.symbolic.judge:Symbolic", "Algebra: formulas, numbers, descriptions"
    )
    register(
        "lexicon", f"{here}.lexicon:Lexicon", "Words of flaws: a smoke test, no judge's number"
    )
    register(
        "openai",
        f"{here}.model.openai:OpenAI",
        "A language model on a server, asked in JSON",
    )
    register("hf", f"{here}.model.hf:HF", "A language model on this machine, asked in JSON")
