"""The command merge: what it prints, and how it ends."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from sharded import made, shards, timeless

from edit_harness.cli import main
from edit_harness.folder.records import RunFolder
from edit_harness.run import plan
from edit_harness.run.outcome import Run
from edit_harness_plugins.commands.distributed import joining


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """The two shards of a run, by their folders, and the run that one process makes."""
    place = tmp_path_factory.mktemp("halves")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNKS", ((10**9, 2),))
        return shards(place, 2, bad=""), made(place, bad="").folder.path


def merge(*args):
    return edit_harness("merge", *args)


def edit_harness(*args):
    """Run a command; returns what came of it, and its messages in one line."""
    shown = CliRunner().invoke(main, [str(arg) for arg in args])
    assert "Traceback" not in shown.output
    return shown, " ".join(shown.stderr.split())


def test_the_table_is_that_of_a_run(halves, tmp_path):
    names, whole = halves
    shown, told = merge(*names, "-o", tmp_path)
    assert shown.exit_code == 0, told
    assert f"saved{tmp_path / whole.name}/" in told.replace(" ", "")
    assert "shard" not in told
    score, _ = edit_harness("score", tmp_path / whole.name)
    assert score.stdout == shown.stdout
    assert timeless(tmp_path / whole.name) == timeless(whole)
    rows = (tmp_path / whole.name / "samples.jsonl").read_bytes()
    shown, told = merge(*names, "-o", tmp_path)
    assert "has all rows already, with the same answers; --new joins" in told
    assert (tmp_path / whole.name / "samples.jsonl").read_bytes() == rows


def test_json_is_the_results(halves, tmp_path):
    shown, _ = merge(*halves[0], "-o", tmp_path, "--json", "-q")
    assert json.loads(shown.stdout)["cases"] == 10
    assert shown.stderr == ""


@pytest.mark.parametrize(
    ("which", "code", "told"),
    [
        ([0], 7, "error: 1 shard of 2 missing, the first of them 2 of 2"),
        ([0, 0], 2, "error: shard 1 of 2 is there twice"),
        ([0, 2], 2, "is no shard of a run, but a run"),
    ],
)
def test_what_cannot_be_merged_is_told(halves, tmp_path, which, code, told):
    folders = [*halves[0], halves[1]]
    shown, said = merge(*(folders[n] for n in which), "-o", tmp_path / "out")
    assert shown.exit_code == code
    assert told in said
    assert not (tmp_path / "out").exists()


def test_failures_are_exit_code_1(halves, tmp_path):
    first = Path(shutil.copytree(halves[0][0], tmp_path / "first"))
    folder = RunFolder(first)
    record = next(record for record in folder.records() if record.status == "ok")
    with folder.writing() as write:
        write(replace(record, status="oom", attempt=2))
    shown, told = merge(first, halves[0][1], "-o", tmp_path)
    assert shown.exit_code == 1
    assert f"failed 1 of 10 cases; they count as failures case {record.case}: oom" in told


def test_a_place_that_cannot_be_written_is_told(halves, tmp_path):
    (tmp_path / "file").touch()
    shown, told = merge(*halves[0], "-o", tmp_path / "file")
    assert (shown.exit_code, "cannot be written" in told) == (5, True)


def test_python_merges_too(halves, tmp_path):
    run = joining.merge(halves[0], tmp_path)
    assert isinstance(run, Run)
    assert run["ES"].n == 10


def test_a_shard_says_that_it_is_one_wherever_it_is_shown(halves, tmp_path):
    first, _ = halves[0]
    scored, _ = edit_harness("score", first, "--json")
    assert json.loads(scored.stdout)["shard"] == {"number": 1, "of": 2}
    _, told = edit_harness("score", first)
    assert "numbers of shard 1 of 2 only: 4 of the run's 10 cases" in told
    for form in ("table", "markdown", "latex", "csv", "html"):
        reported, _ = edit_harness("report", halves[0][0], "--format", form)
        assert reported.exit_code == 0
        assert re.search("shard.{,3}1 of 2|,1 of 2,|1 of 2 only", " ".join(reported.stdout.split()))
    every = first.replace("shard-1-of-2", "shard-*-of-2")
    command = f"edit-harness merge {every} -o {Path(first).parent}"
    assert command.replace(" ", "") in told.replace(" ", "")
    listed, _ = edit_harness("ls", "runs", "--json", "-o", Path(first).parent)
    cases = [run["cases"] for run in json.loads(listed.stdout)["runs"]]
    assert sorted(cases) == ["10/10", "4/4 of shard 1 of 2", "6/6 of shard 2 of 2"]
    beside, _ = edit_harness("report", *halves[0])
    assert "Shard" in beside.stdout
    compared, _ = edit_harness("compare", first, halves[1])
    assert "A is shard 1 of 2 of a run" in " ".join(compared.stdout.split())


def test_a_shard_is_no_submission(halves, tmp_path):
    flags = ("--contact", "me", "--tuned-on", "none", "--out", str(tmp_path / "b.zip"))
    shown, told = edit_harness("submit", halves[0][0], *flags)
    assert shown.exit_code == 2
    assert "is shard 1 of 2 of a run, and a submission is a whole one" in told
    assert "edit-harness merge SHARD" in told
