"""MeLLo for edit-harness: its names, and nothing else.

What they stand for is named as text and imported on first use, so that listing plugins needs no
torch.
"""

from edit_harness import Register, hookimpl


@hookimpl
def edit_harness_register_editors(register: Register) -> None:
    """Name the editor."""
    where = f"{__name__}.editor:Mello"
    register("mello", where, "A chain of sub-questions over a memory (Zhong et al., 2023)")


@hookimpl
def edit_harness_register_adaptors(register: Register) -> None:
    """Name the prefix that edits are stored with."""
    register("mello-chain", f"{__name__}.editor:Chain", "Writes a chain before a prompt (MeLLo)")


@hookimpl
def edit_harness_register_suites(register: Register) -> None:
    """Name the suites that `edit-harness plugins check edit-harness-mello` runs."""
    where = f"{__name__}.conformance"
    register("mello", f"{where}:TestMello", "On a tiny GPT-2")
    register("mello-unconfirmed", f"{where}:TestMelloUnconfirmed", "Where every near fact counts")
