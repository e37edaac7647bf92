"""What ``edit-harness plugins check`` and the tests try: the task on its own facts, the metric on the task.

The only module of the package that needs pytest.
"""

from edit_harness.testing import MetricTests, TaskTests

from edit_harness_reversal.metric import Reversed
from edit_harness_reversal.task import Reversal


class TestReversal(TaskTests):
    """The task."""

    task = Reversal()


class TestReversed(MetricTests):
    """The metric."""

    metric = Reversed()
    task = Reversal()
