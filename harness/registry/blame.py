"""What the code of plugins raises: said in one line, with its place, as an error that names whose it is.

Not what an import of theirs does to the process: see `edit_harness.registry.guard`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from ..errors import HarnessError, PluginError, Terminated

PASSING = (KeyboardInterrupt, Terminated)
"""What is no plugin's: the user's own wish that all ends."""

_origins: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def said(error: BaseException, of: object = None) -> str:
    """Return an error's type and what it says in one line, even if it cannot say it.

    ``of`` is the plugin's object, or its class, whose code ran: the last line of its file that the error came through
    is added, as ``(file.py:52)``, unless the error is a `HarnessError`, which was meant for users.
    """
    try:
        text = str(error)
    except Exception as worse:
        text = f"it cannot be shown: {type(worse).__name__}"
    if isinstance(error, HarnessError):
        return f"{type(error).__name__}: {'; '.join(text.splitlines())}"
    one_line = " ".join(f"{type(error).__name__}: {text}".split())
    return " ".join(filter(None, (one_line.removesuffix(":"), _place(error, of))))


def _place(error: BaseException, of: object) -> str:
    """Return the last line of an object's own file that an error came through; empty if none."""
    module = getattr(
        of, "__module__", ""
    )  # of a function, its own; of an object, that of its class
    file = getattr(sys.modules.get(module), "__file__", None)
    lines = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in lines if file and frame.filename == file]
    return f"({Path(file).name}:{own[-1]})" if file and own else ""


def _class(of: object) -> type:
    return of if isinstance(of, type) else type(of)


def remember(factory: type, origin: str) -> None:
    """Remember which distribution or file a class was registered by, for `named`."""
    _origins[factory] = origin


def named(kind: str, name: str, of: object) -> str:
    """Return how errors call an object of a plugin: kind, name, and what it came in if that is known."""
    origin = _origins.get(_class(of))
    return f"{kind} {name} of {origin}" if origin else f"{kind} {name}"


@contextmanager
def blamed(
    what: str,
    of: object,
    remedy: str = "see the whole with --debug, or ask its author",
    passing: tuple[type[BaseException], ...] = (HarnessError,),
) -> Iterator[None]:
    """Turn whatever is raised inside into a `PluginError` that begins with ``what``.

    A plugin that exits or raises what is no `Exception` does not end the program. Errors of the types in
    ``passing`` stay what they are, and so does what the user asked for, such as Ctrl-C.
    """
    try:
        yield
    except PASSING:
        raise
    except passing:
        raise
    except BaseException as error:
        raise PluginError(f"{what}: {said(error, of)}", remedy) from error
