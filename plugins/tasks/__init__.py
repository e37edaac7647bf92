"""Bundled tasks, by name; each loads on first use."""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_tasks(register: Register) -> None:
    """Name the tasks."""
    here = "edit_harness_plugins.tasks"
    register(
        "counterfact",
        f"{here}.counterfact.counterfact:CounterFact",
        "CounterFact (Meng et al., 2022)",
    )
    register(
        "counterfactplus",
        f"{here}.counterfact.counterfact:CounterFactPlus",
        "CounterFact+: the edited fact before each neighbourhood prompt",
    )
    register("zsre", f"{here}.zsre:ZsRE", "zsRE: the true answer is written (ROME, MEMIT)")
    register(
        "zsre-alt",
        f"{here}.zsre:ZsREAlternative",
        "zsRE: another answer is written (MEND, EasyEdit)",
    )
    rules = f"{here}.rule_edit.task"
    register("rule-edit", f"{rules}:RuleEdit", "RULE-EDIT: the formula of a rule is written")
    register(
        "rule-edit-description", f"{rules}:RuleEditDescription", "RULE-EDIT: a rule's description"
    )
    register(
        "rule-edit-instance", f"{rules}:RuleEditInstance", "RULE-EDIT: two instances, one by one"
    )
    register(
        "rule-edit-hierarchy",
        f"{rules}:RuleEditHierarchy",
        "RULE-EDIT: rules of space that depend on an edited one of the plane",
    )
    register(
        "seesaw-cf",
        f"{here}.seesaw.task:SeesawCF",
        "Seesaw-CF: what edits of people do to others, and to their other properties",
    )
    register("mquake", f"{here}.mquake:MQuAKE", "MQuAKE: does an edit reach the end of a chain?")
    register(
        "rippleedits",
        f"{here}.rippleedits.rippleedits:RippleEdits",
        "RippleEdits: consequences of an edit, along six axes",
    )
