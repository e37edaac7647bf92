"""Hooks by which a package adds a command, a kind of components, a check of answers, a word at the end of a run."""

import os

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
    if name == "nobody":
        raise UsageError("nobody is there", "name somebody")
    if name == "bug":
        raise ValueError("what its author did not think of")
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
    """Add a plugin to those that are installed."""
    installed = Plugins.installed

    def also(plugin):
        def more():
            found = installed()
            found.add(plugin, "mine")
            return found

        monkeypatch.setattr(Plugins, "installed", more)

    return also


def test_a_command_of_a_package_is_called_as_ours_are(tell):
    assert ["hello", "Say", "hello."] in map(str.split, tell("--help").stdout.splitlines())
    result = tell("hello", "Ada")
    assert (result.exit_code, result.stdout) == (0, "hello Ada\n")
    result = tell("hello", "nobody")
    assert (result.exit_code, result.stderr) == (
        2, "error: nobody is there\n       name somebody\n",
    )  # fmt: skip


def test_what_it_raises_is_its_author_s_to_mend(tell):
    result = tell("hello", "bug")
    assert result.exit_code == 3
    told = "command hello of greeting.py failed: ValueError: what its author did not think of"
    assert told in " ".join(result.stderr.split())


def test_a_command_takes_no_name_of_ours(tell):
    assert "Edit case by case" in tell("run", "--help").stdout
    assert tell("greeting.py/run").stdout == "hello world\n"


def test_two_packages_with_one_command_are_told_apart(tell, tmp_path, monkeypatch):
    (tmp_path / "other.py").write_text(HELLO.replace("hello {name}", "bye {name}"))
    both = os.pathsep.join(str(tmp_path / name) for name in ("greeting.py", "other.py"))
    monkeypatch.setenv(packages.FILES, both)
    result = tell("hello")
    assert result.exit_code == 3
    assert "say which: greeting.py/hello or other.py/hello" in " ".join(result.stderr.split())
    assert tell("other.py/hello").stdout == "bye world\n"
    assert "greeting.py/hello" in tell("--help").stdout
    assert "Edit case by case" in tell("edit-harness/run", "--help").stdout


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
        ("open('/nonexistent/file')", 3, "failed: FileNotFoundError"),
        ("raise SystemExit(0)", 0, ""),
        ("raise SystemExit(9)", 9, ""),
    ],
)
def test_how_a_command_ends(tell, tmp_path, does, code, told):
    (tmp_path / "greeting.py").write_text(HELLO.replace('click.echo(f"hello {name}")', does))
    result = tell("hello")
    assert result.exit_code == code
    assert told in result.stderr


def test_a_command_is_debugged_as_ours_are(tell):
    result = tell("hello", "bug", "--debug")
    assert result.exit_code == 3
    assert "Traceback" in result.stderr


def test_what_is_no_command_is_refused(tell):
    result = tell("none")
    assert result.exit_code == 3
    assert "'none' of greeting.py" in result.stderr
    assert "is no click command" in " ".join(result.stderr.split())


@pytest.mark.parametrize("only", ["", "somebody-else"])
def test_the_bundled_commands_are_there_whatever_is_left_out(monkeypatch, only):
    monkeypatch.setenv(packages.ONLY, only)
    listed = CliRunner().invoke(main, ["--help"]).stdout
    assert "\n  run " in listed
    assert "\n  leaderboard " in listed
    assert CliRunner().invoke(main, ["ls", "executors"]).stdout.count("local") == 1


class Recipe:
    """What components of the kind are subclasses of."""

    @classmethod
    def card(cls):
        return {"serves": "4"}


class Soup(Recipe):
    """A soup."""


class Kitchen:
    @staticmethod
    @hookimpl
    def edit_harness_register_kinds(register):
        register("recipe", Recipe, "What is cooked")

    @staticmethod
    @hookimpl
    def edit_harness_register_recipes(register):
        register("soup", Soup, "A soup")
        register("stone", int, "No recipe")


def test_a_kind_of_a_package_s_own(also):
    also(Kitchen)
    plugins = Plugins.installed()
    assert plugins.find("recipe", "soup").load() is Soup
    with pytest.raises(PluginError, match="is no Recipe"):
        plugins.find("recipe", "stone").load()
    with pytest.raises(PluginError, match="kind 'recipe' is registered twice"):
        plugins.add(Kitchen, "yours")
    assert "soup" in CliRunner().invoke(main, ["ls", "recipes"]).stdout
    assert "serves" in CliRunner().invoke(main, ["show", "soup"]).stdout


def test_a_kind_alone_is_something(also):
    class Alone:
        @staticmethod
        @hookimpl
        def edit_harness_register_kinds(register):
            register("recipe", Recipe)

    also(Alone)
    assert "recipe" in Plugins.installed().kinds


def test_a_package_is_told_of_a_finished_run(also, tmp_path):
    class Reporter:
        @staticmethod
        @hookimpl
        def edit_harness_run_finished(run):
            (run.folder.path / "mine.txt").write_text(f"{run['ES'].n} cases")
            return ["mine.txt has a further table"]

    also(Reporter)
    run = eh.evaluate("none", "counterfact", limit=2, output=tmp_path)
    assert (run.folder.path / "mine.txt").read_text() == "2 cases"
    assert run.folder.notes[-1] == "mine.txt has a further table"


def test_a_package_objects_to_answers(also, tmp_path):
    seen = []

    class Witness:
        @staticmethod
        @hookimpl
        def edit_harness_check_answers(source, identity, answered):
            seen.append((identity.task.name, [case.id for case, _ in answered()]))
            return "I know this model otherwise"

    also(Witness)
    with pytest.raises(RunFolderError, match="I know this model otherwise; the new rows were with"):
        eh.evaluate("none", "counterfact", limit=2, output=tmp_path)
    assert seen == [("counterfact", ["0", "1"])]


def test_what_a_hook_raises_is_told_with_its_plugin(also, tmp_path):
    """The rows and the results are there."""

    class Broken:
        @staticmethod
        @hookimpl
        def edit_harness_run_finished(run):
            raise ValueError("what its author did not think of")

    also(Broken)
    with pytest.raises(
        PluginError, match=r"edit_harness_run_finished of .* failed: ValueError: wh"
    ):
        eh.evaluate("none", "counterfact", limit=2, output=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert (folder / "results.json").exists()
