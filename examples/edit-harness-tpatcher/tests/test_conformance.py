"""The suites that the package brings along, and that of its registration."""

from edit_harness.testing import PluginTests

import edit_harness_tpatcher
from edit_harness_tpatcher.conformance import *


class TestPlugin(PluginTests):
    plugin = edit_harness_tpatcher
