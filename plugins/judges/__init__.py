"""Bundled judges, by name; each loads on first use."""

from edit_harness import Register, hookimpl

JUDGES = {
    "match": ("match:Match", "Names: is it the answer, or is the answer in it?"),
    "symbolic": ("symbolic.judge:Symbolic", "Algebra: formulas, numbers, descriptions"),
    "openai": ("model.openai:OpenAI", "A language model on a server, asked in JSON"),
    "hf": ("model.hf:HF", "A language model on this machine, asked in JSON"),
}


@hookimpl
def edit_harness_register_judges(register: Register) -> None:
    """Name the judges."""
    for name, (where, summary) in JUDGES.items():
        register(name, f"{__name__}.{where}", summary)
