"""The suites of the harness, on this package."""

from edit_harness.testing import PluginTests

import edit_harness_reversal
from edit_harness_reversal.conformance import TestReversal, TestReversed

__all__ = ["TestPackage", "TestReversal", "TestReversed"]


class TestPackage(PluginTests):
    plugin = edit_harness_reversal
