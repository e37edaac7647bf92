"""The suite for editors; see `edit_harness.testing` for how to use it.

Its checks stand in `editing_state`, `editing_effects`, `editing_records` and `editing_runs`.
"""

from __future__ import annotations

from edit_harness.testing.editing_effects import EffectChecks
from edit_harness.testing.editing_records import RecordChecks
from edit_harness.testing.editing_runs import RunChecks
from edit_harness.testing.editing_state import StateChecks


class EditorTests(StateChecks, EffectChecks, RecordChecks, RunChecks):
    """What every editor must do."""
