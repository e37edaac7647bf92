"""A plugin that kills the interpreter is named at the next start, and skipped until it changes."""

import os
import subprocess
import sys

import pytest
from builders import distribution

from edit_harness import PluginError, journal
from edit_harness.discovery import found
from edit_harness.plugins import Plugins

KILLER = "import os\nos._exit(5)"
GOOD = """
from edit_harness import hookimpl

@hookimpl
def edit_harness_register_tasks(register):
    register("fine", "quiz_killer:Fine", "Fine")
    register("fatal", "quiz_fatal:Fatal", "Fatal")
"""


@pytest.fixture
def start(tmp_path):
    """Start a process in which a plugin is installed, and a cache folder of its own."""
    folder, cache = tmp_path / "site", tmp_path / "cache"
    folder.mkdir()

    def run(*args):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
        return subprocess.run(
            [sys.executable, "-m", "edit_harness", *args],
            capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**env, "EDIT_HARNESS_CACHE": str(cache), "COLUMNS": "120"},
        )  # fmt: skip

    run.folder = folder
    run.cache = cache
    return run


def test_a_plugin_that_kills_the_interpreter_is_named_and_skipped(start):
    distribution(start.folder, "quiz-killer", KILLER, version="0.3")
    assert start("ls", "tasks").returncode == 5
    second = start("ls", "tasks")
    assert second.returncode == 0
    assert "an earlier process died while loading quiz-killer 0.3" in second.stderr
    assert "counterfact" in second.stdout
    third = start("plugins")
    assert "died" not in third.stderr
    assert "quiz-killer 0.3  LEFT OUT" in third.stdout
    assert "edit-harness plugins --enable quiz-killer" in third.stdout


def test_it_is_loaded_again_when_its_files_change(start):
    distribution(start.folder, "quiz-killer", KILLER)
    start("plugins")
    (start.folder / "quiz_killer.py").write_text(GOOD)
    done = start("ls", "tasks")
    assert "an earlier process died while loading quiz-killer 1.0" in done.stderr
    assert "fatal" in done.stdout


def test_it_is_loaded_again_when_it_is_enabled(start):
    distribution(start.folder, "quiz-killer", KILLER)
    start("plugins")
    done = start("plugins", "--enable", "quiz-killer")
    assert done.returncode == 0, done.stderr
    assert start("plugins").returncode == 5


def test_only_what_is_skipped_can_be_enabled(start):
    done = start("plugins", "--enable", "quiz-killer")
    assert done.returncode == 3
    assert done.stderr == "error: 'quiz-killer' is not skipped\n       skipped: nothing\n"


def test_a_component_that_kills_the_interpreter_is_named_and_its_package_stays(start):
    distribution(start.folder, "quiz-killer", GOOD)
    (start.folder / "quiz_fatal.py").write_text(KILLER)
    assert start("show", "fatal").returncode == 5
    done = start("ls", "tasks")
    said = "an earlier process died while loading the task fatal of quiz-killer 1.0"
    assert said in done.stderr
    assert "fatal" in done.stdout


def test_help_loads_no_plugin(start):
    distribution(start.folder, "quiz-killer", KILLER)
    assert start("--help").returncode == start("run", "--help").returncode == 0
    assert not start.cache.exists()


def test_a_process_that_still_imports_is_not_taken_for_dead(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    package = next(iter(found()))
    with journal.watching(package):
        assert list(journal.crashes()) == []
        assert list(tmp_path.glob("plugins/loading-*"))
    assert not list(tmp_path.glob("plugins/loading-*"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ImportError])
def test_an_exception_is_no_crash(tmp_path, monkeypatch, error):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    with pytest.raises(error), journal.watching(next(iter(found()))):
        raise error
    assert list(journal.crashes()) == []


def test_without_a_cache_folder_there_is_no_journal(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "file"))
    with journal.watching(next(iter(found()))):
        pass
    assert Plugins.installed().components


def test_a_damaged_list_skips_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "skipped.json").write_text('["edit')
    (tmp_path / "plugins" / "loading-1.json").write_text("{")
    assert list(journal.crashes()) == []
    assert not journal.skips(next(iter(found())))
    with pytest.raises(PluginError, match="not skipped"):
        journal.enable("edit-harness")
