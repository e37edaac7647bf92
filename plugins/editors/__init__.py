"""Bundled editors, by name; each loads on first use."""

from edit_harness import Register, hookimpl

EDITORS = {
    "none": ("none:Unedited", "No edit: the baseline of every table"),
    "ft": ("tuning.ft:FineTuning", "Fine-tuning of one MLP projection"),
    "ft-l": ("tuning.ft:ConstrainedFineTuning", "Fine-tuning within an L-infinity box"),
    "ft-loc": (
        "tuning.locft:LocalizedFineTuning",
        "LocFT-BF: fine-tuning of one located matrix, breadth-first",
    ),
    "rome": ("locate.rome:Rome", "Rank-one model editing (Meng et al., 2022)"),
    "r-rome": ("locate.rome:RRome", "ROME with one key in all places (Gupta et al., 2024)"),
    "memit": ("locate.memit:Memit", "Mass editing over several layers (Meng et al., 2023)"),
    "emmet": ("locate.emmet:Emmet", "Equality-constrained batch edit (Gupta et al., 2024)"),
    "pmet": ("locate.pmet:Pmet", "MEMIT with attention in the search (Li et al., 2024)"),
    "alphaedit": ("locate.alphaedit:AlphaEdit", "MEMIT in a null space (Fang et al., 2025)"),
    "grace": ("grace.grace:Grace", "A codebook beside one MLP map (Hartvigsen et al., 2023)"),
    "memoir": ("memories.memoir:Memoir", "A memory that edits share sparsely (Wang et al., 2025)"),
    "wise": ("memories.wise:Wise", "A trained copy of one MLP matrix (Wang et al., 2024)"),
    "mend": ("mend.mend:Mend", "A trained network edits by gradients (Mitchell et al., 2022)"),
    "lora": ("tuning.lora:Lora", "Low-rank adapters (Hu et al., 2021)"),
    "ultraedit": ("tuning.ultraedit:UltraEdit", "Normalised gradients (Gu et al., 2025)"),
    "prompt": ("in_context.prompt:Prompt", "The new fact in front of every prompt"),
    "memory": ("in_context.memory:Memory", "The facts that a prompt is about, before it"),
    "ike": ("in_context.ike:Ike", "The new fact behind examples of edits (Zheng et al., 2023)"),
}
"""Module and class of each, and what it is."""
ADAPTORS = {
    "codebook": ("grace.codebook:Codebook", "Outputs for inputs near a key (GRACE)"),
    "facts": ("in_context.memory:Facts", "Facts to put before prompts (memory)"),
    "residual-memory": ("memories.memoir:ResidualMemory", "A matrix that masks open (MEMOIR)"),
    "side-memories": ("memories.wise:SideMemories", "Copies that prompts are answered from (WISE)"),
}
"""The same of what edits are stored with."""


@hookimpl
def edit_harness_register_editors(register: Register) -> None:
    """Name the editors."""
    for name, (where, summary) in EDITORS.items():
        register(name, f"{__name__}.{where}", summary)


@hookimpl
def edit_harness_register_adaptors(register: Register) -> None:
    """Name what edits are stored with."""
    for name, (where, summary) in ADAPTORS.items():
        register(name, f"{__name__}.{where}", summary)
