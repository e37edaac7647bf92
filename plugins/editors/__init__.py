"""Bundled editors, by name; each loads on first use."""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_editors(register: Register) -> None:
    """Name the editors."""
    here = "edit_harness_plugins.editors"
    register("none", f"{here}.none:Unedited", "No edit: the baseline of every table")
    register("ft", f"{here}.ft:FineTuning", "Fine-tuning of one MLP projection")
    register("ft-l", f"{here}.ft:ConstrainedFineTuning", "Fine-tuning within an L-infinity box")
    register("rome", f"{here}.rome:Rome", "Rank-one model editing (Meng et al., 2022)")
    register("prompt", f"{here}.prompt:Prompt", "The new fact in front of every prompt")
    register("lora", f"{here}.lora:Lora", "Fine-tuning of low-rank adapters (Hu et al., 2021)")
    register("ike", f"{here}.ike:Ike", "The new fact behind examples of edits")
