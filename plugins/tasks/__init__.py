"""Bundled tasks, by name; each loads on first use."""

from edit_harness import Register, hookimpl

RULES = "rule_edit.task:RuleEdit"
TASKS = {
    "counterfact": ("counterfact.counterfact:CounterFact", "CounterFact (Meng et al., 2022)"),
    "counterfactplus": ("counterfact.counterfact:CounterFactPlus",
        "CounterFact+: the edited fact before each neighbourhood prompt"),
    "zsre": ("zsre:ZsRE", "zsRE: the true answer is written (ROME, MEMIT)"),
    "zsre-alt": ("zsre:ZsREAlternative", "zsRE: another answer is written (MEND, EasyEdit)"),
    "qaedit": ("qaedit:QAEdit", "QAEdit: questions that models get wrong, by teacher forcing and in the wild"),
    "wikibigedit": ("wikibigedit:WikiBigEdit",
        "WikiBigEdit: what changed in Wikidata, batch on batch"),
    "rule-edit": (RULES, "RULE-EDIT: the formula of a rule is written"),
    "rule-edit-description": (f"{RULES}Description", "RULE-EDIT: a rule's description"),
    "rule-edit-instance": (f"{RULES}Instance", "RULE-EDIT: two instances, one by one"),
    "rule-edit-hierarchy": (
        f"{RULES}Hierarchy",
        "RULE-EDIT: rules of space that depend on an edited one of the plane",
    ),
    "seesaw-cf": ("seesaw.task:SeesawCF",
        "Seesaw-CF: what edits of people do to others, and to their other properties"),
    "mquake": ("mquake:MQuAKE", "MQuAKE: does an edit reach the end of a chain?"),
    "rippleedits": ("rippleedits.rippleedits:RippleEdits",
        "RippleEdits: consequences of an edit, along six axes"),
    "unke": ("unke:Unke", "UnKEBench: a paragraph is written, without a subject"),
}  # fmt: skip


@hookimpl
def edit_harness_register_tasks(register: Register) -> None:
    """Name the tasks."""
    for name, (place, summary) in TASKS.items():
        register(name, f"edit_harness_plugins.tasks.{place}", summary)
