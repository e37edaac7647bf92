"""The task and the metric ``halluedit``: HalluEditBench's files, and the shares of right answers.

Only names are registered here. The classes are imported when a run asks for them.
"""

from edit_harness import Register, hookimpl

HERE = "edit_harness_halluedit"


@hookimpl
def edit_harness_register_tasks(register: Register) -> None:
    """Name the task."""
    register("halluedit", f"{HERE}.task:HalluEdit", "HalluEditBench: are hallucinations corrected?")


@hookimpl
def edit_harness_register_metrics(register: Register) -> None:
    """Name the metric."""
    register("halluedit", f"{HERE}.metric:Corrected", "Which questions are answered right? Eff Gen")


@hookimpl
def edit_harness_register_suites(register: Register) -> None:
    """Name what ``edit-harness plugins check edit-harness-halluedit`` runs."""
    register("halluedit-task", f"{HERE}.conformance:TestHalluEdit", "The task on its own facts")
    register("halluedit-metric", f"{HERE}.conformance:TestCorrected", "The metric on the task")
