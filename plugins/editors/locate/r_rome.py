"""R-ROME: ROME with one key in all places (Gupta et al., 2024).

ROME takes its direction from the mean key over contexts, but the length of the change and what is
missing from the bare prompt's key alone; the two disagree, and now and then an edit ruins the
model. Here all are means: mean_c (W k_c) becomes v*. Search and formula are those of `rome`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from edit_harness import Preset
from edit_harness.interfaces import Origin

from .rome import Rome


def _as_for_rome(preset: Preset) -> Preset:
    """Return ROME's values, which the authors and others take over; they publish no others."""
    origin: Origin = "tuned" if preset.origin == "tuned" else "ported"
    return replace(preset, source=f"{preset.source}, as for rome", origin=origin)


@dataclass
class RRome(Rome):
    """Writes one key-value pair for each request, at the mean key."""

    key_mode: Literal["rome", "mean", "bare"] = "mean"

    command: ClassVar[str] = "r-rome"
    presets: ClassVar = {family: _as_for_rome(preset) for family, preset in Rome.presets.items()}
    citation: ClassVar[str] = (
        "Gupta et al. (2024), Rebuilding ROME: Resolving Model Collapse during Sequential Model Editing"
    )
