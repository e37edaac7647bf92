"""What strangers' code must leave as it was in the process, and how it is put back. It imports no torch.

What of torch and numpy there is to see is looked at if they are loaded already; of torch it is known with
what most of it starts, so that who imports it first leaves that as well. What a plugin must leave as it was
in a model is in `edit_harness.run.integrity`.
"""

from __future__ import annotations

import os
import random
import sys
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


START: dict[str, Any] = {"the default dtype": "torch.float32", "gradient mode": True}
"""What of torch is so until somebody imports it and sets it."""

NUMERIC = frozenset(("the default dtype", "the number of torch's threads"))
"""What the numbers of a forward pass depend on."""

PLAIN: dict[str, Global] = {
    "the working directory": Global(_folder, _set_folder),
    "the environment": Global(_environment, _set_environment),
    "Python's random state": Global(random.getstate, random.setstate),
}


def _of_numpy(np: Any) -> dict[str, Global]:
    def read() -> tuple[Any, ...]:
        kind, keys, *rest = np.random.get_state()
        return kind, keys.tobytes(), *rest

    def write(old: tuple[Any, ...]) -> None:
        np.random.set_state((old[0], np.frombuffer(old[1], dtype=np.uint32), *old[2:]))

    return {"numpy's random state": Global(read, write)}


def _of_torch(torch: Any) -> dict[str, Global]:
    return {
        "torch's random state": _random_state(torch),
        "the default dtype": Global(
            lambda: str(torch.get_default_dtype()),
            lambda old: torch.set_default_dtype(getattr(torch, old.removeprefix("torch."))),
        ),
        "gradient mode": Global(torch.is_grad_enabled, torch.set_grad_enabled),
        "the number of torch's threads": Global(torch.get_num_threads, torch.set_num_threads),
        **({"CUDA's random states": _cuda_states(torch)} if torch.cuda.is_initialized() else {}),
    }


def _random_state(torch: Any) -> Global:
    def write(old: bytes) -> None:
        torch.set_rng_state(torch.frombuffer(bytearray(old), dtype=torch.uint8))

    return Global(lambda: torch.get_rng_state().numpy().tobytes(), write)


def _cuda_states(torch: Any) -> Global:
    def write(old: list[bytes]) -> None:
        states = [torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in old]
        torch.cuda.set_rng_state_all(states)

    return Global(lambda: [s.numpy().tobytes() for s in torch.cuda.get_rng_state_all()], write)


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
    """Put back what is not as it was behind the block; ``told`` gets its names, if there are any."""
    before = read()
    try:
        yield
    finally:
        if found := put_back(before):
            told(found)


@contextmanager
def left_alone() -> Iterator[None]:
    """Fail if something about the process is not as it was."""
    before = read()
    yield
    changed = changes(before, read())
    assert not changed, f"changed and not put back: {'; '.join(changed)}"
