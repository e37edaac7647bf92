"""What a board calls a run: by what identifies it, never by what its submitter calls it.

The editor has the name that the fingerprint covers, the model that under which its weights are published.
What a manifest says instead is told as said, beside it.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from edit_harness.folder.manifest import Manifest, TaskInfo
from edit_harness.registry.fields import build

from .evidence import Evidence
from .stated import given, strange

DIGITS = 12
"""Hex digits of the weights' digest that stand for a model without a name."""


def model(evidence: Evidence) -> str:
    """Return the name under which the run's weights are published; a part of their digest if there is none."""
    named = evidence.baseline.header["name"] if evidence.baseline else ""
    return named or evidence.identity.model.digest[:DIGITS]


def editor(evidence: Evidence) -> str:
    """Return the editor's name, with the variant that follows from its settings if it tells of one."""
    name = evidence.identity.editor.name
    variant = _variant(evidence)
    return f"{name}[{variant}]" if variant else name


def _variant(evidence: Evidence) -> str:
    """Return how the editor departs from its paper; empty if it is not here, or does not tell."""
    said = evidence.identity.editor
    try:
        factory: Any = evidence.plugins.find("editor", said.name).load()
        if strange(factory, said.fields):
            return ""
        return str(build(factory, given(said.fields), "editor").variant)
    except Exception:  # an editor is made of numbers that a stranger chose
        return ""


def claims(manifest: Manifest) -> dict[str, str]:
    """Return what a manifest calls editor, model and preset, which nothing vouches for."""
    said = {
        "editor": manifest.label,
        "model": manifest.model.name,
        "revision": manifest.model.revision,
        "preset": manifest.preset,
    }
    return {name: text for name, text in said.items() if text}


def vouched(evidence: Evidence) -> Manifest:
    """Return a manifest in which names are those of the run, and words of its submitter are left out."""
    said = evidence.manifest
    own = structs.replace(said.model, name=model(evidence), note="", revision="")
    return structs.replace(
        said,
        label=editor(evidence),
        preset="as submitted" if said.preset else "",
        model=own,
        task=TaskInfo(),
    )
