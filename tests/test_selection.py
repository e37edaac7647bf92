"""Flags that say which plugins a command has, and what it requires."""

import os

import pytest

from edit_harness import PluginError, UsageError
from edit_harness.cli import main
from edit_harness.registry import selection
from edit_harness.registry.registry import Plugins

EDITOR = """
from edit_harness import Editor, hookimpl

class Nothing(Editor):
    def edit(self, model, requests): ...

@hookimpl
def edit_harness_register_editors(register):
    register("nothing", Nothing, "Does nothing")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    for name in (selection.ONLY, selection.BLOCK, selection.FILES, selection.FOLDERS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(EDITOR)
    return tmp_path / "mine.py"


@pytest.fixture
def tell(capsys):
    def say(*args):
        with pytest.raises(SystemExit) as caught:
            main(list(args))
        return caught.value.code, *capsys.readouterr()

    return say


@pytest.mark.parametrize("flags", [["--plugin", "mine.py"], ["--include-path", "."]])
def test_flags_name_plugins_that_are_not_installed(mine, tell, flags):
    code, out, _ = tell("ls", "editors", *flags)
    assert code == 0
    assert "Does nothing" in out
    assert "Does nothing" not in tell("ls", "editors")[1]
    assert "Does nothing" in tell("show", "nothing", *flags)[1]


def test_flags_hold_for_child_processes_wherever_they_run(mine):
    with selection.chosen(plugin=["mine.py"], include_path=[], only=[], block=["a", "b"]):
        assert os.environ[selection.FILES] == str(mine)
        assert os.environ[selection.BLOCK] == "a,b"
        assert selection.ONLY not in os.environ


def test_the_environment_is_as_before_even_after_an_error(mine, monkeypatch):
    monkeypatch.setenv(selection.ONLY, "edit-harness")
    before = dict(os.environ)
    with (
        pytest.raises(KeyboardInterrupt),
        selection.chosen(plugin=["mine.py"], include_path=["."], only=["x"], block=["y"]),
    ):
        raise KeyboardInterrupt
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("flags", "there"),
    [
        ([], True),
        (["--no-plugins"], True),
        (["--only-plugins", "edit-harness"], True),
        (["--only-plugins", "another"], False),
        (["--block-plugins", "edit_harness"], False),
        (["--block-plugins", "edit-harness", "--block-plugins", "another"], False),
        (["--block-plugins", "another,edit-harness"], False),
        (["--only-plugins", "another", "--only-plugins", "edit-harness"], True),
    ],
)
def test_lists_of_distributions(mine, tell, flags, there):
    code, out, _ = tell("ls", "editors", *flags)
    assert code == 0
    assert ("rome" in out) == there


@pytest.mark.parametrize(
    ("said", "there"),
    [
        ('block-plugins = ["another", "edit-harness"]', False),
        ('block-plugins = "edit-harness"', False),
        ('only-plugins = ["edit-harness"]', True),
        ("no-plugins = true", True),
        ("no-plugins = false", True),
    ],
)
def test_lists_in_a_configuration(mine, tell, said, there):
    (mine.parent / "run.toml").write_text(f"{said}\neditor = 'rome'\ntask = 'no-such-task'\n")
    code, _, err = tell("run", "-C", "run.toml")
    assert code == 3
    assert ("there is no task 'no-such-task'" in err) == there
    assert ("is left out: EDIT_HARNESS_" in err) != there


def test_a_name_that_nothing_has_is_noted(mine, tell, caplog):
    tell("ls", "editors", "--block-plugins", "no-such-plugin,edit-harness")
    said = "nothing that is installed has plugins and is called no-such-plugin"
    assert [record.message for record in caplog.records] == [said]


def test_flags_that_contradict_each_other(mine, tell):
    code, _, err = tell("ls", "--no-plugins", "--only-plugins", "edit-harness")
    assert code == 2
    assert "error: --no-plugins leaves nothing to --only-plugins\n" in err


def test_a_path_with_what_separates_paths_is_refused(mine, tell):
    code, _, err = tell("ls", "--plugin", "a:b.py")
    assert code == 2
    assert f"error: {mine.parent}/a:b.py has a ':', which stands between paths\n" in err


def test_requirements_come_from_the_environment_too(mine, tell, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_REQUIRE", "pluggy no-such-x==1")
    code, _, err = tell("ls", "editors")
    assert code == 3
    assert "no-such-x==1 is required, and not installed" in err


def test_a_file_that_is_not_there_is_an_error_of_use(mine, tell):
    code, _, err = tell("ls", "--plugin", "absent.py")
    assert code == 2
    assert "absent.py is no plugin: there is no such Python file\n" in err


@pytest.mark.parametrize(
    "wanted", ["pluggy", "pluggy>=1,<99", "edit-harness>=0.0.1", "Edit_Harness"]
)
def test_what_is_there_is_no_obstacle(wanted):
    selection.check_required(Plugins.installed(), [wanted])


@pytest.mark.parametrize(
    ("wanted", "cause"),
    [
        ("no-such-x==1.2", "no-such-x==1.2 is required, and not installed"),
        ("pluggy==0.1", "pluggy==0.1 is required, and {pluggy} is installed"),
        ("edit-harness==99", "edit-harness==99 is required, and {edit-harness} is installed"),
    ],
)
def test_what_is_not_there_at_that_version_stops_the_start(tell, wanted, cause):
    from importlib.metadata import version

    cause = cause.format(**{name: version(name) for name in ("pluggy", "edit-harness")})
    code, out, err = tell("run", "--require", wanted, "--editor", "none")
    assert code == 3
    assert out == ""
    assert err == f"error: {cause}\n       pip install '{wanted}'\n"


@pytest.mark.parametrize(
    "wanted", ["x=1", "", "x==", "x @ https://example.org", "x; python_version>'3'", "x[y]==1"]
)
def test_what_is_no_requirement_is_an_error_of_use(wanted):
    with pytest.raises(UsageError) as caught:
        selection.check_required(Plugins(), [wanted])
    assert caught.value.cause == f"{wanted!r} is no distribution with a version"
    assert caught.value.remedy == 'write --require "edit-harness-x==1.2"'


def test_what_is_left_out_or_broken_is_not_there(mine, monkeypatch):
    monkeypatch.setenv(selection.BLOCK, "edit-harness")
    with pytest.raises(PluginError) as caught:
        selection.check_required(Plugins.installed(), ["edit-harness"])
    assert str(caught.value) == (
        "edit-harness is required, and not loaded\nEDIT_HARNESS_BLOCK names it"
    )
    monkeypatch.delenv(selection.BLOCK)
    broken = Plugins.installed()
    (package,) = (p for p in broken.packages if p.name == "edit-harness")
    broken.failures.append(_failure(package))
    with pytest.raises(PluginError, match="edit-harness is required, and not loaded"):
        selection.check_required(broken, ["edit-harness"])


def _failure(package):
    from edit_harness.registry.registry import Failure

    return Failure(package.name, package.version, "some_module", "ImportError: no")


def test_a_file_has_no_version_to_require(mine, tell):
    code, _, err = tell("ls", "--plugin", "mine.py", "--require", "mine.py==1")
    assert code == 3
    assert "mine.py==1 is required, and not installed\n" in err
