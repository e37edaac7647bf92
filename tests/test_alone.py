"""A package that is loaded in a process of its own, whatever it does there."""

import pytest
from builders import distribution

from edit_harness.registry import selection
from edit_harness_plugins.commands.catalog import alone

GOOD = """
from edit_harness import hookimpl

@hookimpl
def edit_harness_register_tasks(register):
    register("quiz", "quiz_good:Quiz", "Questions")
"""
KILLER = "import os\nos._exit(5)\n"
KILLED = "kills the interpreter: exit code 5"


@pytest.fixture
def site(tmp_path, monkeypatch):
    for variable in (selection.ONLY, selection.BLOCK, selection.FILES, selection.FOLDERS):
        monkeypatch.delenv(variable, raising=False)
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    return site


def trouble(name):
    (package,) = (package for package in selection.found() if package.name == name)
    return alone.trouble(package)


@pytest.mark.parametrize(
    ("source", "how"),
    [
        ("import os; os._exit(9)", "exit code 9"),
        ("import os; os._exit(0)", "exit code 0"),
        ("import os; os._exit(1)", "exit code 1"),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
    ],
)
def test_what_takes_the_process_down_is_named(site, source, how):
    distribution(site, "quiz-fatal", source)
    assert trouble("quiz-fatal") == f"kills the interpreter: {how}"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("b'x' * (8 << 30)", "MemoryError"),
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        (f"{GOOD}\nimport threading\nthreading.Thread(target=threading.Event().wait).start()", ""),
        (f"{GOOD}\nimport subprocess\nsubprocess.Popen(['sleep', '600'])", ""),
        (f"{GOOD}\nimport sys\nassert len(sys.argv) == 1", ""),
    ],
    ids=["memory", "exit", "thread", "child", "arguments"],
)
def test_what_does_not_take_it_down_has_its_own_reason(site, source, reason):
    distribution(site, "quiz-odd", source)
    assert trouble("quiz-odd") == reason


def test_what_hangs_is_ended(site, monkeypatch):
    monkeypatch.setattr(alone, "LIMIT_SECONDS", 3)
    distribution(site, "quiz-hang", "while True: pass")
    assert trouble("quiz-hang") == "takes longer than 3 s"


def test_no_other_package_is_loaded_there(site, tmp_path, monkeypatch):
    distribution(site, "quiz-fatal", KILLER)
    distribution(site, "quiz-good", GOOD)
    (tmp_path / "killer.py").write_text(KILLER)
    (tmp_path / "mine.py").write_text(GOOD)
    files = f"{tmp_path / 'killer.py'}:{tmp_path / 'mine.py'}"
    monkeypatch.setenv(selection.FILES, files)
    monkeypatch.setenv(selection.BLOCK, "quiz-good")
    assert trouble("quiz-good") == trouble("mine.py") == ""
    assert trouble("quiz-fatal") == trouble("killer.py") == KILLED


def test_a_folder_is_tried_as_it_is(site, tmp_path, monkeypatch):
    """A package's sources, and files that import each other."""
    sources, loose = tmp_path / "sources", tmp_path / "loose"
    for folder in (sources, loose):
        folder.mkdir()
    (sources / "quiz_source.py").write_text(f"{GOOD}\n1 / 0")
    (sources / "pyproject.toml").write_text(
        "[project]\nname = 'quiz-source'\n[project.entry-points.edit_harness]\nq = 'quiz_source'\n"
    )
    (loose / "one.py").write_text(f"import two\n{GOOD}")
    (loose / "two.py").write_text("")
    monkeypatch.setenv(selection.FOLDERS, f"{sources}:{loose}")
    assert trouble("quiz-source") == "ZeroDivisionError: division by zero"
    assert trouble("one.py") == ""


def test_a_folder_from_which_it_is_started_shadows_nothing(site, tmp_path, monkeypatch):
    distribution(site, "quiz-good", GOOD)
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    assert trouble("quiz-good") == ""


def test_what_cannot_be_tried_is_named(site, monkeypatch):
    distribution(site, "quiz-good", GOOD)
    monkeypatch.setattr(alone.sys, "executable", "/no/python")
    assert trouble("quiz-good") == "cannot be tried: No such file or directory"
