"""What strangers' code must leave as it was in the process, and how it is put back. It imports no torch.

What of torch and numpy there is to see is looked at if they are loaded already; of torch it is known with
what most of it starts, so that who imports it first leaves that as well. What a plugin must leave as it was
in a model is in `edit_harness.leaks`.
"""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

# It draws random numbers when it is first imported, which nobody else is to be blamed for.
import rich.style  # noqa: F401

OURS = "PYTEST_CURRENT_TEST"
"""What pytest changes in the environment itself."""


class Global(NamedTuple):
    """A part of the process's state: how it is read, comparable by ``==``, and put back."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it may have been removed
        return ""


def _set_folder(old: str) -> None:
    if old:
        os.chdir(old)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != OURS}


def _set_environment(values: Mapping[str, str]) -> None:
    for name in _environment().keys() - values.keys():
        del os.environ[name]
    os.environ.update(values)


def _signals() -> dict[str, Any]:
    return {signal.Signals(s).name: signal.getsignal(s) for s in sorted(signal.Signals)}


def _set_signals(handlers: Mapping[str, Any]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # nor could anybody else have changed them there
    for name, handler in handlers.items():
        if handler is not None and signal.getsignal(signal.Signals[name]) != handler:
            signal.signal(signal.Signals[name], handler)


def _umask() -> int:
    # There is no other way to read it.
    os.umask(old := os.umask(0))
    return old


def _set_list(kept: list[Any]) -> Callable[[list[Any]], None]:
    return lambda values: kept.__setitem__(slice(None), values)


START: dict[str, Any] = {
    "the default dtype": "torch.float32",
    "the default device": "cpu",
    "gradient mode": True,
    "torch's determinism": (False, False),
    "torch's search for anomalies": False,
    "the precision of matrix products": "highest",
    "cuDNN's flags": (False, False),
    "hooks of all modules": {},
}
"""What of torch is so until somebody imports it and sets it."""

NUMERIC = frozenset(
    (
        "the default dtype",
        "the default device",
        "the number of torch's threads",
        "torch's determinism",
        "the precision of matrix products",
        "cuDNN's flags",
        "hooks of all modules",
    )
)
"""What the numbers of a forward pass depend on."""

PLAIN: dict[str, Global] = {
    "the working directory": Global(_folder, _set_folder),
    "the environment": Global(_environment, _set_environment),
    "sys.path": Global(lambda: list(sys.path), lambda old: _set_list(sys.path)(old)),
    "the exception hook": Global(
        lambda: sys.excepthook, lambda old: setattr(sys, "excepthook", old)
    ),
    "Python's random state": Global(random.getstate, random.setstate),
    "the warnings filters": Global(
        lambda: list(warnings.filters), lambda old: setattr(warnings, "filters", old)
    ),
    "the signal handlers": Global(_signals, _set_signals),
    "the root logger's level": Global(lambda: logging.root.level, logging.root.setLevel),
    "what logging leaves out": Global(lambda: logging.root.manager.disable, logging.disable),
    "the umask": Global(_umask, os.umask),
    "the collection of garbage": Global(
        gc.isenabled, lambda old: gc.enable() if old else gc.disable()
    ),
    "the recursion limit": Global(sys.getrecursionlimit, sys.setrecursionlimit),
    "the locale": Global(
        lambda: locale.setlocale(locale.LC_ALL), lambda old: locale.setlocale(locale.LC_ALL, old)
    ),
}


def _of_numpy(np: Any) -> dict[str, Global]:
    def read() -> tuple[Any, ...]:
        kind, keys, *rest = np.random.get_state()
        return kind, keys.tobytes(), *rest

    def write(old: tuple[Any, ...]) -> None:
        np.random.set_state((old[0], np.frombuffer(old[1], dtype=np.uint32), *old[2:]))

    return {
        "numpy's random state": Global(read, write),
        "numpy's handling of errors": Global(np.geterr, lambda old: np.seterr(**old)),
    }


def _of_torch(torch: Any) -> dict[str, Global]:
    cudnn = torch.backends.cudnn

    def deterministic() -> tuple[bool, bool]:
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        return torch.are_deterministic_algorithms_enabled(), warns

    def make_deterministic(old: tuple[bool, bool]) -> None:
        torch.use_deterministic_algorithms(old[0], warn_only=old[1])

    def tune(old: tuple[bool, bool]) -> None:
        cudnn.benchmark, cudnn.deterministic = old

    def set_device(old: str) -> None:
        # Without a device of its own torch takes the CPU, and every call is quicker.
        torch.set_default_device(None if old == START["the default device"] else old)

    return {
        "torch's random state": _random_state(torch),
        "the default dtype": Global(
            lambda: str(torch.get_default_dtype()),
            lambda old: torch.set_default_dtype(getattr(torch, old.removeprefix("torch."))),
        ),
        "the default device": Global(lambda: str(torch.get_default_device()), set_device),
        "gradient mode": Global(torch.is_grad_enabled, torch.set_grad_enabled),
        "the number of torch's threads": Global(torch.get_num_threads, torch.set_num_threads),
        "torch's determinism": Global(deterministic, make_deterministic),
        "torch's search for anomalies": Global(
            torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly
        ),
        "the precision of matrix products": _precision(torch),
        "cuDNN's flags": Global(lambda: (cudnn.benchmark, cudnn.deterministic), tune),
        "hooks of all modules": _hooks_of_all(torch.nn.modules.module),
        **({"CUDA's random states": _cuda_states(torch)} if torch.cuda.is_initialized() else {}),
    }


def _precision(torch: Any) -> Global:
    def read() -> str:
        try:
            return str(torch.get_float32_matmul_precision())
        except RuntimeError:  # backends were given several, which has no name
            return "mixed"

    def write(old: str) -> None:
        if old != "mixed":
            torch.set_float32_matmul_precision(old)

    return Global(read, write)


def _random_state(torch: Any) -> Global:
    def write(old: bytes) -> None:
        torch.set_rng_state(torch.frombuffer(bytearray(old), dtype=torch.uint8))

    return Global(lambda: torch.get_rng_state().numpy().tobytes(), write)


def _cuda_states(torch: Any) -> Global:
    def write(old: list[bytes]) -> None:
        states = [torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in old]
        torch.cuda.set_rng_state_all(states)

    return Global(lambda: [s.numpy().tobytes() for s in torch.cuda.get_rng_state_all()], write)


def _hooks_of_all(module: Any) -> Global:
    """Return what reads and removes the hooks that torch calls for every module."""
    kinds = [name for name in vars(module) if name.startswith("_global_") and "hooks" in name]
    held = {name: hooks for name in kinds if isinstance(hooks := getattr(module, name), dict)}

    def write(old: Mapping[str, list[Any]]) -> None:
        for name, hooks in held.items():
            for key in hooks.keys() - set(old.get(name, [])):
                del hooks[key]

    return Global(lambda: {name: list(hooks) for name, hooks in held.items() if hooks}, write)


def _known() -> dict[str, Global]:
    parts = {"numpy": _of_numpy, "torch": _of_torch}
    # None stands there for a library that must not be imported.
    loaded = {name: module for name in parts if (module := sys.modules.get(name))}
    return PLAIN | {key: g for name, m in loaded.items() for key, g in parts[name](m).items()}


def read() -> dict[str, Any]:
    """Return what there is to see of the process, by name, comparable by ``==``."""
    return START | {name: part.read() for name, part in _known().items()}


def put_back(before: Mapping[str, Any]) -> list[str]:
    """Give the process the state that `read` returned, or a part of it; return what was not so."""
    changed = [
        (name, part)
        for name, part in _known().items()
        if name in before and part.read() != before[name]
    ]
    for name, part in changed:
        part.write(before[name])
    return [name for name, _ in changed]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return what is not as it was, each with what it was and is, as far as that is short."""
    names = [name for name in before if name in after and before[name] != after[name]]
    return [name + _difference(before[name], after[name]) for name in names]


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, Mapping):
        keys = sorted(str(k) for k in before.keys() | after.keys() if before.get(k) != after.get(k))
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        return f" ({keys[0]}{more})"
    said = [str(value) for value in (before, after)]
    return f" (was {said[0]}, is {said[1]})" if max(map(len, said)) < 40 else ""


@contextmanager
def restored(told: Callable[[list[str]], None]) -> Iterator[None]:
    """Put back what is not as it was behind the block; ``told`` gets its names, if there are any.

    Threads that are left running are named too, though nothing ends a thread from without.
    """
    before, threads = read(), threading.enumerate()
    try:
        yield
    finally:
        left = [f"a thread, {t.name}" for t in threading.enumerate() if t not in threads]
        if found := [*put_back(before), *left]:
            told(found)


@contextmanager
def left_alone() -> Iterator[None]:
    """Fail if something about the process is not as it was."""
    before = read()
    yield
    changed = changes(before, read())
    assert not changed, f"changed and not put back: {'; '.join(changed)}"
