"""Commands for authors: new, check, build-data, prepare; and what a builder of data is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import click

from edit_harness_plugins.command_line import Lazy

Knows = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]
"""Takes prompts with objects, and tells of each whether a model goes on with the object, greedily."""


@dataclass(frozen=True)
class Material:
    """What the command ``build-data`` gives a builder."""

    triples: Path
    """A file of facts: subject, relation, object."""
    templates: Path | None = None
    """A file of the relations' words, if one was given."""
    knows: Knows | None = None
    """What a model knows of the facts; None if no model was named."""


class Builder(ABC):
    """Makes a task's data from a user's own facts."""

    citation: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """What the facts and the templates must have, in a few words."""
    makes: ClassVar[Literal["file", "folder"]] = "file"

    @classmethod
    def card(cls) -> Mapping[str, Any]:
        """Return what ``edit-harness show`` says of it, besides what it says of every component."""
        return {"makes": f"a {cls.makes}"}

    @abstractmethod
    def build(self, material: Material, out: Path, report: Callable[[str], None]) -> None:
        """Write the data to ``out``, which is not there yet; its folder is.

        ``report`` takes a line for the user, such as what was left out and why. The same material and
        fields give the same bytes. Raises `DataError` for facts or templates that are not right, and
        if nothing can be made of them.
        """


@click.group(cls=Lazy, default="list", commands={
    "list": "edit_harness_plugins.commands.catalog.list:plugins",
    "new": f"{__name__}.new:new",
    "check": f"{__name__}.check:check",
})  # fmt: skip
def plugins() -> None:
    """List what is installed and what is broken, write a new package, check one."""
