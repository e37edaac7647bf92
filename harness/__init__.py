"""Evaluate edits of what a language model knows.

This module is the whole public interface. Importing it brings in neither torch nor transformers:
a plugin registers its names in milliseconds, and the heavy modules load when a run needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .data import (
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
from .hookspecs import Register, RegisterCommand, RegisterKind, hookimpl
from .interfaces import (
    FROM_PRESET,
    Control,
    Editor,
    Executor,
    Judge,
    Making,
    Measure,
    Metric,
    ModelShape,
    ModelSource,
    Preset,
    Regime,
    Task,
)

if TYPE_CHECKING:
    from .api import edit, evaluate, load_model, save_model
    from .folder.manifest import Identity
    from .run.assembly import inner
    from .run.results import Results
    from .run.spec import ModelRef, RunSpec

_LAZY = {
    "ModelRef": "run.spec", "RunSpec": "run.spec", "Identity": "folder.manifest", "Results": "run.results",
    "inner": "run.assembly", "edit": "api", "evaluate": "api", "load_model": "api", "save_model": "api",
}  # fmt: skip

__all__ = [
    "FROM_PRESET", "Answer", "Case", "Choose", "Control", "DataError", "Distribution",
    "Divergence", "Drift", "Editor", "Executor", "Generate", "Graded", "HarnessError", "Identity",
    "Judge", "Key", "Making", "Marks", "Measure", "Metric", "ModelRef", "ModelShape",
    "ModelSource", "NextToken", "PluginError", "Preset", "Probe", "Query", "Regime", "Register",
    "RegisterCommand", "RegisterKind", "Reply", "Request", "ResourceError", "Results",
    "RunFolderError", "RunSpec", "Scores", "Task", "Text", "UsageError", "Verdict", "edit",
    "evaluate", "hookimpl", "inner", "join", "load_model", "save_model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what needs torch or numpy when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
