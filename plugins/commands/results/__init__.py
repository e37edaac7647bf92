"""Commands that read run folders: case, score, compare, diff, repair; and how they show what they find."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edit_harness_plugins.terminal import out

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..report.formats import Grid


def show(data: Any, *parts: RenderableType | tuple[str, str] | Grid, as_json: bool) -> None:
    """Print tables, texts, and texts behind labels; or the same in full as JSON, in which no number is NaN."""
    # Here, since they bring numpy along.
    from edit_harness.files import finite

    from ..report.formats import Grid, labelled, rich

    if as_json:
        out.out(json.dumps(finite(data), indent=1))
        return
    for part in parts:
        if isinstance(part, Grid):
            out.print(*rich([part], out.width), sep="\n")
        else:
            out.print(labelled(*part, out.width) if isinstance(part, tuple) else part)
