"""A language model that answers queries, unedited and under edits; here is what is public of it.

A class is imported when it is first asked for, so that `tokens` needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .architecture import Architecture, Projection
    from .batch import Batch
    from .hooks import Places
    from .model import Model
    from .tokens import Continuation, Tokens

__all__ = ["Architecture", "Batch", "Continuation", "Model", "Places", "Projection", "Tokens"]
_ELSEWHERE = {"Places": "hooks", "Projection": "architecture", "Continuation": "tokens"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, name.lower())}"), name)
