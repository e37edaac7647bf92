"""Shards that are joined are the run that one process would have made, or an error and nothing else."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from sharded import BAD, NAMES, SINGLE, assembled, documents, made, shards, timeless

from edit_harness import UsageError, runner
from edit_harness.errors import RunFolderError
from edit_harness.interfaces import Regime
from edit_harness.joining import Joined
from edit_harness.outcome import Run
from edit_harness.plugins import Plugins
from edit_harness.records import RunFolder
from edit_harness.shares import Share

REGIMES = (
    SINGLE, Regime(in_turn=True), Regime("batch", 2), Regime("batch", 3, in_turn=True),
)  # fmt: skip
SHARDS = 3


@pytest.fixture(autouse=True)
def chunks_of_two(monkeypatch):
    monkeypatch.setattr(runner, "CHUNKS", ((10**9, 2),))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A whole run, and the folders of its shards."""
    place = tmp_path_factory.mktemp("originals")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "CHUNKS", ((10**9, 2),))
        return made(place).folder.path, shards(place)


@pytest.fixture
def parts(originals, tmp_path):
    """Return copies of the shards' folders, which a test may spoil."""
    return [shutil.copytree(path, tmp_path / "shards" / Path(path).name) for path in originals[1]]


def joined(names, output, **settings):
    return Joined.of(Plugins.installed(), [str(name) for name in names]).write(output, **settings)


def changed(folder, **fields):
    """Change what a shard's manifest says of it, with a digest that fits."""
    folder = RunFolder(folder)
    manifest = folder.manifest()
    folder.write_manifest({**manifest, "shard": {**manifest["shard"], **fields}})


def cut(folder, rows):
    """Leave a folder some rows only, as an interruption does."""
    samples = folder / "samples.jsonl"
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:rows]))


@pytest.mark.parametrize("regime", REGIMES, ids=str)
@pytest.mark.parametrize("of", [2, 3])
def test_shards_make_the_rows_of_one_process(tmp_path, regime, of):
    whole = made(tmp_path / "whole", regime=regime).folder.path
    names = shards(tmp_path / "shards", of, regime=regime)
    run = joined(reversed(names), tmp_path / "joined")
    assert run.folder.path.name == whole.name
    assert timeless(run.folder.path) == timeless(whole)
    assert documents(run.folder.path) == documents(whole)
    own = [row for name in names for row in timeless(Path(name))]
    assert len(own) == len(timeless(whole))
    (event,) = [row for row in events(run.folder.path) if row["kind"] == "merge"]
    assert [shard["number"] for shard in event["shards"]] == [*range(1, of + 1)]


def events(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def test_the_same_twice_and_resumed_anywhere_has_the_same_rows(originals, tmp_path):
    """With the shards of the test above, this is what determinism means: T24 of the docs."""
    whole = timeless(originals[0])
    again = made(tmp_path / "again").folder.path
    assert timeless(again) == whole
    for rows in (1, 4, 5):
        cut(again, rows)
        assert timeless(made(tmp_path / "again").folder.path) == whole


def test_a_shard_goes_on_and_needs_no_case_of_the_others(parts, tmp_path):
    before = timeless(parts[1])
    cut(parts[1], 1)
    with pytest.raises(RunFolderError) as error:
        joined(parts, tmp_path / "joined")
    assert f"{parts[1]} is not finished" in error.value.cause
    assert error.value.remedy == "the command that began it goes on, with --shard 2/3"
    assert not (tmp_path / "joined").exists()
    run = made(parts[1].parent, Share(2, SHARDS))
    assert timeless(run.folder.path) == before
    assert {record.case for record in run.everything} < set(NAMES)
    assert joined(parts, tmp_path / "joined").missing == 0


def test_a_case_that_cannot_be_used_is_the_first_shards(parts):
    having = [BAD in Run.read(RunFolder(path), {}).planned for path in parts]
    assert having == [True, False, False]


def test_what_an_interrupted_join_left_is_finished_by_the_same_command(originals, tmp_path):
    """It is killed at each of its writes, renames and syncs in turn."""
    whole, names = originals
    left = set()
    for moment in range(1, 200):
        output = tmp_path / str(moment)
        if not killed(names, output, moment):
            break
        left.add(state(output / whole.name))
        run = joined(names, output)
        assert timeless(run.folder.path) == timeless(whole)
        assert documents(run.folder.path) == documents(whole)
    assert moment > 3 * len(NAMES)
    assert left == {"no run", "unfinished", "whole"}


def killed(names, output, moment):
    """Join in another process, which is killed at its so-manieth write; False if it had none left."""
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)
    calls = iter(range(1, moment))
    for name in ("write", "replace", "fsync"):
        setattr(os, name, counted(getattr(os, name), calls))
    try:
        joined(names, output)
    finally:
        os._exit(0)


def counted(call, calls):
    def limited(*args):
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args)

    return limited


def state(path):
    """Tell what a folder passes for; one that passes for whole has all rows."""
    if not (path / "manifest.json").exists():
        return "no run"
    run = Run.read(RunFolder(path), {})
    if run.missing:
        with pytest.raises(RunFolderError, match="is not finished"):
            run.check_finished()
        return "unfinished"
    return "whole"


def test_a_join_that_is_repeated_writes_nothing_new(originals, tmp_path):
    first = joined(originals[1], tmp_path)
    rows = (first.folder.path / "samples.jsonl").read_bytes()
    again = joined(originals[1], tmp_path)
    assert (again.folder.path / "samples.jsonl").read_bytes() == rows
    assert joined(originals[1], tmp_path, new=True).folder.path.name.endswith("-2")


def test_a_folder_that_one_process_began_is_completed(originals, parts, tmp_path):
    shutil.copytree(originals[0], tmp_path / "out" / originals[0].name)
    cut(tmp_path / "out" / originals[0].name, 4)
    run = joined(parts, tmp_path / "out")
    assert timeless(run.folder.path) == timeless(originals[0])


def test_tries_of_shards_come_along(originals, parts, tmp_path):
    joined(parts, tmp_path)
    folder = RunFolder(parts[0])
    record = next(record for record in folder.records() if record.status == "ok")
    with folder.writing() as write:
        write(type(record)(**{**vars(record), "status": "oom", "attempt": 2}))
    run = joined(parts, tmp_path)
    assert [r.case for r in run.failures if r.status == "oom"] == [record.case]
    shutil.rmtree(parts[0])
    shutil.copytree(originals[1][0], parts[0])
    assert joined(parts, tmp_path).failures.statuses.count("oom") == 1  # the later try counts


def test_a_folder_with_other_rows_stays_as_it_is(parts, tmp_path):
    run = joined(parts, tmp_path)
    spoilt = run.folder.path / "samples.jsonl"
    row = run.everything[1]
    with run.folder.writing() as write:
        write.withdraw(0, "spoilt")
        write(type(row)(**{**vars(row), "status": "oom"}))
    before = spoilt.read_bytes()
    with pytest.raises(RunFolderError, match=f"has another row of case {row.case}.*\n.*--new"):
        joined(parts, tmp_path)
    assert spoilt.read_bytes() == before
    assert joined(parts, tmp_path, new=True).missing == 0
