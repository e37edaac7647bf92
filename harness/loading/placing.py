"""Which parts of a model go where, if it is not to be on one device: what a user may say, checked.

The placing itself is accelerate's, through transformers. A part is on a device, in the memory of the
CPU or on the disk; parts that are on no device, and how they are used there, are `offloading`'s matter.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias
from weakref import finalize

import torch
from filelock import FileLock
from torch import nn

from ..errors import ResourceError, UsageError
from ..files import cache_folder, locked
from ..model import offloading

Place: TypeAlias = int | str
"""The number of an accelerator, ``cpu`` or ``disk``."""
FOUND = ("auto", "balanced", "sequential")
"""Maps that accelerate finds."""
ROOM = 0.9
"""Share of each memory that may be filled with weights; passes need the rest."""
MAPS = f"say {', '.join(FOUND)}, or name a JSON file of modules and devices"
SIZES = "--model-args max_memory=0:20GiB;1:20GiB;cpu:60GiB"


@dataclass(frozen=True)
class Placement:
    """Where the parts of a model are to go: a map by modules' names, or how to find one."""

    map: str | Mapping[str, Place]
    most: Mapping[Place, int]
    """Bytes of weights at most, by place."""

    @contextmanager
    def options(self) -> Iterator[tuple[dict[str, Any], Callable[[Any], None]]]:
        """Give what transformers' loader takes, and a function to call with what it has loaded.

        Weights that are not on the disk as they are computed with get a folder in the cache, which goes with
        the model. Raises `ResourceError` if there can be none.
        """
        with ExitStack() as stack:
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
            logging.getLogger("accelerate").setLevel(
                logging.ERROR
            )  # `offloading.described` says where all is
            given: dict[str, Any] = {"device_map": self.map, "offload_folder": folder}
            if isinstance(self.map, str):
                given["max_memory"] = dict(self.most)
            yield given, lambda module: _go_with(module, stack.pop_all())


def remove_left(place: Path) -> None:
    """Remove the folders of weights that no process holds any more, as after a kill."""
    for file in place.glob("*/lock"):
        with suppress(OSError), FileLock(file, blocking=False):
            shutil.rmtree(file.parent)


def _go_with(module: Any, stack: ExitStack) -> None:
    finalize(module, stack.close)


def placement(
    given: str | Mapping[str, Place] | None, most: str | None, device: str
) -> Placement | None:
    """Return what was said of a model's parts, if anything: a name of `FOUND`, a file or a map.

    ``most`` limits the weights by place. Raises `UsageError` if it cannot be followed.
    """
    if not given and most:
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
        return Placement(given, _most(most))
    if most:
        raise UsageError("max_memory is of a map that is to be found", f"add one: {MAPS}")
    return Placement(_numbered(_read(given) if isinstance(given, str) else given), {})


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


def _numbered(given: Mapping[str, Any]) -> dict[str, Place]:
    """Return a map with accelerators by number. Raises `UsageError` for one that is not there."""
    count = torch.accelerator.device_count()
    places = [*range(count), "cpu", "disk"]
    numbered: dict[str, Place] = {}
    for name, place in given.items():
        kind, _, number = str(place).rpartition(":")
        own = torch.accelerator.current_accelerator()
        if number.isdecimal() and kind in ("", own.type if own else ""):
            place = int(number)
        if isinstance(place, bool) or place not in places:
            raise UsageError(
                f"the device map puts {name or 'the model'} on {place!r}, which is not here",
                f"there are {', '.join(map(str, places))}",
            )
        numbered[name] = place
    return numbered


def _most(text: str | None) -> dict[Place, int]:
    """Return bytes by place: as said, or all but some of what is free."""
    from accelerate.utils import convert_file_size_to_int, get_max_memory

    if not text:
        return {place: int(ROOM * free) for place, free in get_max_memory().items()}
    most: dict[Place, int] = {}
    for part in text.split(";"):
        place, _, size = part.strip().partition(":")
        try:
            most[int(place) if place.isdecimal() else place] = convert_file_size_to_int(size)
        except ValueError:
            raise UsageError(f"max_memory has {part.strip()!r}", f"say it as {SIZES}") from None
        if not place.isdecimal() and place != "cpu":
            raise UsageError(f"max_memory has {place!r}, which is no place", f"say it as {SIZES}")
    return most


def check(given: Placement, bare: nn.Module) -> None:
    """Raise `UsageError` for a map that leaves something out or cuts apart what has to be together.

    ``bare`` is the model without its weights.
    """
    if isinstance(given.map, str):
        return
    parts = dict(bare.named_modules()).keys()
    if unknown := [name for name in given.map if name not in parts]:
        raise UsageError(
            f"the device map has {unknown[0]!r}, which is no module of the model",
            f"its modules are such as {', '.join(list(parts)[1:4])}",
        )
    names = [name for name, _ in bare.named_parameters(remove_duplicate=False)]
    where = {name: _of(name, given.map) for name in names}
    if lacking := [name for name, found in where.items() if len(found) != 1]:
        many = "has no place" if not where[lacking[0]] else "has several places"
        raise UsageError(f"the device map {many} for {lacking[0]}", "name each part of it once")
    kinds = getattr(bare, "_no_split_modules", None) or ()
    whole = [n for n, part in bare.named_modules() if type(part).__name__ in kinds]
    together = [[name for name in where if name.startswith(f"{block}.")] for block in whole]
    for each in [*together, *offloading.same_weights(bare)]:
        if len({place for name in each for place in where[name]}) > 1:
            raise UsageError(
                f"the device map puts apart {each[0]} and {each[-1]}",
                "the weights of a block, and two that are one, have to be in one place",
            )


def _of(name: str, places: Mapping[str, Place]) -> list[Place]:
    return [
        place for part, place in places.items() if not part or f"{name}.".startswith(f"{part}.")
    ]
