"""Evaluate edits of what a language model knows.

This module is the whole public interface. Importing it brings in neither torch nor transformers:
a plugin registers its names in milliseconds, and the heavy modules load when a run needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .cases import (
    Answer,
    Case,
    Choose,
    Distribution,
    Divergence,
    Drift,
    Generate,
    Graded,
    Key,
    Marks,
    NextToken,
    Probe,
    Query,
    Reply,
    Request,
    Scores,
    Text,
    Verdict,
    join,
)
from .errors import DataError, HarnessError, PluginError, ResourceError, RunFolderError, UsageError
from .hookspecs import Register, hookimpl
from .interfaces import (
    FROM_PRESET,
    Builder,
    Control,
    Editor,
    Judge,
    Knows,
    Making,
    Material,
    Measure,
    Metric,
    ModelShape,
    ModelSource,
    Pack,
    Preset,
    Regime,
    Task,
)

if TYPE_CHECKING:
    from .api import edit, evaluate, load_model, merge, save_model
    from .run.assembly import inner
    from .run.outcome import Run

_LAZY = {
    "Run": "edit_harness.run.outcome",
    "edit": "edit_harness.api",
    "evaluate": "edit_harness.api",
    "inner": "edit_harness.run.assembly",
    "load_model": "edit_harness.api",
    "merge": "edit_harness.api",
    "save_model": "edit_harness.api",
}

__all__ = [
    "FROM_PRESET",
    "Answer",
    "Builder",
    "Case",
    "Choose",
    "Control",
    "DataError",
    "Distribution",
    "Divergence",
    "Drift",
    "Editor",
    "Generate",
    "Graded",
    "HarnessError",
    "Judge",
    "Key",
    "Knows",
    "Making",
    "Marks",
    "Material",
    "Measure",
    "Metric",
    "ModelShape",
    "ModelSource",
    "NextToken",
    "Pack",
    "PluginError",
    "Preset",
    "Probe",
    "Query",
    "Regime",
    "Register",
    "Reply",
    "Request",
    "ResourceError",
    "Run",
    "RunFolderError",
    "Scores",
    "Task",
    "Text",
    "UsageError",
    "Verdict",
    "edit",
    "evaluate",
    "hookimpl",
    "inner",
    "join",
    "load_model",
    "merge",
    "save_model",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch or numpy when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
