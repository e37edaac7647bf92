"""``run`` with editors that do what none should: what it prints, and what it says next."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.builders import IDENTITY, MANIFEST, people, with_entries
from support.commands import stored

from edit_harness import Case
from edit_harness.cli import main
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.log import encoded
from edit_harness.folder.record import Record
from edit_harness.run import plan
from edit_harness_plugins.commands.catalog import list as listing

EDITORS = """
from edit_harness import Editor, hookimpl
from edit_harness.edits import Edit

class Loud(Editor):
    def edit(self, model, requests):
        print("I print")
        return Edit()

class Leaky(Editor):
    def edit(self, model, requests):
        next(model.module.parameters()).data[0, 0] += 1
        return Edit()

class Lost(Editor):
    def edit(self, model, requests):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

class Never(Editor):
    def edit(self, model, requests):
        raise ValueError("no")

@hookimpl
def edit_harness_register_editors(register):
    for kind in (Loud, Leaky, Lost, Never):
        register(kind.__name__.lower(), kind, "Odd")
"""


@pytest.fixture
def tell(monkeypatch, tmp_path):
    """Run a command in a folder that has a tiny model, three records and odd editors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    Path("odd.py").write_text(EDITORS)
    monkeypatch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(tmp_path / "odd.py"))
    stored(tmp_path)
    people(tmp_path, ("Ada", "Bob", "Ann"))
    task = ("-t", "counterfact", "--task-args", "data=facts.json", "--metrics", "success")

    def tell(editor, *args):
        shown = CliRunner().invoke(main, ["-e", editor, "-m", "tiny", *task, *args])
        return shown, " ".join(shown.stderr.split())

    return tell


def test_where_every_case_failed_there_are_no_numbers(tell):
    shown, told = tell("never")
    assert shown.exit_code == 1
    assert shown.stdout == "every case failed: there are no numbers\n"
    assert "3 of 3 cases failed and nothing was measured after: 3 edit_failed" in told
    assert "--retry-failed what failed" in tell("never")[1]


@pytest.mark.parametrize(("editor", "code"), [("lost", 5), ("leaky", 3)])
def test_it_is_said_what_is_kept_and_how_to_go_on(tell, editor, code):
    shown, told = tell(editor)
    assert shown.exit_code == code
    assert "kept: 0 of 3 cases" in told
    assert "start the same command again" in told
    assert tell(editor)[0].exit_code == code, "its cases are tried again"


def test_listed_runs_count_what_counts(tmp_path):
    """A case that was tried twice is one, what was withdrawn is none, nor is what is not planned."""
    folder = RunFolder.open(tmp_path, "run", IDENTITY, new=False)
    folder.write_cases([Case("a", (), ()), Case('b"', (), ()), Case("c", (), ())])
    folder.write_manifest(with_entries(MANIFEST, cases=["a", 'b"', "c"], visits=3))
    with folder.writing() as write:
        write(Record("a", "oom", {}))
        write(Record("a", "ok", {}, attempt=2))
        write(Record("elsewhere", "ok", {}))
        write.withdraw(write(Record("c", "ok", {})), "another model")
        write(Record('b"', "ok", {}))
    with open(folder.samples, "ab") as file:
        file.write(encoded(6, folder.mark, Record("c", "ok", {}).row)[:-40])
    broken = tmp_path / "broken" / "manifest.json"
    broken.parent.mkdir()
    broken.write_text('{"cases": []}')
    bad, row = listing.runs(tmp_path)
    assert (bad["cases"][:6], row["cases"]) == ("BROKEN", "2/3")


def test_a_shard_is_run_told_and_read_back(tell, monkeypatch):
    monkeypatch.setattr(plan, "CHUNKS", ((10**9, 2),))
    shown, told = tell("loud", "--shard", "2/2")
    assert shown.exit_code == 0, told
    assert "I print" in told
    assert "I print" not in shown.stdout, "which has the result alone"
    assert "shard 2 of 2: 1 case of these; merge joins the shards" in told
    assert "numbers of shard 2 of 2 only: 1 of the run's 3 cases" in told
    again, told = tell("loud", "--shard", "2/2", "--json")
    assert "nothing is run" in told
    assert json.loads(again.stdout)["shard"] == {"number": 2, "of": 2}
    (folder,) = Path("results").iterdir()
    assert "-shard-2-of-2-" in folder.name


def test_a_shard_that_cannot_be_is_told(tell):
    for flags, cause in (
        (["3/2"], "'3/2' is no shard: it takes I/N, with I from 1 to N"),
        (["1/3"], "there would be shards without a case"),
        (["1/2", "--edit-mode", "sequential"], "a sequence has no shards"),
    ):
        shown, told = tell("loud", "--shard", *flags)
        assert shown.exit_code == 2
        assert cause in told
    assert not list(Path("results").glob("*"))
