"""Strangers' code under guard: what it prints, what it changes in the process, and whose fault an error is.

What code changes in the process is put back. This is against accidents, not against malice: a plugin is code
with the rights of who runs it. What a plugin must leave as it was in a model is in `edit_harness.run.integrity`.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

# rich draws random numbers when it is first imported, and no plugin is to be blamed for that.
import rich.style  # noqa: F401

from ..errors import HarnessError, PluginError, Terminated

PASSING = (KeyboardInterrupt, Terminated)
"""The user's own wish that all ends; no plugin's error."""
START: dict[str, Any] = {"the default dtype": "torch.float32", "gradient mode": True}
"""Values of a torch that nobody has imported yet, so that who imports it first leaves these as well."""
NUMERIC = frozenset(("the default dtype", "the number of torch's threads"))
"""What the numbers of a forward pass depend on."""

log = logging.getLogger("edit_harness")
_origins: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def said(error: BaseException, of: object = None) -> str:
    """Return an error's type and message in one line, and the last line of the file of ``of`` that it came through.

    ``of`` is the plugin's object, or its class, whose code ran; a `HarnessError` was meant for users, and has no line.
    """
    if isinstance(error, HarnessError):
        return f"{type(error).__name__}: {'; '.join(str(error).splitlines())}"
    one_line = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    file = getattr(sys.modules.get(getattr(of, "__module__", "")), "__file__", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if file and frame.filename == file]
    return f"{one_line} ({Path(file).name}:{lines[-1]})" if file and lines else one_line


def remember(factory: type, origin: str) -> None:
    """Remember which distribution or file a class was registered by, for `named`."""
    _origins[factory] = origin


def named(kind: str, name: str, of: object) -> str:
    """Return how errors call an object of a plugin: kind, name, and its distribution if that is known."""
    origin = _origins.get(of if isinstance(of, type) else type(of))
    return f"{kind} {name} of {origin}" if origin else f"{kind} {name}"


@contextmanager
def blamed(
    what: str,
    of: object,
    remedy: str = "see the whole with --debug, or ask its author",
    passing: tuple[type[BaseException], ...] = (HarnessError,),
) -> Iterator[None]:
    """Turn whatever the block raises, also an exit, into a `PluginError` that begins with ``what``.

    Errors of the types in ``passing`` stay what they are, and so does what the user asked for, such as Ctrl-C.
    """
    try:
        yield
    except PASSING:
        raise
    except passing:
        raise
    except BaseException as error:
        raise PluginError(f"{what}: {said(error, of)}", remedy) from error


@dataclass
class Import:
    """How an import went: how long it took, and what a user should know of it."""

    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


@contextmanager
def importing(what: object) -> Iterator[Import]:
    """Send what an import prints to stderr, time it, put back what it changes, and tell the user."""
    went, before, start = Import(), read(), time.perf_counter()
    try:
        with measuring():
            yield went
    finally:
        went.seconds = time.perf_counter() - start
        if changed := put_back(before):
            went.notes = [f"changed {', '.join(changed)} while it was loaded; that was put back"]
            note(f"{what} {went.notes[0]}")


def measuring() -> AbstractContextManager[Any]:
    """Send what plugins print to where messages go: stdout carries the result."""
    return redirect_stdout(sys.stderr)


@cache
def note(text: str) -> None:
    """Tell the user something, once in a process."""
    log.warning(text)


Global = tuple[Callable[[], Any], Callable[[Any], object]]
"""A part of the process's state: how to read it, comparable by ``==``, and how to put it back."""


def _globals() -> dict[str, Global]:
    """Return the watched parts of the process's state; those of numpy and torch where these are loaded."""
    found: dict[str, Global] = {
        "the working directory": (os.getcwd, os.chdir),
        "the environment": (lambda: dict(os.environ), _set_environment),
        "Python's random state": (random.getstate, random.setstate),
    }
    # None stands in sys.modules for a library that must not be imported.
    if np := sys.modules.get("numpy"):
        found["numpy's random state"] = (lambda: _numpy_state(np), np.random.set_state)
    if torch := sys.modules.get("torch"):
        found |= {
            "torch's random state": (
                lambda: torch.get_rng_state().tolist(),
                lambda old: torch.set_rng_state(torch.tensor(old, dtype=torch.uint8)),
            ),
            "the default dtype": (
                lambda: str(torch.get_default_dtype()),
                lambda old: torch.set_default_dtype(getattr(torch, old.removeprefix("torch."))),
            ),
            "gradient mode": (torch.is_grad_enabled, torch.set_grad_enabled),
            "the number of torch's threads": (torch.get_num_threads, torch.set_num_threads),
        }
    return found


def _set_environment(values: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


def _numpy_state(np: Any) -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()
    return kind, tuple(keys.tolist()), *rest


def read() -> dict[str, Any]:
    """Return the watched parts of the process's state by name, comparable by ``==``."""
    return START | {name: get() for name, (get, _) in _globals().items()}


def put_back(before: Mapping[str, Any]) -> list[str]:
    """Give the process the state that `read` returned, or a part of it; return what was not so."""
    changed = []
    for name, (get, put) in _globals().items():
        if name in before and get() != before[name]:
            put(before[name])
            changed.append(name)
    return changed


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return what is not as it was; of a mapping with what differs there, of what is short with both values."""
    found = []
    for name in (name for name in before if name in after):
        was, now = before[name], after[name]
        if was != now and isinstance(was, Mapping):
            keys = sorted(str(k) for k in was.keys() | now.keys() if was.get(k) != now.get(k))
            found.append(f"{name} ({keys[0]}{f' and {len(keys) - 1} more' if keys[1:] else ''})")
        elif was != now:
            short = max(len(str(was)), len(str(now))) < 40
            found.append(f"{name} (was {was}, is {now})" if short else name)
    return found


@contextmanager
def restored(told: Callable[[list[str]], None]) -> Iterator[None]:
    """Put back what the block changed; ``told`` gets its names, if there are any."""
    before = read()
    try:
        yield
    finally:
        if found := put_back(before):
            told(found)
