"""Weights that accelerate keeps on disk, as it does with a model that fits no device."""

from contextlib import nullcontext

import pytest
import torch
from support.editors import stored_model
from support.oracles import logprobs
from support.queries import QUERIES

from edit_harness import Generate, ModelSource, PluginError, Request
from edit_harness.api import save_model
from edit_harness.edits import UNEDITED, Dense, Edit
from edit_harness.errors import LeakError
from edit_harness.model import weights
from edit_harness.model.model import Model
from edit_harness.run.integrity import ModelGuard
from edit_harness.testing import tiny_model
from edit_harness_plugins.loading.load import load
from edit_harness_plugins.loading.placement import described

REQUESTS = [[Request("{} lives in", "Ada", "Paris")], [Request("{} works at", "Bob", "Fiat")]]


@pytest.fixture(params=["gpt2", "llama"])
def both(request, tmp_path):
    """A model in memory, and the same with its weights on disk."""
    accelerate = pytest.importorskip("accelerate")
    model, other = tiny_model(request.param), tiny_model(request.param)
    accelerate.disk_offload(other.module, tmp_path, execution_device=torch.device("cpu"))
    assert all(p.is_meta for p in other.module.parameters())
    return model, Model(other.module, other.tokens.tokenizer)


def assert_same_answers(both, questions):
    one, other = (model.answer(questions) for model in both)
    torch.testing.assert_close(logprobs(one), logprobs(other), rtol=0, atol=1e-6)


def embedding(model):
    return next(name for name, _ in model.module.named_parameters())


def change_of(model, name):
    return Edit({name: Dense(0.1 * torch.ones_like(model.parameter(name)))})


@pytest.mark.parametrize("head", [False, True])
def test_what_hooks_cannot_carry_is_stood_in_for(both, head):
    """GPT-2's head is its embedding, so that an edit of either is one of both."""
    model, offloaded = both
    name = "lm_head.weight" if head else embedding(model)
    down = f"{model.architecture.projection(0).name}.weight"
    edit = change_of(model, name) + change_of(model, down)
    witness = ModelGuard(offloaded)
    with offloaded.applied(edit):
        assert torch.equal(offloaded.parameter(name), model.parameter(name) + 0.1)
    witness.verify()
    assert_same_answers(both, [(each, query) for query in QUERIES for each in (UNEDITED, edit)])
    texts = [(edit, Generate("Ada lives in", 6))]
    assert model.answer(texts) == offloaded.answer(texts)
    witness.verify()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_an_edited_model_is_saved_whole(family, tmp_path):
    pytest.importorskip("accelerate")
    source = ModelSource(str(stored_model(tiny_model(family), tmp_path / "tiny")))
    one = load(source, device="cpu")
    other = load(source, device_map="auto", max_memory=f"cpu:{one.size * 4 // 2000}KB")
    assert (one.digest, one.size) == (other.digest, other.size)
    assert "disk (" in described(other)
    edit = change_of(one, embedding(one))
    for number, each in enumerate((one, other)):
        save_model(each, edit, tmp_path / str(number))
    mine, theirs = (load(ModelSource(str(tmp_path / n)), device="cpu").module for n in "01")
    assert weights.of_module(mine) == weights.of_module(theirs)
    assert weights.of_module(mine) != weights.of_module(one.module)


def test_weights_are_read_where_they_are_kept_and_what_may_have_no_effect_is_refused(both):
    model, offloaded = both
    name, request = embedding(model), REQUESTS[0][0]
    patched = Edit(patch=lambda module: nullcontext())
    assert model.answer([(patched, QUERIES[0])])
    with pytest.raises(PluginError, match="is offloaded, so that a patch") as caught:
        offloaded.answer([(patched, QUERIES[0])])
    assert "--device cpu" in caught.value.remedy
    with pytest.raises(PluginError, match=f"{name} is offloaded, so that it has no gradient"):
        offloaded.nll([request], {name: model.parameter(name)})
    assert weights.of_module(offloaded.module) == weights.of_module(model.module)
    assert (offloaded.size, offloaded.architecture.hookable) == (
        model.size,
        model.architecture.hookable,
    )
    assert (described(model), described(offloaded)) == ("cpu", "spread over disk (2 blocks)")
    for own, parameter in model.module.named_parameters():
        assert torch.equal(offloaded.parameter(own), parameter)


DOWN = "model.layers.1.mlp.down_proj"


def a_file_written(module, folder):
    with (folder / f"{DOWN}.weight.dat").open("r+b") as file:
        file.write(b"other")


def another_map(module, folder):
    hook = module.get_submodule(DOWN)._hf_hook
    hook.weights_map = {"weight": hook.weights_map["weight"] + 1}


def weights_in_memory(module, folder):
    module.get_submodule(DOWN)._hf_hook.weights_map["weight"][0, 0] += 1


def a_file_removed(module, folder):
    (folder / f"{DOWN}.weight.dat").unlink()


LEAKS = {
    "a file written": ("disk", a_file_written, "weights"),
    "a file removed": ("disk", a_file_removed, "weights"),
    "another map": ("disk", another_map, "weights .* and 1 more"),
    "weights in memory": ("cpu", weights_in_memory, "weights"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_what_is_left_in_offloaded_weights_is_seen(leak, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    place, change, what = LEAKS[leak]
    model = tiny_model("llama")
    if place == "disk":
        accelerate.disk_offload(model.module, tmp_path, torch.device("cpu"))
    else:
        accelerate.cpu_offload(model.module, torch.device("cpu"))
    witness = ModelGuard(model)
    witness.verify()
    change(model.module, tmp_path)
    with pytest.raises(LeakError, match=what):
        witness.check()


def test_a_weight_that_is_nowhere(model):
    model.module.get_submodule("lm_head").to("meta")
    with pytest.raises(PluginError, match=r"lm_head\.weight is on no device"):
        model.parameter("lm_head.weight")
