"""Bundled tasks, by name; each loads on first use."""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_tasks(register: Register) -> None:
    """Name the tasks."""
    here = "edit_harness_plugins.tasks"
    register("counterfact", f"{here}.counterfact:CounterFact", "CounterFact (Meng et al., 2022)")
    register(
        "counterfactplus",
        f"{here}.counterfact:CounterFactPlus",
        "CounterFact+: the edited fact before each neighbourhood prompt",
    )
    register("zsre", f"{here}.zsre:ZsRE", "zsRE: the true answer is written (ROME, MEMIT)")
    register(
        "zsre-alt",
        f"{here}.zsre:ZsREAlternative",
        "zsRE: another answer is written (MEND, EasyEdit)",
    )
