"""The command `plugins`: what is there, from where, and what is broken."""

import json
import sys
from importlib.metadata import version

import pytest
from support.builders import QUIZ, distribution

from edit_harness.cli import main
from edit_harness.errors import Terminated
from edit_harness.registry import packages
from edit_harness.registry.registry import Plugins

BAD = {
    "quiz-exit": "raise SystemExit('no licence')",
    "quiz-typo": QUIZ.replace("register_tasks", "register_taks"),
    "quiz-empty": "",
    "quiz-skip": "import pytest\npytest.importorskip('nothing_of_that_name')",
    "quiz-base": "class Own(BaseException): pass\nraise Own('no')",
    "quiz-hook": QUIZ.replace("    register(", "    raise GeneratorExit\n    register("),
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    for variable in (packages.ONLY, packages.BLOCK, packages.FILES):
        monkeypatch.delenv(variable, raising=False)
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("COLUMNS", "80")
    known = set(sys.modules)
    yield site
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
    loud = f"import os\nprint('hi')\nos.environ['X'] = '1'\n{QUIZ}"
    distribution(site, "quiz-good", loud, version="3.1")
    row = said(capsys)["quiz-good"]
    assert (row["version"], row["from"], row["state"]) == ("3.1", str(site), "loaded")
    assert (row["modules"], row["provides"]) == (
        ["quiz_good"],
        {"tasks": ["lazy-quiz", "quiz-night"]},
    )
    assert row["notes"] == ["changed the environment while it was loaded; that was put back"]
    code, out, _ = tell(capsys, "plugins", "--block-plugins", "quiz-good")
    assert "quiz-good 3.1  LEFT OUT" in out
    assert "because  EDIT_HARNESS_BLOCK names it" in out
    code, out, _ = tell(capsys, "plugins")
    assert code == 0
    assert "quiz-good 3.1\n  from       " in out
    assert "  tasks      lazy-quiz, quiz-night  " in out


def test_broken_packages_say_why_and_all_commands_work(site, capsys):
    for name, source in BAD.items():
        distribution(site, name, source)
    rows = said(capsys)
    for name in BAD:
        assert (rows[name]["state"], rows[name]["provides"]) == ("broken", {})
        assert len(rows[name]["notes"]) == 1
        assert f"{name} 1.0  BROKEN" in tell(capsys, "plugins")[1]
    for command in (["ls"], ["show", "pocket"], ["--help"]):
        code, out, err = tell(capsys, *command)
        assert (code, bool(out)) == (0, True)
        assert "Traceback" not in out + err


@pytest.mark.parametrize("error", [KeyboardInterrupt, Terminated])
def test_what_ends_the_command_is_no_fault_of_a_plugin(site, error):
    distribution(
        site, "quiz-slow", f"from edit_harness.errors import Terminated\nraise {error.__name__}"
    )
    with pytest.raises(error):
        Plugins.installed()


@pytest.mark.parametrize(("wanted", "holds"), [(">=0.1", True), ("<0.1,>0.0.1", False)])
def test_a_package_says_which_harness_it_requires(site, capsys, wanted, holds):
    """Item 19 of issue I: `Requires-Dist`, and whether it holds."""
    distribution(site, "quiz-good", QUIZ)
    with open(site / "quiz_good-1.0.dist-info" / "METADATA", "a", encoding="utf-8") as file:
        file.write(f"Requires-Dist: rich\nRequires-Dist: Edit_Harness{wanted}\n")
    row = said(capsys)["quiz-good"]
    assert row["requires"].startswith("Edit_Harness")
    assert row["holds"] is holds
    told = " ".join(tell(capsys, "plugins")[1].split())
    verdict = "which holds" if holds else "which does not hold"
    assert f"requires {row['requires']}, {verdict}: {version('edit-harness')} is installed" in told
