"""What the studies print and write alike: labelled lines, JSON, heat maps as a page and an image."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from edit_harness import durable
from edit_harness.encoding import finite
from edit_harness.errors import ResourceError
from edit_harness.terminal import Terminal
from edit_harness_plugins.commands.report import formats, heatmaps
from edit_harness_plugins.commands.report.heatmaps import HeatMap
from edit_harness_plugins.commands.run import console


def say(label: str, text: str, to: Terminal = console.err) -> None:
    """Print one labelled line, on stderr unless told otherwise."""
    to.print(formats.labelled(label, text, to.width))


def tell(lines: Iterable[tuple[str, str]]) -> None:
    """Print labelled lines on stdout."""
    for label, text in lines:
        say(label, text, console.out)


def print_json(data: Any) -> None:
    """Print data on stdout; a number that is none is null."""
    console.out.out(json.dumps(finite(data), indent=1))


def write_maps(
    html: str | None,
    png: str | None,
    maps: Sequence[HeatMap],
    title: str,
    lines: Iterable[tuple[str, str]],
) -> list[str]:
    """Write the page and the image that are asked for, and return their names. Raises `ResourceError`."""
    if html:
        page = heatmaps.page(maps, title, [f"{label}: {text}" for label, text in lines])
        try:
            durable.put(Path(html).expanduser(), page.encode())
        except OSError as error:
            raise ResourceError(
                f"{html} cannot be written: {error.strerror}", "name another file: --html FILE"
            ) from None
    if png:
        heatmaps.image(maps, Path(png).expanduser())
    return [name for name in (html, png) if name]
