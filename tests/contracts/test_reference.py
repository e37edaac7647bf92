"""The reference of the hooks and the promise of what is public, against the code, both ways."""

import importlib
import inspect
import re
from importlib import import_module

import pytest
from support.pages import DOCS

from edit_harness import hookspecs
from edit_harness.registry.registry import Plugins
from edit_harness.testing import tiny_model

HOOKS = {name: value for name, value in vars(hookspecs).items() if name.startswith("edit_harness_")}
BROUGHT = ["edit_harness_register_builders", "edit_harness_register_packs"]
"""The hooks of kinds that bundled commands bring."""


def sections() -> dict[str, str]:
    """Return the text under each heading of the second level."""
    _, *parts = re.split(r"(?m)^## ", (DOCS / "reference/hooks.md").read_text("utf-8"))
    return {head: body for head, _, body in (part.partition("\n") for part in parts)}


def arguments(text: str) -> list[str]:
    """Return what the items of a section explain."""
    return re.findall(r"^- `(\w+)`: \S", text, re.MULTILINE)


def test_every_hook_has_a_section_and_every_section_is_of_a_hook():
    shown = [head for head in sections() if head.startswith("edit_harness_")]
    assert sorted(shown) == sorted([*HOOKS, *BROUGHT])
    kinds = Plugins.bundled().kinds
    assert {f"edit_harness_register_{kind}s" for kind in kinds} < {*HOOKS, *BROUGHT}


@pytest.mark.parametrize("hook", HOOKS)
def test_every_argument_of_a_hook_is_explained(hook):
    assert arguments(sections()[hook]) == list(inspect.signature(HOOKS[hook]).parameters)


def test_every_argument_of_register_is_explained():
    _, *named = inspect.signature(hookspecs.Register.__call__).parameters
    assert arguments(sections()[f"register({', '.join(named)})"]) == named


@pytest.mark.parametrize("page", ["reference/hooks.md", "how-to/plugins.md"])
def test_no_hook_is_named_that_does_not_exist(page):
    named = re.findall(r"edit_harness_register_\w+", (DOCS / page).read_text("utf-8"))
    assert named
    assert set(named) <= {*HOOKS, *BROUGHT}


@pytest.mark.parametrize("page", ["reference/hooks.md", "how-to/plugins.md"])
def test_the_version_of_the_interface_is_the_one_that_is_said(page):
    said = re.search(r"at\s+present\s+(\d+)", (DOCS / page).read_text("utf-8"))
    assert int(said[1]) == hookspecs.API


def promised() -> list[tuple[str, list[str]]]:
    """Return the rows of the table of what is public: a module or a class, and its names."""
    text = (DOCS / "how-to/plugins.md").read_text("utf-8").partition("## What stays as it is")[2]
    found = re.findall(r"^\| `(edit_harness[\w.]*)` \| (.*) \|$", text, re.MULTILINE)
    return [(owner, re.findall(r"`(\w+)`", names)) for owner, names in found]


def test_what_has_moved_is_where_the_table_says():
    text = (
        (DOCS.parent / "CHANGELOG.md")
        .read_text("utf-8")
        .partition("## What has moved")[2]
        .partition("## ")[0]
    )
    rows = re.findall(r"^\| `edit_harness[.\w]*` \| (.*) \| `([\w.]+)` \|$", text, re.MULTILINE)
    assert len(rows) == 9
    for names, module in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("owner", "names"), promised(), ids=[owner for owner, _ in promised()])
def test_what_is_promised_is_there(owner, names):
    model = tiny_model()
    batch = model.batch([(1, 2)])
    objects = {
        "Model": model,
        "Architecture": model.architecture,
        "Projection": model.architecture.projection(0),
        "Tokens": model.tokens,
        "Continuation": model.tokens.split("Ada lives in", "Rome"),
        "Batch": batch,
        "Places": batch.places([0], [1]),
    }
    module, _, last = owner.rpartition(".")
    if last in objects:
        found = objects[last]
        assert type(found) is getattr(import_module(module), last)
    else:
        found = import_module(owner)
    assert names
    for name in found.__all__ if names == ["__all__"] else names:
        assert hasattr(found, name), f"{owner}.{name}"
