"""Tries of what failed, and the rows that editors beside each other write; leaks are in test_saboteurs."""

import fcntl
import json
import os
from dataclasses import dataclass, replace
from importlib.metadata import version

import pytest
import torch
from support.saboteurs import Honest

from edit_harness import Case, Choose, Probe, Request
from edit_harness.edits import Dense, Edit
from edit_harness.errors import CaseError, RunFolderError
from edit_harness.folder.encoding import encode_answer
from edit_harness.interfaces import ModelSource, Regime, Task
from edit_harness.model.tokens import TooLongError
from edit_harness.registry.registry import Plugins
from edit_harness.run import evaluation, loop, measure, plan
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.spec import RunSpec
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.leaderboard import baseline
from edit_harness_plugins.commands.report.facts import remarks
from edit_harness_plugins.commands.run import local
from edit_harness_plugins.commands.run.local import turns

SINGLE = Regime()
NAMES = ("Ada", "Bob", "Ann", "Danielle", "Paris", "Rome")


class Few(Task):
    """Six cases."""

    metrics = ("success",)

    def cases(self):
        for name in NAMES:
            request = Request("{} lives in", name, "Paris", "Rome")
            choice = Choose(request.text, ("Paris", "Rome"))
            yield Case(name, (request,), (Probe("efficacy", choice),))


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
    plugins = Plugins.installed()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))

    def assembled(*fails, regime=SINGLE, error=ValueError):
        made = evaluation.assemble(
            plugins, tiny_model(), benchmark, RunSpec(Failing(), Few(), regime=regime)
        )
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
    editor.fails.clear()
    editor.edited.clear()
    assert len(run(made, folder).failures) == 2
    assert editor.edited == []
    assert run(made, folder, retry=True).failures == []
    assert tries(folder) == {("Ann", 0): 2, ("Rome", 0): 2}
    assert len(rows(folder)) == 8, "both rows stay"
    editor.edited.clear()
    run(made, folder, retry=True)
    assert editor.edited == [], "nothing failed any more"


def test_what_fails_again_is_counted(assembled):
    made, folder, _ = assembled("Ann")
    for _ in range(3):
        run(made, folder, retry=True)
    assert tries(folder) == {("Ann", 0): 3}


def test_what_a_case_itself_is_to_blame_for_is_not_tried_again(assembled):
    made, folder, editor = assembled("Ann", error=TooLongError)
    assert [r.status for r in run(made, folder).failures] == ["too_long"]
    editor.edited.clear()
    run(made, folder, retry=True)
    assert editor.edited == []


def test_a_batch_is_tried_again_as_a_whole(assembled):
    made, folder, editor = assembled("Ann", regime=Regime("batch", 2))
    assert [r.case for r in run(made, folder).failures] == ["Ann", "Danielle"]
    editor.fails.clear()
    editor.edited.clear()
    assert run(made, folder, retry=True).failures == []
    assert editor.edited == [["Ann", "Danielle"]]
    expected = {("Ann", 2): 2, ("Danielle", 2): 2, ("control:text", 2): 2}
    assert tries(folder) == expected


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


def test_a_run_may_end_at_its_first_failure(assembled):
    made, folder, _ = assembled("Bob")
    with pytest.raises(CaseError, match=r"case Bob failed \(edit_failed\)"):
        run(made, folder, stop=True)
    assert [r.case for r in folder.records()] == ["Ada", "Bob"]


def test_a_finished_run_loads_nothing_and_asks_nothing(assembled, monkeypatch):
    made, folder, _ = assembled()
    first = run(made, folder)
    monkeypatch.setattr(type(made.model), "logits", None)
    assert run(made, folder).estimates == first.estimates


def test_a_finished_run_is_read_back_for_fewer_cases(assembled, monkeypatch):
    """The rows of the others stay, and are compared with nothing."""
    made, folder, _ = assembled()
    run(made, folder)
    made.cases = made.cases[:2]
    del made.steps
    compared = []
    monkeypatch.setattr(baseline, "mismatch", lambda s, i, answered: compared.extend(answered))
    assert [r.case for r in run(made, folder).records] == ["Ada", "Bob"]
    assert [case.id for case, _ in compared] == ["Ada", "Bob"]


def test_rows_of_another_model_are_withdrawn_and_run_again(assembled, monkeypatch):
    """Those of this process: the ones of before had been compared."""
    made, folder, editor = assembled("Rome")
    with pytest.raises(CaseError):
        run(made, folder, stop=True)
    before = rows(folder)
    editor.fails.clear()
    with monkeypatch.context() as patch:
        patch.setattr(baseline, "mismatch", lambda *_: "9 of 9 values are others")
        with pytest.raises(
            RunFolderError, match="9 of 9 values are others; the new rows were with"
        ):
            run(made, folder, retry=True)
    assert [row["withdraws"] for row in rows(folder) if "withdraws" in row] == [
        [len(before), len(before)]
    ]
    assert {r.case: r.status for r in folder.records()}["Rome"] == "edit_failed"
    assert folder.results()["failed"] == {"Rome": "edit_failed"}
    editor.edited.clear()
    assert run(made, folder, retry=True).failures == []
    assert editor.edited == [["Paris"], ["Rome"]]


@dataclass
class Odd(Honest):
    """Does something else than editing at one subject."""

    def __post_init__(self):
        self.do = None

    def edit(self, model, requests):
        edit = super().edit(model, requests)
        return (self.do(edit) or edit) if requests[0].subject == "Ann" else edit


@pytest.fixture
def odd(tmp_path):
    """Run an editor that does something odd at one case."""
    plugins = Plugins.installed()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))

    def odd(do):
        editor = Odd()
        editor.do = do
        made = evaluation.assemble(plugins, tiny_model(), benchmark, RunSpec(editor, Few()))
        folder = made.open(tmp_path)
        run(made, folder)
        return {r.case: r for r in folder.records()}, folder

    return odd


@pytest.mark.parametrize("info", [{"x": object()}, {"x": {(1, 2): 3}}, {1: 2}, {"x": {3, 4}}])
def test_what_an_editor_says_of_its_edit_and_is_no_json_is_its_failure(odd, info):
    records, _ = odd(lambda edit: replace(edit, info=info))
    assert records["Ann"].status == "plugin_error"
    assert f"the editor's info is no JSON: key {next(iter(info))}" in records["Ann"].message
    assert {r.status for r in records.values() if r.case != "Ann"} == {"ok"}


def test_an_edit_of_zeros_is_a_no_op(odd):
    """In another batch its last bits may be other ones."""

    def zeros(edit):
        ((name, change),) = edit.weights.items()
        rows, columns = change.left.shape[0], change.right.shape[1]
        return Edit({name: Dense(torch.zeros(rows, columns))})

    records, _ = odd(zeros)
    assert [r.case for r in records.values() if r.noop] == ["Ann"]


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: (path / "cases.jsonl").unlink(),
        lambda path: (path / "cases.jsonl").write_text("{}\n"),
        lambda path: (path / "manifest.json").unlink(),
        lambda path: (path / "samples.jsonl").unlink(),
        lambda path: os.truncate(
            path / "samples.jsonl", (path / "samples.jsonl").stat().st_size - 9
        ),
    ],
)
def test_what_is_gone_is_written_or_run_again(assembled, harm):
    made, folder, _ = assembled()
    whole = run(made, folder).estimates
    harm(folder.path)
    again = made.open(folder.path.parent)
    assert run(made, again).estimates == whole


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
    "regime", [SINGLE, Regime("batch", 2), Regime("sequential", 2, immediate=True)], ids=str
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
