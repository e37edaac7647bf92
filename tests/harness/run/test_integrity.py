"""Every editor that leaves something behind is caught and named, and no row that it spoilt counts."""

import json

import pytest
import torch
from support import saboteurs
from support.saboteurs import CAUGHT, PUT_BACK, Honest, saboteur
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from edit_harness import Case, Choose, Probe, Request
from edit_harness.errors import LeakError
from edit_harness.interfaces import ModelSource, Task
from edit_harness.registry.registry import Plugins
from edit_harness.run import evaluation, loop, plan
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.spec import RunSpec
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.run.local import turns

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
    """Chunks of two cases."""
    monkeypatch.setattr(plan, "CHUNKS", ((10**9, SIZE),))
    monkeypatch.setattr(nn.functional, "softmax", nn.functional.softmax)  # put back afterwards


@pytest.fixture
def assembled(tmp_path):
    """Return the evaluations of some editors on one tiny model, with their folders."""
    plugins, model = Plugins.installed(), tiny_model()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))

    def assembled(*editors):
        made = [evaluation.assemble(plugins, model, benchmark, RunSpec(e, Few())) for e in editors]
        return {e: e.open(tmp_path) for e in made}

    return assembled


def run(folders, advance=lambda e, record: None):
    return loop.run_all(folders, advance, turns=turns)


def statuses(folder):
    return {record.case: record.status for record in folder.records()}


def events(folder):
    return [json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """What an honest editor's rows say."""
    plugins, model = Plugins.installed(), tiny_model()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))
    made = evaluation.assemble(plugins, model, benchmark, RunSpec(Honest(), Few()))
    folder = made.open(tmp_path_factory.mktemp("clean"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNKS", ((10**9, SIZE),))
        loop.run_all({made: folder}, turns=turns)
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
    assert f"editor {harm.__name__} changed the model itself; not as before: {CAUGHT[harm]}" in (
        caught.value.cause
    )
    assert len(caught.value.cause) <= 160
    assert "\n" not in caught.value.cause + caught.value.remedy
    assert answers(folder) == {name: clean[name] for name in "0123"}


def test_what_no_reading_finds_is_shown_by_the_answers(assembled, clean):
    plain = dict(ALL_ATTENTION_FUNCTIONS)
    folders = assembled(saboteur(saboteurs.attends_otherwise))
    (folder,) = folders.values()
    try:
        with pytest.raises(LeakError, match="what it answers to a fixed text"):
            run(folders)
    finally:
        ALL_ATTENTION_FUNCTIONS.update(plain)
    assert answers(folder) == {name: clean[name] for name in "0123"}
    assert len(folder.samples.read_text().splitlines()) == 4, "nothing unverified was there"
    assert [event["what"] for event in events(folder) if event["kind"] == "leak"]


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
    assert answers(folder) == {name: clean[name] for name in "01234567"}


@pytest.mark.parametrize("harm", PUT_BACK, ids=lambda harm: harm.__name__)
def test_what_it_changes_in_the_process_is_put_back_and_noted_once(assembled, clean, harm):
    folders = assembled(saboteur(harm))
    (folder,) = folders.values()
    run(folders)
    assert answers(folder) == clean
    told = [event["text"] for event in events(folder) if event["kind"] == "note"]
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
    with pytest.raises(LeakError, match="not as before: the default dtype, while it was asked"):
        run(folders)
    assert torch.get_default_dtype() == torch.float32


def test_an_editor_beside_it_loses_nothing_and_is_charged_with_nothing(assembled, clean):
    folders = assembled(Honest(), saboteur(saboteurs.adds_in_place))
    honest, leaky = folders.values()
    with pytest.raises(LeakError, match="editor adds_in_place changed"):
        run(folders)
    assert set(statuses(honest).values()) == {"ok"}
    assert all(answers(honest)[name] == clean[name] for name in statuses(honest))
    assert set(statuses(leaky)).isdisjoint(LEAKED)
    fresh = {e: folder for e, folder in folders.items() if folder is honest}
    (only,) = fresh
    only.model = tiny_model()
    only.editor.value.prepare(only.model)
    run(fresh)
    assert answers(honest) == clean


def test_who_was_at_work_is_charged_though_no_reading_finds_it(assembled, clean):
    plain = dict(ALL_ATTENTION_FUNCTIONS)
    folders = assembled(Honest(), saboteur(saboteurs.attends_otherwise))
    try:
        with pytest.raises(LeakError, match="editor attends_otherwise changed") as caught:
            run(folders)
    finally:
        ALL_ATTENTION_FUNCTIONS.update(plain)
    assert "start the same command again" in caught.value.remedy
    honest, leaky = map(statuses, folders.values())
    assert set(honest.values()) == {"ok"}
    assert set(leaky).isdisjoint(LEAKED)


def test_what_raises_where_texts_are_asked_again_is_a_leak_too(assembled):
    def raises(model):
        def attend(*args, **kwargs):
            raise ValueError("no")

        ALL_ATTENTION_FUNCTIONS[model.module.config._attn_implementation] = attend

    plain = dict(ALL_ATTENTION_FUNCTIONS)
    folders = assembled(saboteur(raises))
    try:
        with pytest.raises(LeakError, match="what it answers to a fixed text"):
            run(folders)
    finally:
        ALL_ATTENTION_FUNCTIONS.update(plain)


def test_what_leaked_is_tried_again_by_the_same_command(assembled, clean):
    editor = saboteur(saboteurs.adds_in_place)
    folders = assembled(editor)
    ((only, folder),) = folders.items()
    with pytest.raises(LeakError):
        run(folders)
    only.model = tiny_model()
    only.editor.value.prepare(only.model)
    type(editor).harm = staticmethod(lambda model: None)
    (done,) = run(folders)
    assert answers(folder) == clean
    assert done.failures == []
    assert {r.attempt for r in folder.records()} == {1}
