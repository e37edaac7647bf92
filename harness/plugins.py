"""Find plugins, and look components up by name.

A plugin is a module (or object) with hook implementations, advertised by an entry point in the
group ``edit_harness``. One broken plugin is reported and skipped; it never hides the others.
``EDIT_HARNESS_PLUGINS`` limits loading to the named distributions. The entry points are iterated
here because pluggy's own loader drops a second distribution with an equal entry-point name, and
dies on the first broken plugin.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

import pluggy

from edit_harness import hookspecs
from edit_harness.errors import PluginError

KINDS = ("editor", "task", "metric", "judge", "builder", "model", "adaptor", "suite")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Component:
    """A registered name and what it stands for."""

    kind: str
    name: str
    factory: type | str
    summary: str
    distribution: str
    version: str

    @property
    def qualified(self) -> str:
        """The name that is unique even when two plugins share the short one."""
        return f"{self.distribution}/{self.name}"

    def load(self) -> type:
        """Import the factory, if it was registered lazily. Raises `PluginError`."""
        if not isinstance(self.factory, str):
            return self.factory
        module, _, attribute = self.factory.partition(":")
        try:
            factory = getattr(importlib.import_module(module), attribute)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"{self.kind} {self.name!r} cannot be imported from {self.factory!r}: "
                f"{type(error).__name__}: {error}",
                f"it belongs to {self.distribution} {self.version}: reinstall it or ask its author",
            ) from error
        if not isinstance(factory, type):
            raise PluginError(
                f"{self.kind} {self.name!r} of {self.distribution} {self.version}: "
                f"{self.factory!r} is no class"
            )
        return factory


@dataclass(frozen=True)
class Failure:
    """A plugin that could not be loaded."""

    distribution: str
    version: str
    entry: str
    reason: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.entry}): {self.reason}"


class Plugins:
    """The components of the loaded plugins."""

    def __init__(self) -> None:
        self.components: list[Component] = []
        self.failures: list[Failure] = []

    @classmethod
    def installed(cls) -> Plugins:
        """Load every plugin that an installed distribution advertises."""
        found = cls()
        for distribution, entry in entry_points():
            name, version = distribution.name, distribution.version
            try:
                found.add(entry.load(), name, version)
            except (Exception, SystemExit) as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                found.failures.append(Failure(name, version, entry.value, reason))
        return found

    def add(self, plugin: Any, distribution: str, version: str = "0") -> None:
        """Register one plugin's components, or none if any of them is unusable."""
        manager = pluggy.PluginManager(hookspecs.GROUP)
        manager.add_hookspecs(hookspecs)
        manager.register(plugin, name=distribution)
        manager.check_pending()
        added: list[Component] = []

        def register(kind: str, name: str, factory: type | str, summary: str = "") -> None:
            if not NAME.fullmatch(name):
                raise PluginError(f"{name!r} is no {kind} name: use a-z, 0-9 and single hyphens")
            new = Component(kind, name, factory, summary, distribution, version)
            if any((c.kind, c.qualified) == (kind, new.qualified) for c in self.components + added):
                raise PluginError(f"{kind} {name!r} is registered twice")
            added.append(new)

        for kind in KINDS:
            getattr(manager.hook, f"{hookspecs.GROUP}_register_{kind}s")(
                register=partial(register, kind)
            )
        self.components += added

    def of_kind(self, kind: str) -> list[Component]:
        """Return the components of one kind, by name."""
        return sorted((c for c in self.components if c.kind == kind), key=lambda c: c.name)

    def find(self, kind: str, name: str) -> Component:
        """Return the component called ``name``, or ``distribution/name``.

        Raises `PluginError` if there is none or more than one.
        """
        known = self.of_kind(kind)
        found = [c for c in known if name in (c.name, c.qualified)]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(sorted(c.qualified for c in found))
            raise PluginError(f"several plugins have the {kind} {name!r}", f"say which: {choices}")
        raise self.unknown(kind, name)

    def unknown(self, kind: str, name: str) -> PluginError:
        """Return the error for a name that nothing is registered under."""
        known = [c.name for c in self.of_kind(kind)]
        guess = suggestion(name, known)
        broken = "".join(f"; {failure} could not be loaded" for failure in self.failures)
        return PluginError(
            f"there is no {kind} {name!r}{guess}",
            f"installed: {', '.join(known) or 'nothing'}{broken}",
        )


def suggestion(name: str, known: list[str]) -> str:
    """Return ``; did you mean ...?`` if something known looks like the name."""
    close = get_close_matches(name.lower().replace("_", "-"), known, n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def entry_points() -> Iterator[tuple[Distribution, EntryPoint]]:
    """Yield the entry points of our group, each with its distribution, sorted by name."""
    only = os.environ.get("EDIT_HARNESS_PLUGINS")
    allowed = None if only is None else {normal(name) for name in only.split(",")}
    first_on_path = {normal(d.name): d for d in reversed(list(distributions())) if d.name}
    for name in sorted(first_on_path):
        if allowed is None or name in allowed:
            distribution = first_on_path[name]
            for entry in distribution.entry_points.select(group=hookspecs.GROUP):
                yield distribution, entry


def normal(name: str) -> str:
    """Return a distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
