"""Flags that say which plugins a command has."""

import os
import sys
from contextlib import suppress

import pytest
from support.builders import EDITOR

from edit_harness.cli import main
from edit_harness.registry import packages
from edit_harness_plugins.command_line import chosen


@pytest.fixture
def mine(tmp_path, monkeypatch):
    for name in (packages.ONLY, packages.BLOCK, packages.FILES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
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


def test_a_flag_names_a_plugin_that_is_not_installed(mine, tell):
    flags = ["--plugin", "mine.py"]
    code, out, _ = tell("ls", "editors", *flags, "--block-plugins", "another,edit-harness")
    assert code == 0
    assert ("Does nothing" in out, "rome" in out) == (True, False)
    assert "Does nothing" not in tell("ls", "editors")[1]
    assert "Does nothing" in tell("show", "nothing", *flags)[1]


def test_flags_hold_for_child_processes_wherever_they_run(mine):
    before = dict(os.environ)
    flags = chosen(plugin=["mine.py"], block=["a", "b"])
    with suppress(KeyboardInterrupt), flags:
        assert os.environ[packages.FILES] == str(mine)
        assert os.environ[packages.BLOCK] == "a,b"
        assert packages.ONLY not in os.environ
        raise KeyboardInterrupt
    assert dict(os.environ) == before


def test_a_configuration_says_which_plugins_there_are(mine, tell):
    said = 'editor = "rome"\nblock-plugins = ["another", "edit-harness"]\n'
    (mine.parent / "run.toml").write_text(said)
    code, _, err = tell("run", "-C", "run.toml")
    assert code == 3
    assert "is left out: EDIT_HARNESS_BLOCK" in err
