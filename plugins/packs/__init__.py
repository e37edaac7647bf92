"""Bundled reproduction packs, by name: each is the JSON file of its name."""

from pathlib import Path

from edit_harness import Register, hookimpl
from edit_harness_plugins.commands.studies.reproduce import Pack

PACKS = {
    "rome-table1": "ROME: zsRE on GPT-2 XL",
    "rome-table4": "ROME: CounterFact on GPT-2 XL and GPT-J",
    "rome-table5": "ROME: CounterFact on smaller models",
    "rome-table6": "ROME: zsRE on smaller models",
    "counterfactplus-table1": "CounterFact+: neighborhood score",
    "counterfactplus-table2": "CounterFact+: neighborhood magnitude",
    "counterfactplus-table3": "CounterFact+: neighborhood divergence",
    "seesaw-table4": "Seesaw-CF: what edits change in other properties",
    "seesaw-table5": "Seesaw-CF: other properties of the edited person",
    "seesaw-table8": "Seesaw-CF: in how many groups confidence falls",
    "seesaw-table9": "Seesaw-CF: for how many edited properties it falls",
    "seesaw-table10": "Seesaw-CF: confidence about others, by race",
    "seesaw-table12": "Seesaw-CF: confidence about others, by region",
    "seesaw-table14": "Seesaw-CF: confidence about others, by gender",
    "seesaw-table19": "Seesaw-CF: flaws of texts, by a judge",
    "rule-edit-table1": "RULE-EDIT: formulas and descriptions, orderings only",
    "rule-edit-table2": "RULE-EDIT: instances, orderings only",
    "rule-edit-table3": "RULE-EDIT: dependent rules, orderings only",
    "pocket-figures": "The project's own figures, on the bundled model",
}
"""What each is."""


@hookimpl
def edit_harness_register_packs(register: Register) -> None:
    """Name the packs."""
    for name, summary in PACKS.items():
        file = Path(__file__).with_name(f"{name}.json")
        told = "A table that was printed, the runs that make it again, and what cannot be matched."
        register(name, type(name, (Pack,), {"__doc__": told, "file": file}), summary)
