"""Load plugins, and look components up by name.

A plugin is a module (or object) with hook implementations; `edit_harness.registry.packages` finds them. One
broken plugin is reported and skipped; it never hides the others.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import metadata
from typing import Any

import pluggy

from .. import hookspecs
from ..errors import PluginError, UsageError
from . import blame, declared, discovery, guard, uninstalled
from .packages import Entry, Package, file_of

MOVED = "; docs/plugins.md, What has moved, says what is where"
"""What the author of a package for an earlier interface should know."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
TAKEN = {"judge": ("none",)}
"""Names that flags give another meaning: --judge none is no judge."""


@dataclass(frozen=True)
class Component:
    """A registered name and what it stands for."""

    kind: str
    name: str
    factory: type | str
    summary: str
    distribution: str
    version: str
    package: Package | None = field(default=None, compare=False, repr=False)
    """What it came in; None if a module was registered by hand."""
    base: Any = field(default=None, compare=False, repr=False)
    """What its class has to be a subclass of, or where that is, as text."""
    group: str = ""
    """A heading for a command."""

    @property
    def qualified(self) -> str:
        """The name that is unique even when two plugins share the short one."""
        return f"{self.distribution}/{self.name}"

    @property
    def origin(self) -> str:
        """The distribution and its version, or the file."""
        return f"{self.distribution} {self.version}".strip()

    def load(self) -> Any:
        """Return the class, or the command; imported if it was registered lazily.

        Raises `PluginError` if that fails, and for what can be no class of its kind.
        """
        factory = self._found() if isinstance(self.factory, str) else self.factory
        what = f": {self.factory!r}" if isinstance(self.factory, str) else ""
        base = _imported(self.base) if isinstance(self.base, str) else self.base
        declared.check(
            self.kind, factory, base, f"{self.kind} {self.name!r} of {self.origin}{what}"
        )
        if isinstance(factory, type):
            blame.remember(factory, self.origin)
        return factory

    def _found(self) -> Any:
        """Import what a text names. Raises `PluginError`."""
        assert isinstance(self.factory, str)
        try:
            with _watched(self.package, f"{self.kind} {self.name}"):
                return _imported(self.factory)
        except blame.PASSING:
            raise
        except BaseException as error:
            raise PluginError(
                f"{self.kind} {self.name!r} cannot be imported from {self.factory!r}: "
                f"{_reason(error)}",
                f"it belongs to {self.origin}: reinstall it or ask its author",
            ) from error


@dataclass(frozen=True)
class Failure:
    """A plugin that could not be loaded."""

    distribution: str
    version: str
    entry: str
    reason: str
    package: Package | None = field(default=None, compare=False, repr=False)
    """What it came in: two files may have one name."""

    def __str__(self) -> str:
        return (
            f"{self.distribution} {self.version}".strip() + f" could not be loaded: {self.reason}"
        )


@dataclass(frozen=True)
class LeftOut:
    """A package that is there and was not loaded."""

    package: Package
    reason: str


class Plugins:
    """The components of the loaded plugins."""

    def __init__(self) -> None:
        self.components: list[Component] = []
        self.failures: list[Failure] = []
        self.packages: dict[Package, guard.Import] = {}
        """What was loaded, broken or not, and how that went."""
        self.left_out: list[LeftOut] = []
        self.kinds: dict[str, Any] = dict(declared.KINDS)
        """What components of each kind are subclasses of."""
        self._manager = _manager()

    @classmethod
    def installed(cls, *, ours: bool = True) -> Plugins:
        """Load every plugin that is installed or named, as the environment says; ``ours`` with them.

        The bundled commands are there in any case. Raises `UsageError` for a file or a folder that the
        environment names in vain.
        """
        loaded = cls.commands_alone()
        for package in discovery.found():
            if not ours and package.name == hookspecs.DISTRIBUTION:
                continue
            if reason := discovery.left_out(package):
                loaded.left_out.append(LeftOut(package, reason))
            else:
                loaded.take(package)
        return loaded

    @classmethod
    def commands_alone(cls) -> Plugins:
        """Load the bundled commands, whatever the environment says, with the kinds that they bring."""
        loaded, ours = cls(), metadata.distribution(hookspecs.DISTRIBUTION)
        for entry in ours.entry_points.select(group=hookspecs.BUNDLED):
            loaded.add(entry.load(), ours.name, ours.version)
        return loaded

    def take(self, package: Package) -> None:
        """Load the plugins of a package; what fails is kept with its reason."""
        with _watched(package) as self.packages[package]:
            for entry in package.entries:
                try:
                    self.add(entry.load(), package.name, package.version, package)
                except blame.PASSING:
                    raise
                except BaseException as error:
                    guard.log.debug("%s", package, exc_info=True)
                    self.failures.append(_failure(package, entry, error))

    def add(
        self, plugin: Any, distribution: str, version: str = "0", package: Package | None = None
    ) -> None:
        """Register one plugin's components, or none if any of them is unusable.

        Raises `PluginError`, or what the plugin's own code raises.
        """
        made_for = getattr(plugin, "edit_harness_api", hookspecs.API)
        if made_for != hookspecs.API:
            raise PluginError(
                f"it is made for version {made_for} of the plugin interface, and here it is "
                f"{hookspecs.API}{MOVED}"
            )
        manager, kinds, added = _manager(), dict(self.kinds), list[Component]()
        manager.register(plugin)

        def register_kind(name: str, base: type | str, summary: str = "") -> None:
            _check("kind", name, summary)
            if name in kinds:
                raise PluginError(f"kind {name!r} is registered twice")
            kinds[name] = base

        def register(
            kind: str, name: str, factory: type | str, summary: str = "", group: str = ""
        ) -> None:
            _check(kind, name, summary, group)
            said, base = _one_line(summary), kinds[kind]
            new = Component(
                kind, name, factory, said, distribution, version, package, base, _one_line(group)
            )
            if any((c.kind, c.qualified) == (kind, new.qualified) for c in self.components + added):
                raise PluginError(f"{kind} {name!r} is registered twice")
            added.append(new)

        manager.hook.edit_harness_register_kinds(register=register_kind)
        for kind in kinds.keys() - declared.KINDS.keys():
            _specify(manager, kind)
        manager.check_pending()
        for kind in kinds:
            getattr(manager.hook, _hook(kind))(register=partial(register, kind))
        called = [caller.name for caller in manager.get_hookcallers(plugin) or ()]
        reacts = any("_register_" not in name for name in called)
        if not added and kinds == self.kinds and not reacts:
            raise PluginError("it registers nothing; hooks are functions marked @hookimpl")
        self.components += added
        self.kinds = kinds
        if not self._manager.is_registered(plugin):
            self._manager.register(plugin)

    def call(self, hook: str, **given: Any) -> list[Any]:
        """Call a hook of every plugin, and return what they return but None.

        Raises `PluginError`, which names the plugin, for what one raises.
        """
        found = []
        for each in getattr(self._manager.hook, hook).get_hookimpls():
            with blame.blamed(f"{hook} of {each.plugin_name} failed", each.function):
                found.append(each.function(**{name: given[name] for name in each.argnames}))
        return [result for result in found if result is not None]

    def packages_of(self, kind: type, registered: Package | None = None) -> list[Package]:
        """Return whose code a class is: of the package that registered it, if any, and of what its file is in.

        Those of its bases that are in a package are added. A class in no package stands for its file, or for
        itself if it has none.
        """
        holders = [self._holder(base) for base in kind.__mro__]
        own = registered if registered and file_of(kind) in registered.files else holders[0]
        found = [registered, own or uninstalled.of_class(kind), *holders[1:]]
        return list(dict.fromkeys(package for package in found if package))

    def _holder(self, kind: type) -> Package | None:
        """Return the package that has the file of a class; packages may share a namespace."""
        root = kind.__module__.partition(".")[0]
        known = [*self.packages, *(out.package for out in self.left_out)]
        near = [package for package in known if root in package.roots]
        return next((package for package in near if file_of(kind) in package.files), None)

    def of_kind(self, kind: str) -> list[Component]:
        """Return the components of one kind, by name."""
        return sorted((c for c in self.components if c.kind == kind), key=lambda c: c.name)

    def find(self, kind: str, name: str) -> Component:
        """Return the component called ``name``, or ``distribution/name``.

        Raises `PluginError` if there is none or more than one, and `UsageError` for what is no name.
        """
        if not isinstance(name, str):
            raise UsageError(
                f"{name!r:.60} is no name of {'an' if kind[0] in 'aeiou' else 'a'} {kind}",
                f"give one name, or one {kind} as an object; of several, give each in its turn",
            )
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
        broken = "".join(f"; {failure}" for failure in self.failures)
        broken += "".join(f"; {out.package} is left out: {out.reason}" for out in self.left_out)
        return PluginError(
            f"there is no {kind} {name!r}{guess}",
            f"installed: {', '.join(known) or 'nothing'}{broken}",
        )


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.GROUP)
    manager.add_hookspecs(hookspecs)
    return manager


def _hook(kind: str) -> str:
    """Return what the hook is called by which components of a kind are registered."""
    return f"{hookspecs.GROUP}_register_{kind.replace('-', '_')}s"


def _specify(manager: pluggy.PluginManager, kind: str) -> None:
    """Let there be the hook of a kind that a package has brought."""

    @hookspecs.hookspec
    def register_components(register: hookspecs.Register) -> None:
        """Register components of the kind."""

    manager.add_hookspecs(type(kind, (), {_hook(kind): staticmethod(register_components)}))


def _check(kind: str, name: str, summary: str, group: str = "") -> None:
    """Raise `PluginError` for a name, a summary or a group that cannot be one."""
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise PluginError(f"{name!r} is no {kind} name: use a-z, 0-9 and single hyphens")
    if name in TAKEN.get(kind, ()):
        raise PluginError(f"no {kind} can be called {name!r}")
    for what, text in (("summary", summary), ("group", group)):
        if not isinstance(text, str):
            raise PluginError(f"the {what} of {kind} {name!r} is {text!r:.60}, and no text")


def _imported(text: str) -> Any:
    """Return what ``"package.module:name"`` is."""
    module, _, attribute = text.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _one_line(text: str) -> str:
    """Return a text in one line, without what would steer a terminal."""
    return "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split())
    )


def suggestion(name: str, known: list[str]) -> str:
    """Return ``; did you mean ...?`` if something known looks like the name."""
    close = get_close_matches(name.lower().replace("_", "-"), known, n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


@contextmanager
def _watched(package: Package | None, component: str = "") -> Iterator[guard.Import]:
    """Import something of a package under guard, and tell the user what went on."""
    # Every start registers what is installed; a file is named, and a component asked for.
    limit = guard.SLOW if package and not (component or package.named) else math.inf
    went = guard.Import()
    try:
        with guard.importing(limit) as went:
            yield went
    finally:
        for said in went.notes:
            guard.note(f"{component or package} {said}")


def _failure(package: Package, entry: Entry, error: BaseException) -> Failure:
    return Failure(package.name, package.version, entry.value, _reason(error), package)


def _reason(error: BaseException) -> str:
    """Return what an error says; of a name of ours that is no longer there, also where that is told."""
    ours = isinstance(error, ImportError) and (error.name or "").startswith(hookspecs.GROUP)
    return blame.said(error) + (MOVED if ours else "")
