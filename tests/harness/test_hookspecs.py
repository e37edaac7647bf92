"""Hooks by which a package, or a file that a user names, adds commands and kinds and takes part in a run."""

import os

import pytest
from click.testing import CliRunner

import edit_harness as eh
from edit_harness.cli import main
from edit_harness.errors import PluginError
from edit_harness.folder.folder import RunFolder
from edit_harness.registry import packages
from edit_harness.registry.registry import Plugins
from edit_harness.run.controls import ID

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
    assert result.exit_code == 2
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


HEAD = "import torch\nfrom edit_harness import Choose, NextToken, hookimpl\n@hookimpl\n"
BATCH = ("--edit-mode", "batch", "--edit-batch-size", "2")


@pytest.fixture
def told(tmp_path):
    """Run two cases with a plugin; returns the exit code, what was said in one line, and the run's folder."""

    def told(code, *flags):
        (tmp_path / "mine.py").write_text(HEAD + code)
        out, plugin = str(tmp_path / "out"), str(tmp_path / "mine.py")
        command = ["-e", "none", "-L", "2", "--plugin", plugin, "-o", out, *flags, "--quiet"]
        result = CliRunner().invoke(main, command)
        folders = map(RunFolder, (tmp_path / "out").glob("*"))
        return result.exit_code, " ".join(result.stderr.split()), *folders

    return told


def test_what_a_plugin_watches_is_asked_instead_of_the_bundled_text(told):
    watch = "def edit_harness_watch(model):\n    return Choose('Ada', ('lives in Rome',))\n"
    code, _, folder = told(watch, *BATCH)
    (asked,) = (record for record in folder.records() if record.case == ID)
    assert (code, len(asked.after)) == (0, 1)
    assert len(asked.after[0]["logprobs"][0]) < 6  # and not the tokens of the bundled text


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("def edit_harness_try_model(model, case):\n    raise ValueError('no')\n", "try_model of mine.py failed: ValueError: no"),
        ("def edit_harness_watch(model):\n    return NextToken('Ada')\n", "watch of mine.py failed: TypeError: it returned NextToken"),
        ("def edit_harness_preview(model, cases):\n    return {}\n", "preview of mine.py failed: TypeError: it returned {}, which is no Preview"),
        ("def edit_harness_load_model(source, options):\n    return 42\n", "load_model of mine.py failed: TypeError: it returned 42, which is no Model"),
        ("def edit_harness_try_model(model, case):\n    with torch.no_grad():\n        next(model.module.parameters()).add_(1)\n",
         "a plugin's edit_harness_try_model changed the model itself"),
        ("def edit_harness_try_model(", "mine.py could not be loaded: SyntaxError"),
        ("def edit_harness_watch(modell):\n    return None\n", "mine.py could not be loaded: "),
    ],
)  # fmt: skip
def test_what_a_hook_does_wrong_is_told_with_its_name(told, code, cause):
    number, said, *folders = told(code, *BATCH)
    assert (number, cause in said) == (3, True), said
    assert not any(len(folder.records()) for folder in folders)
