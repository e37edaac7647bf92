"""Every editor that leaves something behind is caught and named, and no row that it spoilt counts."""

import pytest
import torch
from support import saboteurs
from support.saboteurs import CAUGHT, PUT_BACK, Honest, evaluation_of, saboteur
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from edit_harness.edits import Edit
from edit_harness.errors import LeakError
from edit_harness.run import loop, plan
from edit_harness.run.integrity import ModelGuard
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.run.local import turns

LEAKED = ["Ann", "Danielle"]
"""The chunk with the case at which harm is done."""


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """Chunks of two cases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNKS", ((10**9, 2),))
        yield


@pytest.fixture(autouse=True)
def computing(monkeypatch):
    """What models compute with is put back."""
    plain = dict(ALL_ATTENTION_FUNCTIONS)
    monkeypatch.setattr(nn.functional, "softmax", nn.functional.softmax)
    yield
    ALL_ATTENTION_FUNCTIONS.update(plain)


@pytest.fixture
def assembled(tmp_path):
    """Return the evaluations of some editors on one tiny model, with their folders."""

    def assembled(*editors):
        model = tiny_model()
        return {made: made.open(tmp_path) for made in (evaluation_of(e, model) for e in editors)}

    return assembled


def run(folders, advance=lambda e, record: None):
    return loop.run_all(folders, advance, turns=turns)


def go_on(folders):
    """Start the same command again, with a model that nobody has touched."""
    for made in folders:
        made.model = tiny_model()
        made.editor.value.prepare(made.model)
    return run(folders)


def statuses(folder):
    return {record.case: record.status for record in folder.records()}


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """What an honest editor's rows say."""
    made = evaluation_of(Honest(), tiny_model())
    folder = made.open(tmp_path_factory.mktemp("clean"))
    run({made: folder})
    return answers(folder)


def answers(folder):
    return {record.case: (record.before, record.after) for record in folder.records()}


@pytest.mark.parametrize("harm", CAUGHT, ids=lambda harm: harm.__name__)
def test_what_is_left_behind_is_named(model, harm):
    witness = ModelGuard(model)
    witness.check()
    harm(model)
    with pytest.raises(LeakError) as caught:
        witness.check()
    assert CAUGHT[harm] in caught.value.cause


def test_the_editor_that_leaves_something_is_named_and_none_of_its_rows_counts(assembled, clean):
    """The same command goes on, once it is mended."""
    editor = saboteur(saboteurs.adds_in_place)
    folders = assembled(editor)
    (folder,) = folders.values()
    with pytest.raises(LeakError) as caught:
        run(folders)
    assert caught.value.code == 3
    left = CAUGHT[saboteurs.adds_in_place]
    told = f"editor adds_in_place changed the model itself; not as before: {left}"
    assert told in caught.value.cause
    assert answers(folder) == {name: clean[name] for name in ("Ada", "Bob")}
    type(editor).harm = staticmethod(lambda model: None)
    (done,) = go_on(folders)
    assert answers(folder) == clean
    assert done.failures == []
    assert {r.attempt for r in folder.records()} == {1}


def attends_with_an_error(model):
    def attend(*args, **kwargs):
        raise ValueError("no")

    ALL_ATTENTION_FUNCTIONS[model.module.config._attn_implementation] = attend


@pytest.mark.parametrize("harm", [saboteurs.attends_otherwise, attends_with_an_error])
def test_what_no_reading_finds_is_shown_by_the_answers(assembled, clean, harm):
    folders = assembled(saboteur(harm))
    (folder,) = folders.values()
    with pytest.raises(LeakError, match="what it answers to a fixed text"):
        run(folders)
    assert answers(folder) == {name: clean[name] for name in ("Ada", "Bob")}
    assert len(folder.samples.read_text().splitlines()) == 2, "nothing unverified was there"


@pytest.mark.parametrize("harm", PUT_BACK, ids=lambda harm: harm.__name__)
def test_what_it_changes_in_the_process_is_put_back_and_noted_once(assembled, clean, harm):
    folders = assembled(saboteur(harm))
    (folder,) = folders.values()
    run(folders)
    assert answers(folder) == clean
    assert folder.notes == [
        f"the editor changed {name}, which was put back" for name in PUT_BACK[harm]
    ]


def test_what_an_edit_changes_in_the_process_while_it_is_asked_is_a_leak(assembled):
    """Its own code, an adaptor, runs among the passes: they may have been other ones."""

    class Adapts(Honest):
        def edit(self, model, requests):
            def adapt(inputs, outputs, rows):
                torch.set_default_dtype(torch.float64)
                return outputs

            adaptors = {model.architecture.projection(1).name: adapt}
            return super().edit(model, requests) + Edit(adaptors=adaptors)

    with pytest.raises(LeakError, match="not as before: the default dtype, while it was asked"):
        run(assembled(Adapts()))
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("harm", [saboteurs.adds_in_place, saboteurs.attends_otherwise])
def test_an_editor_beside_it_loses_nothing_and_is_charged_with_nothing(assembled, clean, harm):
    folders = assembled(Honest(), saboteur(harm))
    honest, leaky = folders.values()
    with pytest.raises(LeakError, match=f"editor {harm.__name__} changed") as caught:
        run(folders)
    assert "start the same command again" in caught.value.remedy
    assert set(statuses(honest).values()) == {"ok"}
    assert all(answers(honest)[name] == clean[name] for name in statuses(honest))
    assert set(statuses(leaky)).isdisjoint(LEAKED)
    if harm is saboteurs.adds_in_place:
        go_on({made: folder for made, folder in folders.items() if folder is honest})
        assert answers(honest) == clean
