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
    register("memit", f"{here}.memit:Memit", "Mass editing over several layers (Meng et al., 2023)")
    register(
        "r-rome", f"{here}.r_rome:RRome", "ROME with one key in all places (Gupta et al., 2024)"
    )
    register("emmet", f"{here}.emmet:Emmet", "Equality-constrained batch edit (Gupta et al., 2024)")
    register(
        "alphaedit", f"{here}.alphaedit:AlphaEdit", "MEMIT in a null space (Fang et al., 2025)"
    )
    register("pmet", f"{here}.pmet:Pmet", "MEMIT with attention in the search (Li et al., 2024)")
