"""The suite for editors; see `edit_harness.testing` for how to use it.

Its checks stand in `editing_state`, `editing_effects`, `editing_records` and `editing_runs`.
"""

from __future__ import annotations

from .editing_effects import EffectChecks
from .editing_records import RecordChecks
from .editing_runs import RunChecks
from .editing_state import StateChecks


class EditorTests(StateChecks, EffectChecks, RecordChecks, RunChecks):
    """What every editor must do.

    Of what it leaves behind: the model's bits, hooks and modes, the tokenizer and the process's global
    state are as before, after `prepare`, after edits, and after an interruption at any forward pass;
    edits are deterministic and depend on no earlier ones. Of what edits are: an `Edit`, of the right
    shapes, finite. Of what they do: they make targets likelier, write several requests, accumulate, are
    the same together as one by one and in a mixed batch as alone, and bear odd texts. Of what is kept:
    no graph, an edit that is saved and loaded and extended from there, strict JSON. Of runs: every case
    gets a status, and a failure stays with its case.
    """
