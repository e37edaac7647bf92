"""Which plugins there are, and components by name.

A plugin is a module (or object) with hook implementations; `edit_harness.registry.packages` finds them. A
broken plugin is reported and skipped; it never hides the others.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple

import pluggy

from .. import hookspecs, interfaces
from ..errors import PluginError, UsageError, printable
from . import guard, packages
from .packages import Package

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
        """Return the class, or the command. Raises `PluginError` if it cannot be imported, or is of another kind."""
        factory, what = self.factory, f"{self.kind} {self.name!r} of {self.origin}"
        if isinstance(factory, str):
            failed = f"{self.kind} {self.name!r} cannot be imported from {factory!r}"
            remedy = f"it belongs to {self.origin}: reinstall it or ask its author"
            what = f"{what}: {factory!r}"
            importing = guard.importing(f"{self.kind} {self.name}")
            with guard.blamed(failed, None, remedy, ()), importing:
                factory = _named(factory)
        _check_class(self.kind, factory, _named(self.base), what)
        if isinstance(factory, type):
            guard.remember(factory, self.origin)
        return factory


class Failure(NamedTuple):
    """A plugin that could not be loaded."""

    package: Package
    entry: str
    reason: str

    def __str__(self) -> str:
        return f"{self.package} could not be loaded: {self.reason}"


class Plugins:
    """The components of the loaded plugins."""

    def __init__(self) -> None:
        self.components: list[Component] = []
        self.failures: list[Failure] = []
        self.packages: dict[Package, guard.Import] = {}
        """What was loaded, broken or not, and how that went."""
        self.left_out: dict[Package, str] = {}
        """What is there and was not loaded, and why."""
        self.kinds: dict[str, Any] = dict(KINDS)
        """The base class of each kind of components."""
        self._manager = _manager()

    @classmethod
    def installed(cls, *, ours: bool = True) -> Plugins:
        """Load every plugin that is installed or named, as the environment says; ``ours`` with them.

        What is `bundled` is there in any case. Raises `UsageError` for a file that is of no use.
        """
        loaded = cls.bundled()
        for package in packages.found():
            if reason := packages.left_out(package):
                loaded.left_out[package] = reason
            elif ours or package.name != hookspecs.DISTRIBUTION:
                loaded.take(package)
        return loaded

    @classmethod
    def bundled(cls) -> Plugins:
        """Load what every run needs, whatever the environment says: our commands, controls, the loading of models."""
        loaded, ours = cls(), metadata.distribution(hookspecs.DISTRIBUTION)
        for entry in ours.entry_points.select(group=hookspecs.BUNDLED):
            loaded.add(entry.load(), ours.name, ours.version)
        return loaded

    def take(self, package: Package) -> None:
        """Load the plugins of a package; what fails is kept with its reason."""
        with guard.importing(package) as self.packages[package]:
            for entry in package.entries:
                try:
                    self.add(entry.load(), package.name, package.version, package)
                except guard.PASSING:
                    raise
                except BaseException as error:
                    guard.log.debug("%s", package, exc_info=True)
                    self.failures.append(Failure(package, entry.value, guard.said(error)))

    def add(
        self, plugin: Any, distribution: str, version: str = "0", package: Package | None = None
    ) -> None:
        """Register one plugin's components, or none if any of them is unusable, which raises an error."""
        made_for = getattr(plugin, "edit_harness_api", hookspecs.API)
        if made_for != hookspecs.API:
            raise PluginError(
                f"it is made for version {made_for} of the plugin interface, and here it is "
                f"{hookspecs.API}; CHANGELOG.md, What has moved, says what is where"
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
            one_line, heading = (printable(" ".join(text.split())) for text in (summary, group))
            came = distribution, version, package
            new = Component(kind, name, factory, one_line, *came, kinds[kind], heading)
            if any((c.kind, c.qualified) == (kind, new.qualified) for c in self.components + added):
                raise PluginError(f"{kind} {name!r} is registered twice")
            added.append(new)

        manager.hook.edit_harness_register_kinds(register=register_kind)
        for kind in kinds.keys() - KINDS.keys():  # a package has brought it, and so its hook
            spec = staticmethod(hookspecs.hookspec(lambda register: None))
            manager.add_hookspecs(type(kind, (), {_hook(kind): spec}))
        manager.check_pending()
        for kind in kinds:
            getattr(manager.hook, _hook(kind))(register=partial(register, kind))
        called = [caller.name for caller in manager.get_hookcallers(plugin) or ()]
        if not added and kinds == self.kinds and all("_register_" in name for name in called):
            raise PluginError("it registers nothing; hooks are functions marked @hookimpl")
        self.components += added
        self.kinds = kinds
        if not self._manager.is_registered(plugin):
            known = self._manager.has_plugin(distribution)
            self._manager.register(plugin, None if known else distribution)

    def call(self, hook: str, returns: Any = object, **given: Any) -> Iterator[Any]:
        """Call a hook of one plugin after the other, as pluggy does the last first; yield what is not None.

        Raises `PluginError`, which names the plugin, for what one raises, and for what is not of a type.
        """
        for each in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            with guard.blamed(f"{hook} of {each.plugin_name} failed", each.function):
                found = each.function(**{name: given[name] for name in each.argnames})
                if not isinstance(found, returns | None):
                    raise TypeError(f"it returned {found!r:.60}, which is no {returns.__name__}")
            if found is not None:
                yield found

    def packages_of(self, kind: type, registered: Package | None = None) -> list[Package]:
        """Return the packages whose code a class is: which registered it, which its file is in, and those of its bases.

        A class in no package stands for its file, or for itself if it has none.
        """
        known = list(filter(None, [registered, *self.packages, *self.left_out]))
        files = [packages.file_of(base) for base in kind.__mro__]
        own, *bases = (next((p for p in known if file in p.files), None) for file in files)
        found = [registered, own or packages.of_class(kind), *bases]
        return list(dict.fromkeys(package for package in found if package))

    def of_kind(self, kind: str) -> list[Component]:
        """Return the components of one kind, by name."""
        return sorted((c for c in self.components if c.kind == kind), key=lambda c: c.name)

    def find(self, kind: str, name: str) -> Component:
        """Return the component called ``name``, or ``distribution/name``.

        Raises `PluginError` if there is none or more than one, and `UsageError` for what is no name.
        """
        if not isinstance(name, str):
            raise UsageError(
                f"{name!r:.60} names no {kind}", f"give one {kind}, by name or as an object"
            )
        known = self.of_kind(kind)
        found = [c for c in known if name in (c.name, c.qualified)]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(sorted(c.qualified for c in found))
            raise PluginError(f"several plugins have the {kind} {name!r}", f"say which: {choices}")
        names = [c.name for c in known]
        there = [f"installed: {', '.join(names) or 'nothing'}", *map(str, self.failures)]
        there += [f"{package} is left out: {why}" for package, why in self.left_out.items()]
        cause = f"there is no {kind} {name!r}{suggestion(name, names)}"
        raise PluginError(cause, "; ".join(there))


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


def _check_name(kind: str, name: str) -> None:
    """Raise `PluginError` for a name that cannot be one."""
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise PluginError(f"{name!r} is no {kind} name: use a-z, 0-9 and single hyphens")


def _check_class(kind: str, factory: Any, base: type, what: str) -> None:
    """Raise `PluginError`, which calls it ``what``, for what can be no component of a kind."""
    if kind == "command":
        if not isinstance(factory, base):
            raise PluginError(f"{what} is no click command: it is a {type(factory).__name__}")
    elif not isinstance(factory, type) or not issubclass(factory, base):
        raise PluginError(f"{what} is no {base.__name__}", "register the class, a subclass of that")
    elif missing := sorted(getattr(factory, "__abstractmethods__", ())):
        raise PluginError(
            f"{what} has no {', '.join(missing)}", f"a {base.__name__} has to define it"
        )


def _named(text: Any) -> Any:
    """Return what ``"package.module:name"`` is; what is no text is that itself."""
    return pkgutil.resolve_name(text) if isinstance(text, str) else text
