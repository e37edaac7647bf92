"""Which parts of a model go where, if it is not to be on one device.

Accelerate finds the places. How parts that are in the memory of the CPU or on the disk are used there stands
in `edit_harness.model.weights`.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from weakref import finalize

from edit_harness.errors import ResourceError, UsageError, counted
from edit_harness.files import cache_folder
from edit_harness.model.weights import kept

if TYPE_CHECKING:
    from edit_harness.model.model import Model

FOUND = ("auto", "balanced", "sequential")
"""Maps that accelerate finds."""
ROOM = 0.9
"""Share of each memory that may be filled with weights; passes need the rest."""
SIZES = "--model-args max_memory=0:20GiB;1:20GiB;cpu:60GiB"


def placed(name: str | None, max_memory: str | None, device: str) -> dict[str, Any]:
    """Return how transformers spreads a model by a map of `FOUND`; empty if it is to be on one device.

    Raises `UsageError` for options that contradict each other.
    """
    if not name and max_memory:
        raise UsageError("max_memory is of a device map", "add one: --device-map auto")
    if not name:
        return {}
    if name not in FOUND:
        raise UsageError(f"there is no device map {name!r}", f"say {', '.join(FOUND)}")
    if device != "auto":
        cause = f"a device map and --device {device} contradict each other"
        raise UsageError(cause, "leave one of them out")
    if not importlib.util.find_spec("accelerate"):
        raise UsageError("a device map needs accelerate", "pip install 'edit-harness[device-map]'")
    return {"device_map": name, "max_memory": _limits(max_memory)}


def _limits(text: str | None) -> dict[int | str, int]:
    """Return bytes by place: what the text says, or all but some of what is free."""
    from accelerate.utils import get_max_memory

    if not text:
        return {place: int(ROOM * free) for place, free in get_max_memory().items()}
    pairs = [part.strip().partition(":") for part in text.split(";")]
    try:
        return get_max_memory({int(p) if p.isdecimal() else p: size for p, _, size in pairs})
    except ValueError as error:
        raise UsageError(f"max_memory {text!r} is wrong: {error}", f"say it as {SIZES}") from None


def spread(loader: Callable[..., tuple[Any, Any]], options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Call transformers' loader with what `placed` returned; return the module and its report.

    Weights that are not on the disk as the model computes with them get a folder in the cache, which goes
    with the module. Raises `ResourceError` if there can be none.
    """
    logging.getLogger("accelerate").setLevel(logging.ERROR)  # `described` says it
    place = cache_folder() / "offloaded"
    try:
        place.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(dir=place)
    except OSError as error:
        cause = f"{place} cannot be written: {error.strerror}"
        raise ResourceError(cause, "set EDIT_HARNESS_CACHE") from None
    try:
        module, report = loader(offload_folder=folder.name, **options)
    except BaseException:
        folder.cleanup()
        raise
    finalize(module, folder.cleanup)
    return module, report


def described(model: Model) -> str:
    """Return where a model is: its device, or how many blocks have their first weight in each place."""
    places: Counter[str] = Counter()
    parts = model.architecture
    for block in map(parts.block, range(parts.layers)):
        name, parameter = next(block.named_parameters())
        place = kept(block, name)
        places[str(parameter.device) if not place else "disk" if place.file else "cpu"] += 1
    (first, count), *others = places.items()
    if not others and first != "disk":
        return first
    shown = [f"{first} ({counted(count, 'block')})", *(f"{p} ({n})" for p, n in others)]
    return f"spread over {', '.join(shown)}"
