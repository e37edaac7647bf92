"""Tries of what failed, and the rows that editors beside each other write; leaks are in test_saboteurs."""

import fcntl
import json
import os
from dataclasses import dataclass, replace
from importlib.metadata import version

import pytest
from support.saboteurs import NAMES, Honest, evaluation_of

from edit_harness.errors import CaseError, RunFolderError
from edit_harness.folder.encoding import encode_answer
from edit_harness.interfaces import Regime
from edit_harness.model.tokens import TooLongError
from edit_harness.run import loop, measure, plan
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.leaderboard import baseline
from edit_harness_plugins.commands.report.facts import remarks
from edit_harness_plugins.commands.run import local
from edit_harness_plugins.commands.run.local import turns

SINGLE = Regime()


@dataclass
class Failing(Honest):
    """Fails at some cases until it is told not to; ``edited`` has what it was asked for."""

    def __post_init__(self):
        self.fails, self.edited, self.error = set(), [], ValueError

    def edit(self, model, requests):
        self.edited.append([request.subject for request in requests])
        if self.fails.intersection(self.edited[-1]):
            raise self.error("no edit")
        return super().edit(model, requests)


@pytest.fixture
def assembled(tmp_path, monkeypatch):
    """Return an evaluation with its folder and its editor."""
    monkeypatch.setattr(plan, "CHUNKS", ((10**9, 2),))

    def assembled(*fails, regime=SINGLE, error=ValueError):
        made = evaluation_of(Failing(), tiny_model(), regime=regime)
        editor = made.editor.value
        editor.fails.update(fails)
        editor.error = error
        return made, made.open(tmp_path), editor

    return assembled


def run(made, folder, **care):
    return loop.run_all({made: folder}, lambda e, record: None, turns=turns, **care)[0]


def rows(folder):
    return [json.loads(line) for line in folder.samples.read_text().splitlines()]


def tries(folder):
    return {record.visit: record.attempt for record in folder.records() if record.attempt > 1}


def test_what_failed_is_tried_again_only_on_demand(assembled):
    made, folder, editor = assembled("Ann", "Rome")
    assert len(run(made, folder).failures) == 2
    editor.edited.clear()
    assert len(run(made, folder).failures) == 2
    assert editor.edited == []
    assert len(run(made, folder, retry=True).failures) == 2
    editor.fails.clear()
    assert run(made, folder, retry=True).failures == []
    assert tries(folder) == {("Ann", 0): 3, ("Rome", 0): 3}
    assert len(rows(folder)) == 10, "all rows stay"
    editor.edited.clear()
    run(made, folder, retry=True)
    assert editor.edited == [], "nothing failed any more"


def test_what_a_case_itself_is_to_blame_for_is_not_tried_again(assembled, monkeypatch):
    """And where everything is done, nothing is asked."""
    made, folder, editor = assembled("Ann", error=TooLongError)
    first = run(made, folder)
    assert [r.status for r in first.failures] == ["too_long"]
    editor.edited.clear()
    monkeypatch.setattr(type(made.model), "logits", None)
    assert run(made, folder, retry=True).estimates == first.estimates
    assert editor.edited == []


def test_a_batch_is_tried_again_as_a_whole(assembled):
    made, folder, editor = assembled("Ann", regime=Regime("batch", 2))
    assert [r.case for r in run(made, folder).failures] == ["Ann", "Danielle"]
    editor.fails.clear()
    editor.edited.clear()
    assert run(made, folder, retry=True).failures == []
    assert editor.edited == [["Ann", "Danielle"]]
    assert tries(folder) == dict.fromkeys([("Ann", 2), ("Danielle", 2), ("control:text", 2)], 2)


def test_a_sequence_is_tried_again_from_the_first_failure_on(assembled):
    """What was written before is made again, and what was measured before stays."""
    regime = Regime("sequential", immediate=True)
    made, folder, editor = assembled("Ann", regime=regime)
    run(made, folder)
    before = {r.visit: r for r in folder.records() if r.state < 3}
    editor.fails.clear()
    editor.edited.clear()
    again = run(made, folder, retry=True)
    assert again.failures == []
    assert editor.edited == [[name] for name in NAMES]
    assert {r.visit: r for r in folder.records() if r.state < 3} == before
    assert {r.attempt for r in folder.records() if r.state >= 3} == {2}
    whole = run(made, made.open(folder.path.parent / "clean"))
    for one, expected in zip(again.everything, whole.everything, strict=True):
        assert (one.visit, one.after) == (expected.visit, expected.after)


def test_rows_of_another_model_are_withdrawn_and_run_again(assembled, monkeypatch):
    """Those of this process: the ones of before had been compared."""
    made, folder, editor = assembled("Rome")
    with pytest.raises(CaseError):
        run(made, folder, stop=True)
    before = len(rows(folder))
    editor.fails.clear()
    told = "9 of 9 values are others"
    with monkeypatch.context() as patch:
        patch.setattr(baseline, "mismatch", lambda *_: told)
        with pytest.raises(RunFolderError, match=f"{told}; the new rows were with"):
            run(made, folder, retry=True)
    withdrawn = [row["withdraws"] for row in rows(folder) if "withdraws" in row]
    assert withdrawn == [[before, before]]
    assert {r.case: r.status for r in folder.records()}["Rome"] == "edit_failed"
    assert folder.results()["failed"] == {"Rome": "edit_failed"}
    editor.edited.clear()
    assert run(made, folder, retry=True).failures == []
    assert editor.edited == [["Paris"], ["Rome"]]


@pytest.mark.parametrize("name", ["cases.jsonl", "manifest.json", "samples.jsonl"])
@pytest.mark.parametrize("left", [None, 9])
def test_what_is_gone_is_written_or_run_again(assembled, name, left):
    made, folder, _ = assembled()
    whole = run(made, folder).estimates
    path = folder.path / name
    if left is None:
        path.unlink()
    else:
        os.truncate(path, path.stat().st_size - left)
    assert run(made, made.open(folder.path.parent)).estimates == whole


def test_rows_are_read_once_the_folder_is_held(assembled, monkeypatch):
    """Item 7 of issue I: another process runs everything while this one waits for its lock."""
    made, folder, _ = assembled()
    flock, others = fcntl.flock, []

    def slow(*args):
        if not others:
            others.append(None)
            others[0] = run(*assembled()[:2])
        return flock(*args)

    monkeypatch.setattr(fcntl, "flock", slow)
    mine = run(made, folder)
    assert mine.estimates == others[0].estimates
    assert folder.samples.read_text().count("\n") == len(NAMES)


@pytest.fixture
def interrupted(assembled, monkeypatch, tmp_path):
    """Return a run of which the first chunks were made with another version of torch."""

    def interrupted(regime=SINGLE, rows=4):
        made, _, _ = assembled(regime=regime)
        folder, now, done = made.open(tmp_path / "interrupted"), local.environment(made.model), []

        def advance(evaluation, record):
            done.append(record)
            if len(done) == rows:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(local, "environment", lambda model: {**now, "torch": "1.0"})
            with pytest.raises(KeyboardInterrupt):
                loop.run_all({made: folder}, advance, turns=turns)
        again, _, editor = assembled(regime=regime)
        return again, again.open(tmp_path / "interrupted"), editor, len(folder.records())

    return interrupted


@pytest.mark.parametrize(
    "regime", [Regime("batch", 2), Regime("sequential", 2, immediate=True)], ids=str
)
def test_other_software_goes_on_and_is_told(assembled, interrupted, regime):
    """Item 8 of issue I: finished cases are asked again, and it is written which rows it made."""
    whole = run(*assembled(regime=regime)[:2])
    made, folder, _, rows = interrupted(regime)
    mine = run(made, folder)
    assert mine.estimates == whole.estimates
    first, second = mine.manifest.segments
    assert (first.first, first.last, first.environment["torch"]) == (0, rows - 1, "1.0")
    assert (second.first, second.last) == (rows, None)
    assert second.environment == local.environment(made.model)
    assert second.asked.cases >= 2
    assert second.asked.apart == 0
    (told,) = (text for _, text in remarks(mine) if "made with" in text)
    assert told.startswith(f"from row {rows} on made with torch {version('torch')}, not 1.0: ")
    assert run(made, made.open(folder.path.parent)).manifest.segments == [first, second]


def test_other_software_that_answers_otherwise_ends_it(interrupted, monkeypatch):
    """Item 8 of issue I: no row is written, and the manifest stays as it was."""
    made, folder, _, _ = interrupted()
    before = folder.samples.read_bytes(), folder.manifest().segments

    def moved(answer):
        logprobs = tuple(tuple(x - 2e-4 for x in row) for row in answer.logprobs)
        return encode_answer(replace(answer, logprobs=logprobs))

    monkeypatch.setattr(measure, "encode_answer", moved)
    with pytest.raises(RunFolderError, match=r"go on with torch .*, not 1.0: 4 finished") as error:
        run(made, folder)
    assert (error.value.code, "--new" in error.value.remedy) == (7, True)
    assert (folder.samples.read_bytes(), folder.manifest().segments) == before


def test_software_that_numbers_do_not_depend_on_is_only_noted(interrupted, monkeypatch):
    """Item 8 of issue I: another number of threads asks nothing again; what reads all makes no row."""
    made, folder, editor, rows = interrupted()
    made_with = {**local.environment(made.model), "torch": "1.0", "threads": "7"}
    monkeypatch.setattr(local, "environment", lambda model: made_with)
    run(made, folder)
    assert editor.edited == [[name] for name in NAMES[rows:]]
    first, second = folder.manifest().segments
    assert (second.first, bool(second.asked)) == (rows, False)
    monkeypatch.setattr(local, "environment", lambda model: {**made_with, "torch": "2.0"})
    run(made, made.open(folder.path.parent))
    assert folder.manifest().segments == [first, second]


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize(
    "regime",
    [Regime("sequential", immediate=True), Regime("sequential", checkpoints=(2,))],
    ids=str,
)
def test_a_sequence_goes_on_from_the_edit_that_is_kept(assembled, tmp_path, regime, damaged):
    """Its edits are not made again, and each row is that of a run that nobody interrupted."""
    whole = run(*assembled("Bob", regime=regime)[:2])
    made, _, _ = assembled("Bob", regime=regime)
    folder, kept_at = made.open(tmp_path / "interrupted"), 2 if regime.immediate else 4

    def advance(evaluation, record):
        if record.state > kept_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run_all({made: folder}, advance, turns=turns)
    (kept,) = folder.path.glob("sequence-*.safetensors")
    assert kept.stem == f"sequence-{kept_at}"
    if damaged:
        kept.write_bytes(kept.read_bytes()[:-4] + b"worm")
    made, _, editor = assembled("Bob", regime=regime)
    mine = run(made, made.open(folder.path.parent))
    again = NAMES if damaged else NAMES[kept_at:]
    assert [name for (name,) in editor.edited] == list(again)
    told = [
        [(r.visit, r.status, r.message, r.values, r.after) for r in each.everything]
        for each in (mine, whole)
    ]
    assert told[0] == told[1]
    assert not list(folder.path.glob("sequence*"))
    (folder.path / "sequence-6.safetensors").write_bytes(
        b"of a run that was killed behind its last row"
    )
    run(made, made.open(folder.path.parent))
    assert not list(folder.path.glob("sequence*"))
