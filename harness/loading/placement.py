"""Which parts of a model go where, if it is not to be on one device.

Transformers and accelerate place the parts, and say what is wrong with a map: see `load`. A part is
on a device, in the memory of the CPU or on the disk; how parts that are on no device are used
there stands in `edit_harness.model.weights`.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias
from weakref import finalize

from filelock import FileLock

from ..errors import ResourceError, UsageError
from ..files import cache_folder, locked

Place: TypeAlias = int | str
"""The number of an accelerator, ``cpu`` or ``disk``."""
FOUND = ("auto", "balanced", "sequential")
"""Maps that accelerate finds."""
ROOM = 0.9
"""Share of each memory that may be filled with weights; passes need the rest."""
MAPS = f"say {', '.join(FOUND)}, or name a JSON file of modules and devices"
PARTS = "name its modules: for name, _ in model.named_modules()"
SIZES = "--model-args max_memory=0:20GiB;1:20GiB;cpu:60GiB"


@dataclass(frozen=True)
class Placement:
    """Where the parts of a model are to go."""

    map: str | Mapping[str, Place]
    """Places by modules' names, or how accelerate finds them."""
    max_memory: Mapping[Place, int]
    """Bytes of weights at most, by place."""

    @property
    def mapped(self) -> bool:
        """Whether the user says where each part goes."""
        return not isinstance(self.map, str)

    def load(self, loader: Callable[..., tuple[Any, Any]]) -> tuple[Any, Any]:
        """Call transformers' loader with this placement; return the module and its report.

        Weights that are not on the disk as the model computes with them get a folder in the cache,
        which goes with the module. Raises `ResourceError` if there can be none, and `UsageError` for
        a map that names what is no part of the model, which transformers leaves aside.
        """
        logging.getLogger("accelerate").setLevel(logging.ERROR)  # `Model.placement` says it
        with ExitStack() as stack:
            options: dict[str, Any] = {"device_map": self.map}
            options["offload_folder"] = _offload_folder(stack)
            if self.max_memory:
                options["max_memory"] = dict(self.max_memory)
            module, report = loader(**options)
            finalize(module, stack.pop_all().close)
        parts = {"", *(name for name, _ in module.named_modules()), *module.state_dict()}
        if unknown := [name for name in self.map if name not in parts] if self.mapped else []:
            raise UsageError(
                f"the model has no part {unknown[0]}, which the device map names", PARTS
            )
        return module, report


def _offload_folder(stack: ExitStack) -> str:
    """Make a folder for weights, which lasts as long as the stack."""
    place = cache_folder() / "offloaded"
    try:
        place.mkdir(parents=True, exist_ok=True)
        remove_left(place)
        folder = stack.enter_context(TemporaryDirectory(dir=place))
        stack.enter_context(locked(Path(folder), "name another: EDIT_HARNESS_CACHE"))
    except OSError as error:
        raise ResourceError(
            f"{place} cannot be written: {error.strerror}", "set EDIT_HARNESS_CACHE"
        ) from None
    return folder


def remove_left(place: Path) -> None:
    """Remove the folders of weights that no process holds any more, as after a kill."""
    for file in place.glob("*/lock"):
        with suppress(OSError), FileLock(file, blocking=False):
            shutil.rmtree(file.parent)


def placed(
    given: str | Mapping[str, Place] | None, max_memory: str | None, device: str
) -> Placement | None:
    """Return where a model's parts go by a name of `FOUND`, a file or a map; None if on one device.

    Raises `UsageError` for options that contradict each other.
    """
    if not given and max_memory:
        raise UsageError("max_memory is of a device map", f"add one: {MAPS}")
    if not given:
        return None
    if device != "auto":
        raise UsageError(
            f"a device map and --device {device} contradict each other",
            "leave one of them out; a map of one device is that device",
        )
    if not importlib.util.find_spec("accelerate"):
        raise UsageError("a device map needs accelerate", "pip install 'edit-harness[device-map]'")
    if isinstance(given, str) and given in FOUND:
        return Placement(given, _limits(max_memory))
    if max_memory:
        raise UsageError("max_memory is of a map that is to be found", f"add one: {MAPS}")
    return Placement(_read(given) if isinstance(given, str) else given, {})


def _read(file: str) -> Mapping[str, Place]:
    path = Path(file).expanduser()
    if not path.is_file():
        raise UsageError(f"there is no device map {file!r}", MAPS)
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the device map {file} is no JSON: {error}") from None
    if not isinstance(read, dict) or not read:
        raise UsageError(
            f"the device map {file} is no table of modules", '{"model.embed_tokens": 0, ...}'
        )
    return read


def _limits(text: str | None) -> dict[Place, int]:
    """Return bytes by place: what the text says, or all but some of what is free."""
    from accelerate.utils import get_max_memory

    if not text:
        return {place: int(ROOM * free) for place, free in get_max_memory().items()}
    pairs = [part.strip().partition(":") for part in text.split(";")]
    try:
        return get_max_memory({int(p) if p.isdecimal() else p: size for p, _, size in pairs})
    except ValueError as error:
        raise UsageError(f"max_memory {text!r} is wrong: {error}", f"say it as {SIZES}") from None
