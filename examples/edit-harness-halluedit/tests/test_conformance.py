"""The suites of the harness, on this package."""

from edit_harness.testing import PluginTests

import edit_harness_halluedit
from edit_harness_halluedit.conformance import TestCorrected, TestHalluEdit

__all__ = ["TestCorrected", "TestHalluEdit", "TestPackage"]


class TestPackage(PluginTests):
    plugin = edit_harness_halluedit
