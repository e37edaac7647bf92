"""T-Patcher for edit-harness: its names, and nothing else.

What they stand for is named as text and imported on first use, so that listing plugins needs no
torch.
"""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_editors(register: Register) -> None:
    """Name the editor."""
    where = f"{__name__}.editor:TPatcher"
    register("tpatcher", where, "One mistake, one new neuron (Huang et al., 2023)")


@hookimpl
def edit_harness_register_adaptors(register: Register) -> None:
    """Name the adaptor that edits are stored with."""
    register("patches", f"{__name__}.patch:Patches", "New neurons beside an MLP (T-Patcher)")


@hookimpl
def edit_harness_register_suites(register: Register) -> None:
    """Name the suites that `edit-harness plugins check edit-harness-tpatcher` runs."""
    where = f"{__name__}.conformance"
    register("gpt2", f"{where}:TestTPatcher", "On a tiny GPT-2")
    register("llama", f"{where}:TestTPatcherOnLlama", "On a tiny Llama")
