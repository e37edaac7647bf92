"""Every editor on a model that is spread over devices, memory and disk, as on one device.

The devices are those of `logical`: what mixes them fails here as it would there.
"""

import itertools
from dataclasses import replace

import pytest
import torch
from support.oracles import logprobs
from support.queries import QUERIES, edits_of

pytest.importorskip("accelerate")

from support.logical import ONE, by_block, devices, spread

from edit_harness import Generate, Request
from edit_harness.edits import UNEDITED, Dense, Edit
from edit_harness.registry.settings import configure, shape_of
from edit_harness.run.integrity import ModelGuard
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search import suffix
from edit_harness_plugins.editors.covariance import collect, save
from edit_harness_plugins.editors.grace.grace import Grace
from edit_harness_plugins.editors.locate.alphaedit import AlphaEdit
from edit_harness_plugins.editors.locate.memit import Memit
from edit_harness_plugins.editors.locate.pmet import Pmet
from edit_harness_plugins.editors.locate.rome import Rome
from edit_harness_plugins.editors.memories.memoir import Memoir
from edit_harness_plugins.editors.tuning.ft import ConstrainedFineTuning, FineTuning
from edit_harness_plugins.editors.tuning.lora import Lora
from edit_harness_plugins.loading import trial

LAYERS = 3
PLACES = {
    "gpt2": ("cuda:1", "cuda:0", "cuda:1", "cuda:0"),
    "llama": ("cuda:0", "disk", "cuda:1", "cpu"),
}
"""Where what is of no block goes, and where each block."""
REQUESTS = [
    [Request("{} lives in", "Ada Lovelace", "Oslo")],
    [Request("The mother tongue of {} is", "Danielle", "French by birth")],
]
SEARCH = {"steps": 3, "weight_decay": 0.5, "clamp": 2.0, "contexts": ("{}", "It rains. {}")}
EDITORS = {
    "rome": Rome(layer=1, **SEARCH),
    "memit": Memit(layers=(0, 1), moment_weight=2.0, lr=0.5, **SEARCH),
    "alphaedit": AlphaEdit(layers=(0, 1), l2=0.01, threshold=0.3, lr=0.5, **SEARCH),
    "pmet": Pmet(layers=(0, 1), moment_weight=2.0, lr=0.5, **SEARCH),
    "ft": FineTuning(layer=1, lr=1e-3, steps=3, weight_decay=0.1, bias=True),
    "ft-l": ConstrainedFineTuning(layer=0, lr=1e-3, bias=False, steps=3, epsilon=2e-3),
    "lora": Lora(targets=(), steps=2, lr=1e-3, rank=2),
    "grace down": Grace(layer=1, module="down", steps=3, epsilon=1.0),
    "memoir": Memoir(layer=1, k=20, steps=3, threshold=0.3, background=4),
}


def tiny(family):
    return tiny_model(family, **{"n_layer" if family == "gpt2" else "num_hidden_layers": LAYERS})


def placed(family, folder):
    model = tiny(family)
    return spread(model, by_block(model, *PLACES[family]), folder)


def statistics(model, folder):
    """Second moments, made of a model on one device and stored under its digest."""
    texts = [f"Text {i} says that number {i * i} is the square of {i}." for i in range(20)]
    found = collect(model, texts, [0, 1], corpus="texts", max_tokens=2_000)
    save({n: replace(m, matrix=m.matrix + 0.01 * torch.eye(len(m.matrix))) for n, m in found.items()},
         folder / "moments.safetensors")  # fmt: skip


def editor_for(name, model, folder):
    editor = EDITORS[name]
    if hasattr(editor, "moments"):
        file = str(folder / "moments.safetensors")
        moments = file if isinstance(editor, Rome) else (file,)
        editor = replace(editor, moments=moments)
        if isinstance(editor, Rome):
            editor = replace(editor, covariance=True)
    editor = configure(editor, shape_of(model.module.config), name.split()[0]).editor
    editor.check(model)
    editor.prepare(model)
    return editor


def made_by(editor, model):
    """Return what the edits change, and what the model answers under them."""
    edits = editor.edit_each(model, REQUESTS)
    answers = model.answer([(edit, query) for query in QUERIES[::3] for edit in edits])
    texts = model.answer([(edit, Generate("Ada Lovelace lives in", 4)) for edit in edits])
    changes = [delta.dense().cpu() for edit in edits for delta in edit.weights.values()]
    return changes, logprobs(answers), texts


@pytest.fixture(scope="module")
def needed(tmp_path_factory):
    """Folders, by family, of what editors need."""
    folders = {family: tmp_path_factory.mktemp(family) for family in PLACES}
    for family, folder in folders.items():
        statistics(tiny(family), folder)
    return folders


@pytest.mark.parametrize(("name", "family"), [*zip(EDITORS, itertools.cycle(PLACES), strict=False)])
def test_editors_do_the_same_wherever_a_model_is(needed, name, family, tmp_path):
    model, folder = tiny(family), needed[family]
    expected = made_by(editor_for(name, model, folder), model)
    with devices():
        other = placed(family, tmp_path)
        witness = ModelGuard(other)
        found = made_by(editor_for(name, other, folder), other)
        witness.verify()
        assert other.packs
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=1e-5)
    assert found[2] == expected[2]


@pytest.mark.parametrize("family", PLACES)
def test_every_kind_of_edit(family, tmp_path):
    model = tiny(family)
    name, embeddings = next(model.module.named_parameters())
    of_embeddings = Edit({name: Dense(0.1 * torch.ones_like(embeddings))})
    edits = [UNEDITED, *edits_of(model).values(), of_embeddings]
    questions = [(edit, query) for query in QUERIES[::3] for edit in edits]
    texts = [(edit, Generate("Ada lives in", 4)) for edit in edits]
    with devices():
        other = placed(family, tmp_path)
        assert (other.device, other.size, other.digest) == (ONE, model.size, model.digest)
        witness = ModelGuard(other)
        found, written = other.answer(questions), other.answer(texts)
        witness.verify()
        trial.check_batches(other)
        assert other.packs
        assert other.starts_at(1)
        assert suffix.fits_suffix(other, 1, 8)
    expected = logprobs(model.answer(questions))
    torch.testing.assert_close(logprobs(found), expected, rtol=0, atol=1e-5)
    assert written == model.answer(texts)
