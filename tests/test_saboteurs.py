"""Every editor that leaves something behind is caught and named, and no row that it spoilt counts."""

import json

import pytest
import saboteurs
import torch
from saboteurs import CAUGHT, PUT_BACK, Honest, saboteur
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from edit_harness import Case, Choose, Probe, Request, evaluation, runner, witness
from edit_harness.assembly import make_benchmark
from edit_harness.beside import Care
from edit_harness.errors import LeakError
from edit_harness.interfaces import ModelSource, Task
from edit_harness.plugins import Plugins
from edit_harness.testing import tiny_model

COUNT, SIZE = 10, 2
LEAKED = ["4", "5"]
"""The chunk with the case at which harm is done."""


class Few(Task):
    """Ten cases that a tiny model can be asked."""

    metrics = ("success",)

    def cases(self):
        for i in range(COUNT):
            request = Request("{} lives in", f"Case {i}", "Paris", "Rome")
            yield Case(
                str(i), (request,), (Probe("efficacy", Choose(request.text, ("Paris", "Rome"))),)
            )


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of two cases, and answers compared after four records, so that there is what to withdraw."""
    monkeypatch.setattr(runner, "CHUNKS", ((10**9, SIZE),))
    monkeypatch.setattr(witness, "EVERY", 4)
    monkeypatch.setattr(nn.functional, "softmax", nn.functional.softmax)  # put back afterwards


@pytest.fixture
def assembled(tmp_path):
    """Return the evaluations of some editors on one tiny model, with their folders."""
    plugins, model = Plugins.installed(), tiny_model()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))

    def assembled(*editors):
        made = [
            evaluation.assemble(plugins, model, benchmark, editor=e, editor_args={})
            for e in editors
        ]
        return {e: e.open(tmp_path) for e in made}

    return assembled


def run(folders, care=None, advance=lambda e, record: None):
    return evaluation.run_beside(folders, advance, care or Care())


def statuses(folder):
    return {record.case: record.status for record in folder.records()}


def events(folder):
    return [json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """What an honest editor's rows say."""
    plugins, model = Plugins.installed(), tiny_model()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))
    made = evaluation.assemble(plugins, model, benchmark, editor=Honest(), editor_args={})
    folder = made.open(tmp_path_factory.mktemp("clean"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "CHUNKS", ((10**9, SIZE),))
        made.run(folder)
    return answers(folder)


def answers(folder):
    return {record.case: (record.before, record.after) for record in folder.records()}


@pytest.mark.parametrize("harm", CAUGHT, ids=lambda harm: harm.__name__)
def test_what_it_leaves_is_named_and_none_of_its_rows_counts(assembled, clean, harm):
    editor = saboteur(harm)
    folders = assembled(editor)
    (folder,) = folders.values()
    with pytest.raises(LeakError) as caught:
        run(folders)
    assert caught.value.code == 3
    assert f"editor {harm.__name__} changed the model itself: {CAUGHT[harm]}" in caught.value.cause
    assert "\n" not in caught.value.cause + caught.value.remedy
    assert [name for name, status in statuses(folder).items() if status == "leak"] == LEAKED
    kept = {name: rest for name, rest in answers(folder).items() if name not in LEAKED}
    assert kept == {name: clean[name] for name in ("0", "1", "2", "3")}


def test_what_no_reading_finds_is_shown_by_the_answers(assembled, clean):
    """Chunks 0-1, 2-3 are verified together; 4-5 and 6-7 are at work when it shows."""
    plain = dict(ALL_ATTENTION_FUNCTIONS)
    folders = assembled(saboteur(saboteurs.attends_otherwise))
    (folder,) = folders.values()
    try:
        with pytest.raises(LeakError, match="what it answers to a fixed text"):
            run(folders)
    finally:
        ALL_ATTENTION_FUNCTIONS.update(plain)
    found = statuses(folder)
    assert [name for name, status in found.items() if status == "leak"] == ["4", "5", "6", "7"]
    assert all(answers(folder)[name] == clean[name] for name in "0123")
    rows = [json.loads(line) for line in folder.samples.read_text().splitlines()]
    assert [row["withdraws"] for row in rows if "withdraws" in row] == [[4, 7]]
    assert any(event.get("withdrawn") == 4 for event in events(folder))


def test_a_thread_that_changes_weights_later_is_caught_when_it_has(assembled, clean):
    saboteurs.GO.clear()
    saboteurs.GONE.clear()

    def advance(evaluation, record):
        if record.case == "7":
            saboteurs.GO.set()
            assert saboteurs.GONE.wait(30)

    folders = assembled(saboteur(saboteurs.changes_weights_later))
    (folder,) = folders.values()
    with pytest.raises(LeakError, match=r"weights \(transformer"):
        run(folders, advance=advance)
    assert any("a thread, sleeper" in event.get("text", "") for event in events(folder))
    assert all(answers(folder)[name] == clean[name] for name in "0123")
    assert {status for name, status in statuses(folder).items() if name > "3"} == {"leak"}


@pytest.mark.parametrize("harm", PUT_BACK, ids=lambda harm: harm.__name__)
def test_what_it_changes_in_the_process_is_put_back_and_noted_once(assembled, clean, harm):
    folders = assembled(saboteur(harm))
    (folder,) = folders.values()
    run(folders)
    assert answers(folder) == clean
    told = [event["text"] for event in events(folder) if event["event"] == "note"]
    assert told == [f"the editor changed {name}, which was put back" for name in PUT_BACK[harm]]
    assert folder.notes == told


def test_what_an_edit_changes_in_the_process_while_it_is_asked_is_a_leak(assembled):
    """Its own code, an adaptor, runs among the passes: they may have been other ones."""

    class Adapts(Honest):
        def edit(self, model, requests):
            def adapt(inputs, outputs, rows):
                torch.set_default_dtype(torch.float64)
                return outputs

            return super().edit(model, requests) + type(super().edit(model, requests))(
                {}, {model.architecture.projection(1).name: adapt}
            )

    folders = assembled(Adapts())
    with pytest.raises(LeakError, match="while it was asked, the default dtype is not as it was"):
        run(folders)
    assert torch.get_default_dtype() == torch.float32


def test_an_editor_beside_it_loses_what_is_not_verified_and_is_charged_with_nothing(
    assembled, clean
):
    folders = assembled(Honest(), saboteur(saboteurs.adds_in_place))
    honest, leaky = folders.values()
    with pytest.raises(LeakError, match="editor adds_in_place changed"):
        run(folders)
    assert set(statuses(honest).values()) == {"ok"}
    assert all(answers(honest)[name] == clean[name] for name in statuses(honest))
    assert {n for n, s in statuses(leaky).items() if s == "leak"} == set(LEAKED)
    fresh = {e: folder for e, folder in folders.items() if folder is honest}
    (only,) = fresh
    only.turn_to(tiny_model())
    run(fresh)
    assert answers(honest) == clean


def test_nobody_is_charged_if_it_may_be_either(assembled, clean):
    plain = dict(ALL_ATTENTION_FUNCTIONS)
    folders = assembled(Honest(), saboteur(saboteurs.attends_otherwise))
    try:
        with pytest.raises(LeakError, match="one of honest, attends_otherwise changed") as caught:
            run(folders, Care(reload=tiny_model))
    finally:
        ALL_ATTENTION_FUNCTIONS.update(plain)
    assert "run them one by one" in caught.value.remedy
    for folder in folders.values():
        assert set(statuses(folder).values()) <= {"ok"}
        assert all(answers(folder)[name] == clean[name] for name in statuses(folder))


def test_with_the_model_loaded_anew_all_others_are_measured(assembled, clean):
    folders = assembled(Honest(), saboteur(saboteurs.adds_in_place))
    honest, leaky = folders.values()
    runs = run(folders, Care(reload=tiny_model))
    assert answers(honest) == clean
    assert [n for n, s in statuses(leaky).items() if s == "leak"] == LEAKED
    assert all(answers(leaky)[n] == clean[n] for n in clean if n not in LEAKED)
    assert [len(r.failures) for r in runs] == [0, 2]
    assert any("loaded anew" in event.get("text", "") for event in events(leaky))


def test_a_model_loaded_anew_must_answer_as_the_first_one(assembled):
    """What is wrong with the process stays so."""
    plain = dict(ALL_ATTENTION_FUNCTIONS)
    folders = assembled(saboteur(saboteurs.attends_otherwise))
    try:
        with pytest.raises(LeakError, match="what it answers after it was loaded again"):
            run(folders, Care(reload=tiny_model))
    finally:
        ALL_ATTENTION_FUNCTIONS.update(plain)


def test_rows_that_a_leak_spoilt_are_withdrawn_though_the_run_ends_for_another_reason(assembled):
    plain = dict(ALL_ATTENTION_FUNCTIONS)
    folders = assembled(saboteur(saboteurs.attends_otherwise))
    (folder,) = folders.values()

    def advance(evaluation, record):
        if record.case == "5":
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            run(folders, advance=advance)
    finally:
        ALL_ATTENTION_FUNCTIONS.update(plain)
    assert {n: s for n, s in statuses(folder).items() if s == "leak"} == {"4": "leak", "5": "leak"}


def test_a_leak_is_tried_again_on_demand(assembled, clean):
    """The last row of a visit counts; the first one stays in the file."""
    editor = saboteur(saboteurs.adds_in_place)
    folders = assembled(editor)
    ((only, folder),) = folders.items()
    with pytest.raises(LeakError):
        run(folders)
    only.turn_to(tiny_model())
    type(editor).harm = staticmethod(lambda model: None)
    (done,) = run(folders, Care(retry=True))
    assert answers(folder) == clean
    assert done.failures == []
    assert {r.case: r.attempt for r in folder.records() if r.attempt > 1} == {"4": 2, "5": 2}
