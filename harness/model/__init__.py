"""A language model that answers queries, unedited and under edits; here is what is public of it.

What needs torch is imported when it is first asked for: `tokens` does without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .architecture import Architecture, Projection
    from .batch import Batch
    from .hooks import Places
    from .model import Model
    from .tokens import Continuation, Tokens

_LAZY = {
    "Architecture": "architecture",
    "Batch": "batch",
    "Continuation": "tokens",
    "Model": "model",
    "Places": "hooks",
    "Projection": "architecture",
    "Tokens": "tokens",
}

__all__ = [
    "Architecture",
    "Batch",
    "Continuation",
    "Model",
    "Places",
    "Projection",
    "Tokens",
]


def __getattr__(name: str) -> Any:
    """Import a class when it is first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
