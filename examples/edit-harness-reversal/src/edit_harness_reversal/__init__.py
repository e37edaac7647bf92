"""The task and the metric ``reversal``: whether an edit also holds the other way round.

Only names are registered here. The classes are imported when a run asks for them.
"""

from edit_harness import Register, hookimpl

HERE = "edit_harness_reversal"


@hookimpl
def edit_harness_register_tasks(register: Register) -> None:
    """Name the task."""
    register("reversal", f"{HERE}.task:Reversal", "Capitals: does an edit hold in reverse?")


@hookimpl
def edit_harness_register_metrics(register: Register) -> None:
    """Name the metric."""
    register("reversal", f"{HERE}.metric:Reversed", "Is the inverse of the edit preferred? Rev")


@hookimpl
def edit_harness_register_suites(register: Register) -> None:
    """Name what ``edit-harness plugins check edit-harness-reversal`` runs."""
    register("reversal-task", f"{HERE}.conformance:TestReversal", "The task on its own facts")
    register("reversal-metric", f"{HERE}.conformance:TestReversed", "The metric on the task")
