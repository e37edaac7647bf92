"""Weights that accelerate keeps on disk, as it does with a model that fits no device."""

import pytest
import torch
from test_base import QUERIES, low_rank
from test_packing import logprobs

from edit_harness import Generate, PluginError, Request
from edit_harness.digests import checksums
from edit_harness.edits import UNEDITED, Dense, Edit
from edit_harness.model import Model
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.ft import ConstrainedFineTuning
from edit_harness_plugins.editors.rome import Rome

REQUESTS = [[Request("{} lives in", "Ada", "Paris")], [Request("{} works at", "Bob", "Fiat")]]
EDITORS = [
    Rome(layer=0, steps=5, weight_decay=0.5, clamp=4.0, covariance=False,
         contexts=("{}", "It rains. {}")),
    ConstrainedFineTuning(layer=0, lr=1e-3, bias=False, steps=4, epsilon=2e-3),
]  # fmt: skip


@pytest.fixture(params=["gpt2", "llama"])
def both(request, tmp_path):
    """A model in memory, and the same with its weights on disk."""
    accelerate = pytest.importorskip("accelerate")
    model, other = tiny_model(request.param), tiny_model(request.param)
    accelerate.disk_offload(other.module, tmp_path, execution_device=torch.device("cpu"))
    assert all(p.is_meta for p in other.module.parameters())
    return model, Model(other.module, other.tokens.tokenizer)


def test_answers_are_the_same(both):
    model, offloaded = both
    edits = (UNEDITED, low_rank(model, 0), low_rank(model, 1))
    questions = [(edit, query) for query in QUERIES for edit in edits]
    one, other = (m.answer(questions) for m in both)
    torch.testing.assert_close(logprobs(one), logprobs(other), rtol=0, atol=1e-6)
    texts = [(edit, Generate("Ada lives in", 6)) for edit in edits]
    assert model.answer(texts) == offloaded.answer(texts)
    assert (offloaded.packs, offloaded.begins(1), offloaded.reruns(0, 8)) == (True, True, True)


@pytest.mark.parametrize("editor", EDITORS, ids=["rome", "ft-l"])
def test_searches_find_the_same(both, editor):
    one, other = (editor.edit_each(model, REQUESTS) for model in both)
    for mine, theirs in zip(one, other, strict=True):
        for name, delta in mine.weights.items():
            torch.testing.assert_close(delta.dense(), theirs.weights[name].dense())


def test_what_hooks_cannot_carry_is_refused(both):
    model, offloaded = both
    name = "transformer.wpe.weight"
    if not hasattr(model.module, "transformer"):
        name = "model.embed_tokens.weight"
    edit = Edit({name: Dense(torch.ones_like(model.parameter(name)))})
    with pytest.raises(PluginError, match=f"{name} is offloaded"):
        offloaded.answer([(edit, QUERIES[0])])
    assert checksums(offloaded.module) == {}
