"""The command `plugins`: what is there, from where, and what is broken."""

import json
import sys

import pytest
from builders import distribution

from edit_harness import inventory
from edit_harness.cli import main
from edit_harness.plugins import Plugins

GOOD = """
from edit_harness import hookimpl

@hookimpl
def edit_harness_register_tasks(register):
    register("quiz", "quiz_good:Quiz", "Questions")
"""
BAD = {
    "quiz-error": "1 / 0",
    "quiz-exit": "raise SystemExit('no licence')",
    "quiz-syntax": "def f(:",
    "quiz-typo": GOOD.replace("register_tasks", "register_taks"),
    "quiz-empty": "",
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.delenv("EDIT_HARNESS_PLUGINS", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("quiz_"):
            del sys.modules[name]


def tell(capsys, *args):
    with pytest.raises(SystemExit) as caught:
        main(list(args))
    return caught.value.code, *capsys.readouterr()


def said(capsys):
    code, out, _ = tell(capsys, "plugins", "--json")
    assert code == 0
    return {row["name"]: row for row in json.loads(out)["plugins"]}


def test_a_package_says_what_it_brings_and_where_from(site, capsys):
    distribution(site, "quiz-good", GOOD, version="3.1")
    row = said(capsys)["quiz-good"]
    assert row["seconds"] >= 0
    assert row == {
        "name": "quiz-good",
        "version": "3.1",
        "from": str(site),
        "modules": ["quiz_good"],
        "state": "loaded",
        "seconds": row["seconds"],
        "provides": {"tasks": ["quiz"]},
        "notes": [],
    }
    code, out, _ = tell(capsys, "plugins")
    assert code == 0
    assert "quiz-good 3.1\n  from       " in out
    assert "  tasks      quiz  " in out


@pytest.mark.parametrize("name", BAD)
def test_a_broken_package_says_why(site, capsys, name):
    distribution(site, name, BAD[name])
    row = said(capsys)[name]
    assert row["state"] == "broken"
    assert row["provides"] == {}
    assert len(row["notes"]) == 1
    assert f"{name} 1.0  BROKEN" in tell(capsys, "plugins")[1]


@pytest.mark.parametrize(
    "command", [["ls"], ["plugins"], ["show", "pocket"], ["--help"], ["ls", "plugins"]]
)
def test_commands_work_with_every_plugin_broken(site, capsys, command):
    for name, source in BAD.items():
        distribution(site, name, source)
    code, out, err = tell(capsys, *command)
    assert code == 0
    assert out
    assert "Traceback" not in out + err


def test_what_is_left_out_is_there_with_its_reason(site, capsys):
    distribution(site, "quiz-error", "1 / 0")
    code, out, _ = tell(capsys, "plugins", "--block-plugins", "quiz-error")
    assert code == 0
    assert "quiz-error 1.0  LEFT OUT" in out
    assert "because  EDIT_HARNESS_BLOCK names it" in out


def test_what_an_import_did_is_told(site, capsys):
    distribution(site, "quiz-loud", f"import os\nprint('hi')\nos.environ['X'] = '1'\n{GOOD}")
    notes = said(capsys)["quiz-loud"]["notes"]
    assert notes == [
        "printed while it was loaded: hi",
        "changed the environment while it was loaded; that was put back",
    ]


def test_packages_are_loaded_each_on_its_own(site, capsys):
    distribution(site, "quiz-good", GOOD)
    distribution(site, "quiz-error", "1 / 0")
    code, out, _ = tell(
        capsys, "plugins", "--check", "--only-plugins", "quiz-good,quiz-error", "--json"
    )
    assert code == 3
    alone = {row["name"]: row.get("alone") for row in json.loads(out)["plugins"]}
    assert alone["quiz-good"] == "loads"
    assert alone["quiz-error"] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os; os._exit(9)", "kills the interpreter: exit code 9"),
        ("import os; os.kill(os.getpid(), 11)", "kills the interpreter: signal 11"),
        ("b'x' * (8 << 30)", "MemoryError:"),
        ("while True: pass", "takes longer than 3 s"),
    ],
)
def test_a_process_of_its_own_bears_anything(site, monkeypatch, source, reason):
    monkeypatch.setattr(inventory, "LIMIT_SECONDS", 3)
    distribution(site, "quiz-fatal", source)
    assert inventory.tried_alone("quiz-fatal") == reason


def test_a_trial_leaves_the_package_as_it_is(site):
    """It has a cache folder of its own, so that nothing is skipped afterwards."""
    distribution(site, "quiz-fatal", "import os, sys\nif len(sys.argv) > 1: os._exit(9)\n" + GOOD)
    assert inventory.tried_alone("quiz-fatal")
    assert not [out for out in Plugins.installed().left_out if out.package.name == "quiz-fatal"]
