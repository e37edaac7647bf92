"""Which plugins there are, and components by name.

A plugin is a module (or object) with hook implementations; `edit_harness.registry.packages` finds them. A
broken plugin is reported and skipped; it never hides the others.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple

import pluggy

from .. import hookspecs, interfaces
from ..errors import PluginError, UsageError, printable
from . import guard, selection, sources
from .packages import Package, file_of

KINDS: Mapping[str, Any] = {
    "editor": interfaces.Editor,
    "task": interfaces.Task,
    "metric": interfaces.Metric,
    "judge": interfaces.Judge,
    "control": interfaces.Control,
    "model": interfaces.ModelSource,
    "executor": interfaces.Executor,
    "adaptor": Callable,
    "suite": "edit_harness.testing.suite:Suite",
    "command": "click:Command",
}
"""What components of a kind are subclasses of, or where that is; a command is an object of it."""
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
    """The base class of its kind, or where that is, as text."""
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
        factory, what = self.factory, f"{self.kind} {self.name!r} of {self.origin}"
        if isinstance(factory, str):
            failed = f"{self.kind} {self.name!r} cannot be imported from {factory!r}"
            remedy = f"it belongs to {self.origin}: reinstall it or ask its author"
            what = f"{what}: {factory!r}"
            with (
                guard.blamed(failed, None, remedy, ()),
                guard.importing(f"{self.kind} {self.name}"),
            ):
                factory = _named(factory)
        base = _named(self.base) if isinstance(self.base, str) else self.base
        _check_class(self.kind, factory, base, what)
        if isinstance(factory, type):
            guard.remember(factory, self.origin)
        return factory


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
        name = f"{self.distribution} {self.version}".strip()
        return f"{name} could not be loaded: {self.reason}"


class LeftOut(NamedTuple):
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
        self.kinds: dict[str, Any] = dict(KINDS)
        """The base class of each kind of components."""
        self._manager = _manager()

    @classmethod
    def installed(cls, *, ours: bool = True) -> Plugins:
        """Load every plugin that is installed or named, as the environment says; ``ours`` with them.

        The bundled commands are there in any case. Raises `UsageError` for a file or a folder that the
        environment names in vain.
        """
        loaded = cls.commands_alone()
        for package in selection.found():
            if not ours and package.name == hookspecs.DISTRIBUTION:
                continue
            if reason := selection.left_out(package):
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
        name, version = package.name, package.version
        with guard.importing(package) as self.packages[package]:
            for entry in package.entries:
                try:
                    self.add(entry.load(), name, version, package)
                except guard.PASSING:
                    raise
                except BaseException as error:
                    guard.log.debug("%s", package, exc_info=True)
                    failure = Failure(name, version, entry.value, guard.said(error), package)
                    self.failures.append(failure)

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
                f"{hookspecs.API}; docs/plugins.md, What has moved, says what is where"
            )
        manager, kinds, added = _manager(), dict(self.kinds), list[Component]()
        manager.register(plugin)

        def register_kind(name: str, base: type | str, summary: str = "") -> None:
            _check_name("kind", name)
            if name in kinds:
                raise PluginError(f"kind {name!r} is registered twice")
            kinds[name] = base

        def register(
            kind: str, name: str, factory: type | str, summary: str = "", group: str = ""
        ) -> None:
            _check_name(kind, name)
            said, heading = (printable(" ".join(text.split())) for text in (summary, group))
            came = distribution, version, package
            new = Component(kind, name, factory, said, *came, kinds[kind], heading)
            if any((c.kind, c.qualified) == (kind, new.qualified) for c in self.components + added):
                raise PluginError(f"{kind} {name!r} is registered twice")
            added.append(new)

        manager.hook.edit_harness_register_kinds(register=register_kind)
        for kind in kinds.keys() - KINDS.keys():
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
            with guard.blamed(f"{hook} of {each.plugin_name} failed", each.function):
                found.append(each.function(**{name: given[name] for name in each.argnames}))
        return [result for result in found if result is not None]

    def packages_of(self, kind: type, registered: Package | None = None) -> list[Package]:
        """Return the packages whose code a class is: which registered it, and which its file is in.

        Those of its bases that are in a package are added. A class in no package stands for its file, or for
        itself if it has none.
        """
        holders = [self._holder(base) for base in kind.__mro__]
        own = registered if registered and file_of(kind) in registered.files else holders[0]
        found = [registered, own or sources.of_class(kind), *holders[1:]]
        return list(dict.fromkeys(package for package in found if package))

    def _holder(self, kind: type) -> Package | None:
        """Return the package that has the file of a class; packages may share a namespace."""
        root = kind.__module__.partition(".")[0]
        known = [*self.packages, *(out.package for out in self.left_out)]
        near = (package for package in known if root in package.roots)
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
        found = [c for c in self.of_kind(kind) if name in (c.name, c.qualified)]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(sorted(c.qualified for c in found))
            raise PluginError(f"several plugins have the {kind} {name!r}", f"say which: {choices}")
        known = [c.name for c in self.of_kind(kind)]
        broken = "".join(f"; {failure}" for failure in self.failures)
        broken += "".join(f"; {out.package} is left out: {out.reason}" for out in self.left_out)
        raise PluginError(
            f"there is no {kind} {name!r}{suggestion(name, known)}",
            f"installed: {', '.join(known) or 'nothing'}{broken}",
        )


def suggestion(name: str, known: list[str]) -> str:
    """Return ``; did you mean ...?`` if something known looks like the name."""
    close = get_close_matches(name.lower().replace("_", "-"), known, n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.GROUP)
    manager.add_hookspecs(hookspecs)
    return manager


def _hook(kind: str) -> str:
    """Return the name of the hook that registers components of a kind."""
    return f"{hookspecs.GROUP}_register_{kind.replace('-', '_')}s"


def _specify(manager: pluggy.PluginManager, kind: str) -> None:
    """Add the hook of a kind that a package has brought."""

    @hookspecs.hookspec
    def register_components(register: hookspecs.Register) -> None:
        """Register components of the kind."""

    manager.add_hookspecs(type(kind, (), {_hook(kind): staticmethod(register_components)}))


def _check_name(kind: str, name: str) -> None:
    """Raise `PluginError` for a name that cannot be one."""
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise PluginError(f"{name!r} is no {kind} name: use a-z, 0-9 and single hyphens")
    if name in TAKEN.get(kind, ()):
        raise PluginError(f"no {kind} can be called {name!r}")


def _check_class(kind: str, factory: Any, base: type, what: str) -> None:
    """Raise `PluginError`, which calls it ``what``, for what can be no component of a kind."""
    if kind == "command":
        if not isinstance(factory, base):
            raise PluginError(f"{what} is no click command: it is a {type(factory).__name__}")
        return
    if not isinstance(factory, type):
        raise PluginError(
            f"{what} is no class: it is a {type(factory).__name__}", "register the class itself"
        )
    if not issubclass(factory, base):
        raise PluginError(f"{what} is no {base.__name__}", "it has to be a subclass of that")
    if missing := sorted(getattr(factory, "__abstractmethods__", ())):
        raise PluginError(
            f"{what} has no {', '.join(missing)}",
            f"a {base.__name__} has to define it: class {factory.__name__}",
        )


def _named(text: str) -> Any:
    """Return what ``"package.module:name"`` is."""
    module, _, attribute = text.partition(":")
    return getattr(importlib.import_module(module), attribute)
