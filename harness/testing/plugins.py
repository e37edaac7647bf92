"""The suite for plugin modules; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import json
import os
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from ..hookspecs import GROUP
from ..registry.registry import Component, Plugins
from ..registry.settings import build
from .suite import Suite, python

UNDER_TEST = "under-test"
"""What stands for the distribution of the plugin."""
NEEDED = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""What a process needs of the environment; who has imported the plugin may have what it changes."""
REGISTERING = f"""
import importlib, json, os, sys, tempfile
from edit_harness.registry import guard
os.chdir(tempfile.gettempdir())
from edit_harness.registry.registry import Plugins
before = guard.read()
Plugins.bundled().add(importlib.import_module(sys.argv[1]), {UNDER_TEST!r})
changed = guard.changes(before, guard.read())
heavy = ("torch", "transformers", "numpy", "scipy", "safetensors", "tokenizers")
heavy = [name for name in heavy if name in sys.modules]
print("\\n" + json.dumps({{"changed": changed, "heavy": heavy}}))
"""
"""What a process of its own does with a plugin; what it prints before the last line is the plugin's."""


class PluginTests(Suite):
    """What every plugin module must do.

    Its hooks are known, marked, and register components of their kind, made without arguments.
    Importing it loads nothing heavy, prints nothing and changes nothing global.
    """

    plugin: ModuleType

    @pytest.fixture
    def components(self) -> list[Component]:
        """Return what the plugin registers."""
        plugins = Plugins.bundled()
        try:
            plugins.add(self.plugin, UNDER_TEST)
        except Exception:
            pytest.skip("nothing is registered: see test_hooks_are_known")
        return [c for c in plugins.components if c.distribution == UNDER_TEST]

    @pytest.fixture
    def registered(self) -> dict[str, Any]:
        """Return what a fresh process saw when it registered the plugin, and what was printed."""
        try:
            return registered(self.plugin.__name__)
        except RuntimeError as error:
            pytest.fail(str(error))

    def test_hooks_are_known(self) -> None:
        """Every hook is one that there is, with the arguments that it has, and marked as a hook."""
        for name, hook in vars(self.plugin).items():
            if name.startswith(f"{GROUP}_register") and callable(hook):
                marked = hasattr(hook, f"{GROUP}_impl")
                assert marked, f"{name} is never called: mark it with @hookimpl"
        try:
            Plugins.bundled().add(self.plugin, UNDER_TEST)
        except Exception as error:
            pytest.fail(f"{error}; the hooks and their arguments are in edit_harness.hookspecs")

    def test_registers_without_heavy_modules(self, registered: dict[str, Any]) -> None:
        """Every start of the command imports every plugin, so that must be cheap."""
        heavy = ", ".join(registered["heavy"])
        assert not heavy, f"it imports {heavy}: name the factory as text: 'package.module:Class'"

    def test_registers_in_silence(self, registered: dict[str, Any]) -> None:
        """What a plugin prints would stand in the output of every command."""
        said = registered["said"]
        assert not said, f"it prints when it is imported: {said[:200]!r}"

    def test_registering_leaves_the_process_as_it_was(self, registered: dict[str, Any]) -> None:
        """An import changes no environment, no directory, no random state, no handler."""
        changed = "; ".join(registered["changed"])
        assert not changed, f"importing it changed {changed}: do that where a component is used"

    def test_components_are_of_their_kind(self, components: list[Component]) -> None:
        """Lazy factories can be imported, and are subclasses of what they were registered as, made without arguments."""
        for component in components:
            factory = component.load()
            if component.kind not in ("adaptor", "suite", "command"):
                build(factory, {}, component.name)


@cache
def registered(module: str) -> dict[str, Any]:
    """Register a plugin in a fresh process where nothing is set yet, and return what that did.

    Raises `RuntimeError` if it fails.
    """
    env = {k: v for k, v in os.environ.items() if k in NEEDED or k.startswith("EDIT_HARNESS_")}
    done = python("-c", REGISTERING, module, env=env)
    out, err = (part.decode(errors="replace").strip() for part in (done.stdout, done.stderr))
    if done.returncode or not out:
        raise RuntimeError(f"{module} cannot be registered in a fresh process: {out}{err}")
    printed, _, found = out.rpartition("\n")
    return {"said": (printed + err).strip(), **json.loads(found)}
