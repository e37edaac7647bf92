"""Shards that are merged are the run that one process would have made, or an error and nothing else."""

import json
import os
import re
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.builders import replace, with_entries
from support.commands import failed
from support.sharded import COUNT, SINGLE, documents, made, plugins, shards, timeless

from edit_harness import UsageError, files
from edit_harness.cli import main
from edit_harness.errors import RunFolderError
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import as_json
from edit_harness.interfaces import Regime
from edit_harness.run import plan
from edit_harness.run.results import Results
from edit_harness_plugins.commands.distributed.merge import merge
from edit_harness_plugins.commands.results.compare import environment_of
from edit_harness_plugins.commands.run.shards import Share
from edit_harness_plugins.reading import statuses_of

REGIMES = SINGLE, Regime("batch", 2), Regime("batch", 3, in_turn=True)
SHARDS = 3


@pytest.fixture(scope="module", autouse=True)
def chunks_of_two():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNKS", ((10**9, 2),))
        yield


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A whole run, and the folders of its shards."""
    place = tmp_path_factory.mktemp("originals")
    return made(place).folder.path, shards(place)


@pytest.fixture
def parts(originals, tmp_path):
    """Return copies of the shards' folders, which a test may spoil."""
    return [shutil.copytree(path, tmp_path / "shards" / Path(path).name) for path in originals[1]]


joined = partial(merge, plugins=plugins())


def changed(folder, **fields):
    """Change what a shard's manifest says of it, with a digest that fits."""
    folder = RunFolder(folder)
    said = as_json(folder.manifest())
    data = files.sealed({**said, "shard": {**said["shard"], **fields}})
    (folder.path / "manifest.json").write_bytes(data)


def cut(folder, rows):
    """Leave a folder some rows only, as an interruption does."""
    samples = folder / "samples.jsonl"
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:rows]))
    (folder / "results.json").unlink()


@pytest.mark.parametrize("regime", REGIMES, ids=str)
def test_shards_make_the_rows_of_one_process(originals, tmp_path, regime):
    whole, names = originals
    if regime != SINGLE:
        whole = made(tmp_path / "whole", regime=regime).folder.path
        names = shards(tmp_path / "shards", 2, regime=regime)
    run = joined(names[::-1], tmp_path / "joined")
    assert run.folder.path.name == whole.name
    assert timeless(run.folder.path) == timeless(whole)
    assert documents(run.folder.path) == documents(whole)
    own = [row for name in names for row in timeless(Path(name))]
    assert len(own) == len(timeless(whole))


def test_a_shard_goes_on_and_needs_no_case_of_the_others(parts, tmp_path):
    before = timeless(parts[1])
    cut(parts[1], 1)
    with pytest.raises(RunFolderError) as error:
        joined(parts, tmp_path / "joined")
    assert f"{parts[1]} is not finished" in error.value.cause
    assert not (tmp_path / "joined").exists()
    run = made(parts[1].parent, Share(2, SHARDS))
    assert timeless(run.folder.path) == before
    assert "invalid_case" not in {record.status for record in run.everything}, "the first's to tell"
    assert joined(parts, tmp_path / "joined").missing == 0


def test_what_an_interrupted_join_left_is_no_run(originals, tmp_path):
    """It is killed at many of its writes, renames and syncs, from the first to the last."""
    whole, names = originals
    left = set()
    for moment in range(1, 200, 9):
        output = tmp_path / str(moment)
        if not killed(names, output, moment):
            break
        folder = RunFolder(output / whole.name)
        made = (folder.path / "manifest.json").exists()
        left.add(made and Results.read(folder, {}).missing > 0)
        if statuses_of(folder):
            with pytest.raises(RunFolderError, match=r"has rows already.*\n.*--new"):
                joined(names, output)
        run = joined(names, output, new=True)
        assert timeless(run.folder.path) == timeless(whole)
        assert documents(run.folder.path) == documents(whole)
    assert moment > 3 * COUNT
    assert left == {False, True}


def killed(names, output, moment):
    """Join in another process, which is killed at its so-manieth write; False if it had none left."""
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)
    calls = iter(range(1, moment))

    def limited(call, *args):
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args)

    for name in ("write", "replace", "fsync"):
        setattr(os, name, partial(limited, getattr(os, name)))
    try:
        joined(names, output)
    finally:
        os._exit(0)


def test_shards_of_other_runs_are_told_with_what_differs(originals, tmp_path):
    other = made(tmp_path, Share(2, SHARDS), seed=1).folder.path
    first = originals[1][0]
    with pytest.raises(RunFolderError) as error:
        joined([first, other, originals[1][2]], tmp_path)
    assert error.value.cause == f"{first} and {other} are of different runs: seed is 0 and 1"
    for of, limit, told in (
        (2, {}, "otherwise: shard 1 of 3 of 10 cases and shard 2 of 2 of 10"),
        (3, {"limit": 8}, r"shard 1 of 3 of 10 cases and shard 2 of 3 of 8 cases\n.*--limit"),
    ):
        other = made(tmp_path, Share(2, of), **limit).folder.path
        with pytest.raises(RunFolderError, match=told):
            joined([first, other], tmp_path)
    # Without a shard there is nothing to merge.
    with pytest.raises(UsageError, match="there is nothing to merge"):
        joined([], tmp_path)


def test_a_damaged_shard_is_an_error_before_anything_is_written(parts, tmp_path):
    samples = parts[2] / "samples.jsonl"
    first, *rest = samples.read_text().splitlines(keepends=True)
    samples.write_text("".join([first.replace("ok", "oh"), *rest]))
    with pytest.raises(RunFolderError, match=r"samples\.jsonl"):
        joined(parts, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"cases_digest": "0" * 64}, "not those of their plan"),
        ({"spans": [[0, 2]]}, "do not make up their plan"),
        ({"number": "2"}, r"got `str` - at `shard\.number`"),
        ({"visits": [["case 0", 0]] * 4}, "do not make up their plan"),
    ],
)
def test_what_a_manifest_says_wrongly_of_a_shard_is_told(parts, tmp_path, fields, cause):
    for path in parts if "cases_digest" in fields else parts[1:2]:
        changed(path, **fields)
    with pytest.raises(RunFolderError, match=cause):
        joined(parts, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_environments_are_allowed_and_noted(parts, tmp_path):
    folder = RunFolder(parts[1])
    manifest = folder.manifest()
    (segment,) = manifest.segments
    other = as_json(with_entries(segment, environment={"device": "cuda"}))
    folder.write_manifest(with_entries(manifest, segments=[other]))
    run = joined(parts, tmp_path)
    assert run.folder.notes == ["the shards were run with more than one device: cpu; cuda"]
    assert environment_of(run.manifest.segments)["device"] == "cpu, cuda"


def judge(folder, name, text):
    """Let a judge have said something of a folder's last record, which nobody ran again."""
    by = {"name": name, "version": "1", "fields": {}, "provenance": {}}
    folder.write_manifest(with_entries(folder.manifest(), judged_by=by if name else None))
    *_, record = folder.records()
    answers = [*record.before[:2], {"text": "Oslo", "verdict": text}]
    with folder.writing() as write:
        write(replace(record, before=answers, after=answers, attempt=2))


def test_what_judges_have_said_comes_along(parts, tmp_path):
    folder = RunFolder(parts[1])
    judge(folder, "", {"status": "pending", "note": "nobody asked"})
    assert joined(parts, tmp_path).pending == 2
    judge(folder, "one", {"status": "decided", "score": 1.0})
    run = joined(parts, tmp_path, new=True)
    assert (run.pending, run.manifest.judge.name) == (0, "one")
    judge(RunFolder(parts[0]), "two", {"status": "decided", "score": 1.0})
    with pytest.raises(RunFolderError, match=r"judged by different judges\n.*score SHARD"):
        joined(parts, tmp_path, new=True)


def test_a_smaller_limit_takes_nothing_from_shards_and_their_whole(tmp_path, monkeypatch):
    """Item 3 of issue I: a shard goes on as that of the larger plan, and so does what was merged."""
    # Alone, so that no row has the last bit of those that it is asked with.
    monkeypatch.setattr(plan, "CHUNKS", ((10**9, 1),))
    shards, few = tmp_path / "shards", tmp_path / "few"
    parts = [made(shards, Share(n, 2)).folder.path for n in (1, 2)]
    whole = joined(parts, tmp_path / "whole")
    assert [made(shards, Share(n, 2), limit=4).missing for n in (1, 2)] == [0, 0]
    assert timeless(joined(parts, tmp_path / "again").folder.path) == timeless(whole.folder.path)
    fewer = [made(few, Share(n, 2), limit=4).folder.path for n in (1, 2)]
    assert len(joined(fewer, tmp_path / "other").cases) == 4


# The command


def tell(*args):
    """Run a command; returns what came of it, and its messages in one line."""
    shown = CliRunner().invoke(main, [str(arg) for arg in args])
    assert "Traceback" not in shown.output
    return shown, " ".join(shown.stderr.split())


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """The two shards of a run, by their folders, and the run that one process makes."""
    place = tmp_path_factory.mktemp("halves")
    return shards(place, 2, broken=-1), made(place, broken=-1).folder.path


def test_the_table_is_that_of_a_run(halves, tmp_path):
    names, whole = halves
    shown, told = tell("merge", *names, "-o", tmp_path)
    assert shown.exit_code == 0, told
    assert f"saved{tmp_path / whole.name}/" in told.replace(" ", "")
    assert "shard" not in told
    score, _ = tell("score", tmp_path / whole.name)
    assert score.stdout == shown.stdout
    assert timeless(tmp_path / whole.name) == timeless(whole)
    failed(tell("merge", *names, "-o", tmp_path)[0], 7, "has rows already")
    first = Path(shutil.copytree(names[0], tmp_path / "first"))
    folder = RunFolder(first)
    with folder.writing() as write:
        write(replace(folder.records()[0], status="oom", attempt=2))
    shown, told = tell("merge", first, names[1], "-o", tmp_path, "--new")
    assert shown.exit_code == 1
    assert "1 of 10 cases failed and count as failures: 1 oom" in told


@pytest.mark.parametrize(
    ("which", "code", "told"),
    [
        ([0], 7, "missing, the first of them 2 of 2 name its folder"),
        ([0, 0], 2, "shard 1 of 2 is there twice"),
        ([0, 2], 2, "is no shard of a run, but a run"),
        ([0, 1], 5, "cannot be written"),
    ],
)
def test_what_cannot_be_merged_is_told(halves, tmp_path, which, code, told):
    (tmp_path / "file").touch()
    folders = [*halves[0], halves[1]]
    shown, _ = tell("merge", *(folders[n] for n in which), "-o", tmp_path / "file")
    failed(shown, code, told)


def test_a_shard_says_that_it_is_one_wherever_it_is_shown(halves, tmp_path):
    first, _ = halves[0]
    scored, _ = tell("score", first, "--json")
    assert json.loads(scored.stdout)["shard"] == {"number": 1, "of": 2}
    _, told = tell("score", first)
    assert "numbers of shard 1 of 2 only: 6 of the run's 10 cases" in told
    for form in ("latex", "csv", "html"):
        reported, _ = tell("report", halves[0][0], "--format", form)
        assert reported.exit_code == 0
        assert re.search("shard.{,3}1 of 2|,1 of 2,|1 of 2 only", " ".join(reported.stdout.split()))
    every, place = first.replace("shard-1-of-2", "shard-*-of-2"), Path(first).parent
    command = f"edit-harness merge {every} -o {place}"
    assert command.replace(" ", "") in told.replace(" ", "")
    listed, _ = tell("ls", "runs", "--json", "-o", place)
    cases = [run["cases"] for run in json.loads(listed.stdout)["runs"]]
    assert sorted(cases) == ["10/10", "4/4 of shard 2 of 2", "6/6 of shard 1 of 2"]
    compared, _ = tell("compare", first, halves[1])
    assert "A is shard 1 of 2 of a run" in " ".join(compared.stdout.split())
