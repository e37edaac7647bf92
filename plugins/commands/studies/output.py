"""What the studies print and write alike: labelled lines on stderr, heat maps as a page and an image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from edit_harness import durable
from edit_harness.errors import ResourceError
from edit_harness_plugins.commands.report import formats, heatmaps
from edit_harness_plugins.commands.report.heatmaps import HeatMap
from edit_harness_plugins.commands.run import console


def say(label: str, text: str) -> None:
    """Print one labelled line on stderr."""
    console.err.print(formats.labelled(label, text, console.err.width))


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
