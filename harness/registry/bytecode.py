"""The digest of a class that no file has, as in a notebook: of what its methods were compiled to.

It is of the code and the plain values of the class, of its bases, and of the functions and values of
the same notebook that they name. It is not of other objects, such as arrays, nor of imported modules.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper, cached_property
from types import CodeType, FunctionType
from typing import Any

PLAIN = (bool, int, float, complex, str, bytes, type(None))
WRAPPERS = (property, classmethod, staticmethod, cached_property, _lru_cache_wrapper)
WRAPPED = ("fget", "fset", "fdel", "func", "__wrapped__")
FOREIGN = {"edit_harness", *sys.stdlib_module_names}
"""Whose classes are no part of what was written here."""


def of_class(kind: type) -> str:
    """Return a SHA-256 that is another if the class does something else, as far as can be told."""
    return hashlib.sha256("\n".join(_Reader().of_class(kind)).encode()).hexdigest()


class _Reader:
    """Reads definitions as lines of text, each object once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def of_class(self, kind: type) -> Iterator[str]:
        for base in kind.__mro__:
            if base.__module__.partition(".")[0] not in FOREIGN and self._new(base):
                yield f"class {base.__qualname__}"
                for name, value in sorted(vars(base).items()):
                    yield from self._of_value(name, value, dunder=name.startswith("__"))

    def _new(self, value: Any) -> bool:
        new = id(value) not in self.seen
        self.seen.add(id(value))
        return new

    def _of_value(self, name: str, value: Any, *, dunder: bool = False) -> Iterator[str]:
        for function in _functions(value):
            if self._new(function):
                yield f"def {name}"
                yield from self._of_function(function)
        if not dunder and _is_plain(value):
            yield f"{name} = {_said(value)}"

    def _of_function(self, function: FunctionType) -> Iterator[str]:
        code = function.__code__
        yield from _of_code(code)
        yield from self._of_value("defaults", (function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                yield from self._of_named(name, cell.cell_contents, function.__module__)
            except ValueError:  # not filled yet
                continue
        for name in sorted(_names(code)):
            if name in function.__globals__:
                yield from self._of_named(name, function.__globals__[name], function.__module__)

    def _of_named(self, name: str, value: Any, module: str) -> Iterator[str]:
        """Read what a function names, if it is of the same notebook or a plain value."""
        if isinstance(value, type):
            yield from self.of_class(value) if value.__module__ == module else ()
        elif not isinstance(value, FunctionType) or value.__module__ == module:
            yield from self._of_value(name, value)


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield the functions that an attribute is, or wraps: a property, a class method, a cache."""
    inner = (
        getattr(value, name)
        for name in WRAPPED
        if isinstance(value, WRAPPERS) and hasattr(value, name)
    )
    yield from (each for each in (value, *inner) if isinstance(each, FunctionType))


def _of_code(code: CodeType) -> Iterator[str]:
    """Say what code does, without its file and its lines."""
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield repr((arguments, names, code.co_code, code.co_exceptiontable))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant)
        else:
            yield _said(constant)


def _names(code: CodeType) -> set[str]:
    """Return the names that code looks up outside of it; an attribute's name is none."""
    nested = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    looked_up = (i for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return {str(i.argval) for i in looked_up}.union(*nested)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN)


def _said(value: Any) -> str:
    """Return a plain value as text; of a set in an order that no hash decides."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_said(k)}: {_said(v)}' for k, v in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_said, value)))}}}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_said, value))})"
    return repr(value)
