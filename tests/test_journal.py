"""A plugin that kills the interpreter is named at the next start, and skipped until it changes."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import distribution

from edit_harness import PluginError, alone, journal
from edit_harness.alone import Trial
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
    assert second.stderr == (
        "an earlier process died while loading quiz-killer 0.3; alone it kills the interpreter: exit "
        "code 5, so it is skipped\n"
    )
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
    said = "an earlier process died while loading quiz-killer 1.0; its files are others now\n"
    assert done.stderr == said
    assert "fatal" in done.stdout


@pytest.mark.parametrize("name", ["quiz-killer", "Quiz_Killer"])
@pytest.mark.parametrize("given", ["quiz-killer", "Quiz.Killer"])
def test_it_is_loaded_again_when_it_is_enabled(start, name, given):
    distribution(start.folder, name, KILLER)
    start("plugins")
    assert f"{name} 1.0  LEFT OUT" in start("plugins").stdout
    done = start("plugins", "--enable", given)
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


def test_one_that_was_killed_from_outside_stays(start):
    """Nobody can tell from a note who killed the process, but alone it is seen."""
    waits = "import os, signal\nif os.path.exists('wait'): os.kill(os.getpid(), signal.SIGKILL)\n"
    distribution(start.folder, "quiz-killer", waits + GOOD)
    (start.folder.parent / "wait").touch()
    assert start("ls", "tasks").returncode == -9
    (start.folder.parent / "wait").unlink()
    second = start("ls", "tasks")
    said = "an earlier process died while loading quiz-killer 1.0; alone it loads\n"
    assert (second.returncode, second.stderr) == (0, said)
    assert "fatal" in second.stdout
    assert start("ls", "tasks").stderr == ""


def test_a_file_is_tried_by_the_next_start_that_would_load_it(start):
    file = start.folder / "killer.py"
    file.write_text(KILLER)
    assert start("ls", "--plugin", str(file)).returncode == 5
    assert start("ls").stderr == ""
    done = start("ls", "--plugin", str(file))
    assert done.returncode == 0
    assert (
        "an earlier process died while loading killer.py; alone it kills the inter" in done.stderr
    )


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "plugins"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def package():
    return next(iter(found()))


def leave(cache, package, **other):
    """Leave a note as a process that died does."""
    said = {"name": package.name, "version": "1", "stamp": package.stamp, "component": "", **other}
    (cache / "loading-1.json").write_text(json.dumps(said))


def looked(*packages):
    """Return what is skipped, and what is said."""
    said = []
    return list(journal.skipped(packages, said.append)), said


DIED = "an earlier process died while loading edit-harness 1; alone"


@pytest.mark.parametrize(
    ("trial", "ends", "skipped"),
    [
        (Trial(), "it loads", False),
        (Trial("takes longer than 60 s"), ": takes longer than 60 s", False),
        (Trial("Own: no"), ": Own: no", False),
        (Trial("kills it", fatal=True), "it kills it, so it is skipped", True),
    ],
)
def test_only_what_kills_alone_is_skipped(cache, package, monkeypatch, trial, ends, skipped):
    monkeypatch.setattr(alone, "tried", lambda _: trial)
    leave(cache, package)
    ends = ends if ends.startswith(":") else f" {ends}"
    assert looked(package) == ([package] * skipped, [f"{DIED}{ends}"])
    assert looked(package) == ([package] * skipped, [])
    assert not list(cache.glob("loading-*"))


def test_a_package_is_tried_once_for_all_its_notes(cache, package, monkeypatch):
    trials = []
    monkeypatch.setattr(alone, "tried", lambda p: trials.append(p) or Trial())
    leave(cache, package)
    (cache / "loading-2.json").write_text((cache / "loading-1.json").read_text())
    assert looked(package) == ([], [f"{DIED} it loads"] * 2)
    assert trials == [package]


def test_a_note_of_a_package_that_is_not_loaded_waits(cache, package):
    leave(cache, package)
    assert looked() == ([], [])
    assert list(cache.glob("loading-*"))


@pytest.mark.parametrize("what", ["a folder", "full"])
def test_a_skip_that_cannot_be_stored_is_said_and_holds_for_now(cache, package, monkeypatch, what):
    monkeypatch.setattr(alone, "tried", lambda _: Trial("kills it", fatal=True))
    leave(cache, package)
    if what == "a folder":
        (cache / "skipped.json" / "full").mkdir(parents=True)
    else:
        monkeypatch.setattr(Path, "write_text", refused)
    for _ in range(2):
        skipped, (said,) = looked(package)
        assert skipped == [package]
        path = cache / "skipped.json"
        assert said.startswith(
            f"{DIED} it kills it, so it is skipped, this time: {path} cannot be "
        )
    assert {path.name for path in cache.iterdir()} <= {"loading-1.json", "skipped.json"}


def refused(self, *_, **__):
    self.touch()
    raise OSError(28, "No space left on device")


def test_a_note_that_cannot_be_removed_is_said(cache, package, monkeypatch):
    monkeypatch.setattr(alone, "tried", lambda _: Trial())
    leave(cache, package)
    monkeypatch.setattr(Path, "unlink", refused)
    assert looked(package) == ([], [f"{DIED} it loads"])


def test_a_process_that_has_just_ended_its_import_is_not_taken_for_dead(
    cache, package, monkeypatch
):
    """Its note is opened while it is there, and locked when it has gone, with its lock."""
    ours, lock = journal.watching(package), fcntl.flock
    ours.__enter__()

    def late(file, how):
        if how & fcntl.LOCK_NB:
            ours.__exit__(None, None, None)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    assert looked(package) == ([], [])
    assert not list(cache.iterdir())


def test_a_process_that_still_imports_is_not_taken_for_dead(cache, package):
    with journal.watching(package):
        assert looked(package) == ([], [])
        assert list(cache.glob("loading-*"))
    assert not list(cache.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ImportError, GeneratorExit])
def test_an_exception_is_no_crash(cache, package, error):
    with pytest.raises(error), journal.watching(package):
        raise error
    assert looked(package) == ([], [])


def test_without_a_cache_folder_there_is_no_journal(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "file"))
    with journal.watching(next(iter(found()))):
        pass
    assert Plugins.installed().components


@pytest.mark.parametrize("refuses", ["flock", "write"])
def test_where_a_note_cannot_be_left_there_is_none(cache, package, monkeypatch, refuses):
    """As on a file system without locks, or a full one."""

    def refuse(*_):
        raise OSError(28, "No")

    monkeypatch.setattr(*((fcntl, "flock") if refuses == "flock" else (json, "dump")), refuse)
    with journal.watching(package):
        assert not list(cache.iterdir())


NO_TEXT = '{"name": 1, "version": "", "stamp": "", "component": ""}'


@pytest.mark.parametrize("damaged", ["{", "[]", '{"name": "x"}', NO_TEXT])
def test_damage_skips_nothing(cache, package, damaged):
    (cache / "skipped.json").write_text('["edit')
    (cache / "loading-1.json").write_text(damaged)
    assert looked(package) == ([], [])
    assert not list(cache.glob("loading-*"))
    with pytest.raises(PluginError, match="not skipped"):
        journal.enable("edit-harness")
