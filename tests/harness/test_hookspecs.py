"""Hooks by which a package adds a command, a kind of components, a check of answers, a word at the end of a run."""

import os
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import edit_harness as eh
from edit_harness import hookimpl
from edit_harness.cli import main
from edit_harness.errors import PluginError, RunFolderError
from edit_harness.registry import packages
from edit_harness.registry.registry import Plugins

HELLO = """
import click
from edit_harness import UsageError, hookimpl


@click.command()
@click.argument("name", default="world")
def hello(name):
    click.echo(f"hello {name}")


@hookimpl
def edit_harness_register_commands(register):
    register("hello", f"{__name__}:hello", "Say hello.", group="Look")
    register("run", f"{__name__}:hello", "Say hello, too.")
    register("none", f"{__name__}:hookimpl", "Is no command.")
"""


@pytest.fixture
def tell(tmp_path, monkeypatch):
    """Call the command line with a file that brings commands."""
    path = tmp_path / "greeting.py"
    path.write_text(HELLO)
    monkeypatch.setenv(packages.FILES, str(path))

    def tell(*args):
        return CliRunner().invoke(main, args, env={**os.environ, "COLUMNS": "80"})

    return tell


@pytest.fixture
def also(monkeypatch):
    """Add a plugin of one hook to those that are installed."""
    installed = Plugins.installed

    def also(**hooks):
        plugin = SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()})

        def more():
            found = installed()
            found.add(plugin, "mine")
            return found

        monkeypatch.setattr(Plugins, "installed", more)
        return plugin

    return also


def test_a_command_of_a_package_is_called_as_ours_are(tell):
    """And takes no name of ours; what is no command is refused."""
    assert ["hello", "Say", "hello."] in map(str.split, tell("--help").stdout.splitlines())
    result = tell("hello", "Ada")
    assert (result.exit_code, result.stdout) == (0, "hello Ada\n")
    assert "Edit case by case" in tell("run", "--help").stdout
    assert tell("greeting.py/run").stdout == "hello world\n"
    result = tell("none")
    assert result.exit_code == 3
    assert "command 'none' of greeting.py" in result.stderr
    assert "is no click command" in " ".join(result.stderr.split())


def test_a_broken_file_is_told_where_its_command_is_missed(tell, tmp_path, monkeypatch):
    (tmp_path / "greeting.py").write_text("no Python")
    assert "greeting.py could not be loaded: SyntaxError" in " ".join(tell("hello").stderr.split())
    monkeypatch.setenv(packages.FILES, str(tmp_path / "none.py"))
    result = tell("--help")
    assert result.exit_code == 0
    assert "there is no such Python file" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        ("open('/nonexistent/file')", 3, "command hello of greeting.py failed: FileNotFoundError"),
        (
            "raise UsageError('nobody is there', 'name somebody')",
            2,
            "error: nobody is there name some",
        ),
        ("raise SystemExit(0)", 0, ""),
        ("raise SystemExit(9)", 9, ""),
    ],
)
def test_how_a_command_ends(tell, tmp_path, does, code, told):
    (tmp_path / "greeting.py").write_text(HELLO.replace('click.echo(f"hello {name}")', does))
    result = tell("hello")
    assert result.exit_code == code
    assert told in " ".join(result.stderr.split())
    if code == 3:
        assert "Traceback" not in result.stderr
        assert "Traceback" in tell("hello", "--debug").stderr


class Recipe:
    """What components of the kind are subclasses of."""

    @classmethod
    def card(cls):
        return {"serves": "4"}


class Soup(Recipe):
    """A soup."""


def test_a_kind_of_a_package_s_own(also):
    def recipes(register):
        register("soup", Soup, "A soup")
        register("stone", int, "No recipe")

    kitchen = also(
        edit_harness_register_kinds=lambda register: register("recipe", Recipe, "What is cooked"),
        edit_harness_register_recipes=recipes,
    )
    plugins = Plugins.installed()
    assert plugins.find("recipe", "soup").load() is Soup
    with pytest.raises(PluginError, match="is no Recipe"):
        plugins.find("recipe", "stone").load()
    with pytest.raises(PluginError, match="kind 'recipe' is registered twice"):
        plugins.add(kitchen, "yours")
    assert "soup" in CliRunner().invoke(main, ["ls", "recipes"]).stdout
    assert "serves" in CliRunner().invoke(main, ["show", "soup"]).stdout


def test_a_package_is_told_of_a_finished_run(also, tmp_path):
    def finished(run):
        (run.folder.path / "mine.txt").write_text(f"{run['ES'].n} cases")
        return ["mine.txt has a further table"]

    also(edit_harness_run_finished=finished)
    run = eh.evaluate("none", "counterfact", limit=2, output=tmp_path)
    assert (run.folder.path / "mine.txt").read_text() == "2 cases"
    assert run.folder.notes[-1] == "mine.txt has a further table"


def test_a_package_objects_to_answers(also, tmp_path):
    seen = []

    def check(source, identity, answered):
        seen.append((identity.task.name, [case.id for case, _ in answered()]))
        return "I know this model otherwise"

    also(edit_harness_check_answers=check)
    with pytest.raises(RunFolderError, match="I know this model otherwise; the new rows were with"):
        eh.evaluate("none", "counterfact", limit=2, output=tmp_path)
    assert seen == [("counterfact", ["0", "1"])]
