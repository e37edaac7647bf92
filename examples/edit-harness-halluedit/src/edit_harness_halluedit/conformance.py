"""What ``edit-harness plugins check`` and the tests try: the task on its own facts, the metric on it.

The only module of the package that needs pytest.
"""

from edit_harness.testing import MetricTests, TaskTests

from edit_harness_halluedit.metric import Corrected
from edit_harness_halluedit.task import HalluEdit


class TestHalluEdit(TaskTests):
    """The task."""

    task = HalluEdit()


class TestCorrected(MetricTests):
    """The metric."""

    metric = Corrected()
    task = HalluEdit()
