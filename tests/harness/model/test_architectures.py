import pytest
import torch
from transformers import BertConfig, BertLMHeadModel

from edit_harness import DataError, PluginError
from edit_harness.model.architecture import Architecture
from edit_harness.testing.tiny import CONFIGS, randomize, tiny_model, tiny_module

# Family, its blocks, the projection in a block, the keys' width, and the flags.
TABLE = [
    ("gpt2", "transformer.h", "mlp.c_proj", 128, ()),
    ("gpt_neo", "transformer.h", "mlp.c_proj", 128, ()),
    ("gptj", "transformer.h", "mlp.fc_out", 128, ()),
    ("gpt_neox", "gpt_neox.layers", "mlp.dense_4h_to_h", 64, ()),
    ("opt", "model.decoder.layers", "fc2", 64, ()),
    ("bloom", "transformer.h", "mlp.dense_4h_to_h", 128, ()),
    ("falcon", "transformer.h", "mlp.dense_4h_to_h", 64, ()),
    ("llama", "model.layers", "mlp.down_proj", 64, ()),
    ("gemma", "model.layers", "mlp.down_proj", 64, ()),
    ("gemma2", "model.layers", "mlp.down_proj", 64, ("post_norm",)),
    ("olmo2", "model.layers", "mlp.down_proj", 64, ("post_norm",)),
    ("phi", "model.layers", "mlp.fc2", 64, ()),
    ("starcoder2", "model.layers", "mlp.c_proj", 64, ()),
]


@pytest.mark.parametrize(("family", "blocks", "down", "width", "flags"), TABLE)
def test_the_parts_of_every_family(family, blocks, down, width, flags):
    module = tiny_module(
        family, vocab_size=300, **CONFIGS["llama" if family == "starcoder2" else family]
    )
    found = Architecture(module)
    hidden = module.config.hidden_size
    assert found.layers == 2
    assert found.blocks == (f"{blocks}.0", f"{blocks}.1")
    assert found.block(1) is module.get_submodule(f"{blocks}.1")
    for layer in range(2):
        projection = found.projection(layer)
        assert projection.name == f"{blocks}.{layer}.{down}"
        assert projection.matrix.shape == (width * hidden // 32, hidden)
    assert found.head is module.get_output_embeddings()
    assert found.flags == flags
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe"])
def test_a_mixture_of_experts_has_no_projection_but_answers(family):
    found = tiny_model(family).architecture
    assert found.flags == ()
    for part in (found.mlp, found.projection):
        with pytest.raises(PluginError, match=f"no MLP output projection .* {family} model") as e:
            part(0)
    assert e.value.code == 3
    assert e.value.remedy


def bert(**options):
    config = BertConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, **options,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BertLMHeadModel(config).eval()


@pytest.mark.parametrize("random", [True, False])
def test_a_model_that_sees_later_tokens_is_refused(random):
    module, decoder = bert(is_decoder=False), bert(is_decoder=True)
    if random:
        randomize(module)
        randomize(decoder)
        found = Architecture(decoder)
        assert found.blocks == ("bert.encoder.layer.0", "bert.encoder.layer.1")
    with pytest.raises(DataError, match="not causal") as e:
        Architecture(module)
    assert e.value.code == 4
    assert "causal language model" in e.value.remedy


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["a projection", "one row of the vocabulary"])
def test_broken_weights_are_refused(place, value):
    module = tiny_module("gpt2", vocab_size=300)
    projection = Architecture(module).projection(1).module.weight
    with torch.no_grad():
        (projection if place == "a projection" else module.lm_head.weight)[-1, 5] = value
    with pytest.raises(DataError, match="NaN or infinity before any edit") as e:
        Architecture(module)
    assert "--dtype float32" in e.value.remedy


def test_a_model_without_a_head_is_refused():
    with pytest.raises(DataError, match="no language-model head"):
        Architecture(tiny_module("gpt2", vocab_size=300).transformer)
