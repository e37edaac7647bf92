"""What README and docs show is run, and what they say of hooks and of public names is so."""

import contextlib
import importlib
import inspect
import json
import re
import shlex
from pathlib import Path

import click
import pytest
from support.builders import ROOT, record
from support.pages import DOCS, PAGES, blocks, files

from edit_harness import evaluate, hookspecs
from edit_harness.cli import main
from edit_harness.registry.registry import Plugins
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.report.facts import sound
from edit_harness_plugins.controls.effects import side_effects


def commands() -> list[str]:
    shown = [line for page in PAGES for block in blocks(page, "") for line in block.splitlines()]
    inline = [c for page in PAGES for c in re.findall(r"`(edit-harness [^`]+)`", page.read_text())]
    return [c for c in shown + inline if c.startswith("edit-harness ") and c.isascii()]


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_commands_parse(command):
    """Every flag and command that is shown is one that there is."""
    args = shlex.split(command)[1:]
    if "COMMAND" in args or "NAME" in args:
        args = [a.replace("COMMAND", "run").replace("NAME", "rome") for a in args]
    if args[0].startswith("-"):
        args.insert(0, "run")
    name, *rest = args
    found = main.get_command(None, name)
    while isinstance(found, click.Group) and rest:
        name, *rest = [found.default, *rest] if rest[0].startswith("-") else rest
        found = found.get_command(None, name)
    if not rest:  # a command that is only named
        return
    with contextlib.suppress(click.exceptions.Exit):  # --help is done before anything is run
        found.make_context(name, rest)


PLACES = ("README.md", "docs/**/*.md", "examples/*/src/**/*.py", "plugins/**/*.tmpl")
IMPORTED = re.compile(r"from (edit_harness(?:\.[\w.]+)?) import (?:\(([^)]*)\)|([^\n(]+))")


def imported() -> set[tuple[str, str]]:
    """Return the modules and names that documents, examples and the scaffold import."""
    found = set()
    for text in (path.read_text("utf-8") for place in PLACES for path in ROOT.glob(place)):
        found |= {("edit_harness", name) for name in re.findall(r"\beh\.([a-zA-Z_]+)", text)}
        for module, inside, plain in IMPORTED.findall(text):
            names = re.sub(r"#[^\n]*", "", inside or plain).split(",")
            found |= {(module, name.split(" as ")[0].strip()) for name in names if name.strip()}
    return found


def test_what_documents_import_and_the_components_that_they_name_are_there():
    assert len(imported()) > 40
    for module, name in imported():
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")
    plugins = Plugins.installed()
    made = {"NAME", "demo", *(path.removesuffix(".py") for page in PAGES for path in files(page))}
    for command in commands():
        for kind in ("editor", "task"):
            for names in re.findall(rf"--{kind} (\S+)", command):
                for name in names.split(","):
                    if name not in made:
                        plugins.find(kind, name)


def test_the_python_of_the_readme_and_the_quick_start_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for page in (ROOT / "README.md", DOCS / "quickstart.md"):
        (source,) = (b for b in blocks(page, "python") if "eh.evaluate" in b)
        exec(source.replace("limit=10", "limit=2"), {})  # noqa: S102
        assert "NS+" in capsys.readouterr().out
    assert (tmp_path / "sophia.safetensors").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """To an address, or to a file of the project and a heading in it."""
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, heading = link.partition("#")
        if path.startswith("https:"):
            continue
        file = page.parent / path if path else page
        assert file.exists(), link
        assert not heading or heading in headings(file), link


def headings(file) -> set[str]:
    """Return the anchors of a page's headings, as they are made of their words."""
    lines = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in lines}


def test_the_control_of_the_hooks_page_runs(tmp_path, monkeypatch):
    (source,) = (b for b in blocks(ROOT / "docs/reference/hooks.md", "python") if "(Control)" in b)
    monkeypatch.chdir(tmp_path)
    Path("sentences.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("sentences")
    task = {"task_args": {"data": str(tmp_path / "facts.json")}, "output": tmp_path / "results"}
    facts = [record(i, subject=name) for i, name in enumerate(("Ada", "Bob"))]
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    run = evaluate("none", "counterfact", tiny_model(), controls=[own.Sentences()], **task)
    assert sound(run)
    assert {each.name: each.change.value for each in side_effects(run).effects} == {
        "loglikelihood": 0,
        "perplexity": 0,
    }


# The reference of the hooks and the promise of what is public


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


@pytest.mark.parametrize("page", ["reference/hooks.md", "how-to/plugins.md"])
def test_no_hook_is_named_that_does_not_exist(page):
    named = re.findall(r"edit_harness_register_\w+", (DOCS / page).read_text("utf-8"))
    assert named
    assert set(named) <= {*HOOKS, *BROUGHT}


def promised() -> list[tuple[str, list[str]]]:
    """Return the rows of the table of what is public: a module or a class, and its names."""
    text = (DOCS / "how-to/plugins.md").read_text("utf-8").partition("## What stays as it is")[2]
    found = re.findall(r"^\| `(edit_harness[\w.]*)` \| (.*) \|$", text, re.MULTILINE)
    return [(owner, re.findall(r"`(\w+)`", names)) for owner, names in found]


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
        assert type(found) is getattr(importlib.import_module(module), last)
    else:
        found = importlib.import_module(owner)
    assert names
    for name in found.__all__ if names == ["__all__"] else names:
        assert hasattr(found, name), f"{owner}.{name}"
