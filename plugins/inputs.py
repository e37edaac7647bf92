"""What users give: the text and the JSON of files and what is wrong in them, and addresses."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, convert, to_builtins

from edit_harness import DataError

SHOWN = 5
SURROGATE = re.compile("[\ud800-\udfff]")


class Layout(Struct, omit_defaults=True):
    """What an object of JSON must have; a field with a default may be missing, others may be there."""


def file_at(name: str, remedy: str) -> Path:
    """Return the path of a user's file. Raises `DataError` with the remedy if it is not there."""
    path = Path(name).expanduser()
    if not path.is_file():
        raise DataError(f"there is no file {name!r}", remedy)
    return path


def text_of(path: Path) -> str:
    """Return a file's text. Raises `DataError` if it is missing or not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", "save it as UTF-8"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "check its name") from None


def json_of(path: Path, text: str, line: int = 1, parse: Callable[[str], Any] = json.loads) -> Any:
    """Return what a text says in JSON that begins in a line of a file. Raises `DataError`."""
    remedy = "correct it there; the file may be damaged or cut off"
    try:
        return parse(text)
    except json.JSONDecodeError as error:
        place = f"{path}:{line + error.lineno - 1}"
        raise DataError(f"{place}: not JSON: {error.msg}", remedy) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}", remedy) from None


def fitted(value: Any, layout: Any) -> Any:
    """Return what a layout asks for of a value, without fields that are equal to their default.

    Raises `ValueError` that names the field if the value has another layout.
    """
    return to_builtins(convert(value, layout))


def empty_texts(value: Any, passed: Collection[str] = (), place: str = "$") -> Iterator[str]:
    """Say which texts in a value are empty or cannot be encoded; fields in ``passed`` may be."""
    if isinstance(value, str):
        if not value.strip():
            yield f"`{place}` is empty"
        elif SURROGATE.search(value):
            yield f"`{place}` has half of a surrogate pair"
    elif isinstance(value, dict):
        for name in value:
            if name not in passed:
                yield from empty_texts(value[name], passed, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from empty_texts(item, passed, f"{place}[{i}]")


def refuse(path: Path, problems: Sequence[str], remedy: str) -> None:
    """Raise `DataError` with the first problems and the number of the others, if there are any."""
    if problems:
        more = f"; {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
        raise DataError(f"{path}: {'; '.join(problems[:SHOWN])}{more}", remedy)


def elsewhere(text: str) -> bool:
    """Tell whether a text is an address (with ``://``) of another machine; no name is looked up."""
    try:
        # Readers do not agree on what to leave out of a text that is not printable.
        host = (urlsplit(text).hostname or "").rstrip(".") if text.isprintable() else ""
        return "://" in text and host != "localhost" and not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return "://" in text
