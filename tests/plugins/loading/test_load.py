"""Models from folders and from the hub: what loads, and what is refused with cause and remedy."""

import json
import re
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.complaints import configure, refusal
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

from edit_harness import Choose, DataError, ModelSource, ResourceError, UsageError
from edit_harness.edits import UNEDITED
from edit_harness.testing.tiny import tiny_model, tiny_tokenizer
from edit_harness_plugins.loading import load as loading_module
from edit_harness_plugins.loading.checkpoint import digest_of
from edit_harness_plugins.loading.load import load

WEIGHTS = "model.safetensors"
PROJECTION = "transformer.h.1.mlp.c_proj.weight"


def save(module, folder, kind="gpt2"):
    module.save_pretrained(folder)
    tiny_tokenizer(kind).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(tiny_model().module, tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of a good model, to damage."""
    return Path(shutil.copytree(saved, tmp_path / "tiny"))


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", pytest.fail)
    monkeypatch.setattr(socket, "getaddrinfo", pytest.fail)


def loaded(path, **options):
    return load(ModelSource(str(path)), **{"device": "cpu", **options})


def change_weights(folder, change):
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


# What loads.


@pytest.mark.parametrize(("family", "kind"), [("gpt2", "gpt2"), ("llama", "llama3")])
def test_a_saved_model_answers_as_before(tmp_path, family, kind):
    model = tiny_model(family)
    query = Choose("Ada lives in", ("Paris", "Zürich"))
    again = loaded(save(model.module, tmp_path, kind))
    assert again.answer([(UNEDITED, query)]) == model.answer([(UNEDITED, query)])
    assert not again.module.training


@pytest.mark.parametrize("dtype", loading_module.DTYPES)
def test_the_precision_is_the_one_that_was_asked_for(saved, dtype, tmp_path):
    model = loaded(saved, dtype=dtype, batch_rows=3)
    assert {p.dtype for p in model.module.parameters()} == {getattr(torch, dtype)}
    assert model.batch_rows == 3
    assert loaded(save(model.module, tmp_path)).dtype == torch.float32, "not that of the file"


def test_a_checkpoint_without_its_tied_head_is_whole(tmp_path):
    model = tiny_model()
    again = loaded(save(model.module.transformer, tmp_path))
    assert torch.equal(again.module.lm_head.weight, model.module.lm_head.weight)


def test_the_digest_is_of_the_files_and_not_of_the_precision(saved, folder):
    digest = loaded(saved).digest
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert loaded(folder, dtype="bfloat16").digest == digest
    change_weights(folder, lambda tensors: tensors[PROJECTION][0].add_(1))
    assert loaded(folder).digest != digest


def index(folder, file):
    """Have an index name the file that all weights are in, beside one that is none of the model."""
    names = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).rename(folder / file)
    said = {"metadata": {}, "weight_map": dict.fromkeys(names, file)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(said))
    save_file({"x": torch.ones(1)}, folder / "model_decoy.safetensors")
    return folder / file


def test_the_digest_is_of_the_files_that_are_loaded(folder):
    """Item 5 of issue I: a decoy beside them is none, and so is a commit that a folder claims."""
    file = index(folder, "weights-1.safetensors")
    configure(folder, _commit_hash="0" * 40)
    digest = loaded(folder).digest
    (folder / "model_decoy.safetensors").unlink()
    assert loaded(folder).digest == digest
    tensors = load_file(file)
    tensors[PROJECTION].zero_()
    save_file(tensors, file, {"format": "pt"})
    assert loaded(folder).digest != digest


def test_a_missing_shard_is_named(folder):
    """A stranger's review of issue 18."""
    index(folder, "w.safetensors").unlink()
    assert "w.safetensors" in refusal(folder)


# What is refused.


BERT = BertConfig(
    vocab_size=402, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)
T5 = T5Config(vocab_size=402, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: BertForMaskedLM(BERT), "masked language model (BertForMaskedLM)"),
        (
            lambda: T5ForConditionalGeneration(T5),
            "encoder-decoder model (T5ForConditionalGeneration)",
        ),
        (lambda: tiny_model("llama").module.model, "lacks 1 weights"),
    ],
    ids=["masked", "encoder and decoder", "without its untied head"],
)
def test_models_that_are_not_causal_language_models(tmp_path, make, cause):
    assert cause in refusal(save(make(), tmp_path))


@pytest.mark.parametrize(
    ("entries", "removed", "cause"),
    [
        ({"n_layer": 3}, [], "lacks 12 weights of a causal language model: transformer.h.2.attn"),
        ({"n_layer": 1}, [], "weights of layers that its config.json lacks: transformer.h.1.attn"),
        ({"vocab_size": 100}, [], "lacks 1 weights of a causal language model: transformer.wte"),
        ({}, [PROJECTION], f"lacks 1 weights of a causal language model: {PROJECTION}"),
    ],
)
def test_weights_and_configuration_that_do_not_belong_together(folder, entries, removed, cause):
    configure(folder, **entries)
    change_weights(folder, lambda tensors: [tensors.pop(name) for name in removed])
    assert cause in refusal(folder)


NO_MODEL = "MODEL is no causal language model that can be loaded"
NOTHING = (b"{", b"[]", b'{"model_type": "unheard-of"}')


@pytest.mark.parametrize(
    ("files", "damaged", "cause"),
    [
        ("config.json", None, "has no config.json"),
        *(("config.json", lambda old, text=text: text, NO_MODEL) for text in NOTHING),
        (WEIGHTS, None, "no weights in safetensors | convert them with save_pretrained"),
        (WEIGHTS, lambda old: b"<html>not found</html>" * 9, "the weights in MODEL are damaged"),
        (WEIGHTS, lambda old: old[:-1000], "the weights in MODEL are damaged"),
        ("tokenizer*", None, "MODEL has no tokenizer"),
        ("tokenizer.json", lambda old: b"{", "the tokenizer of MODEL cannot be loaded"),
    ],
)
def test_a_file_that_is_missing_or_damaged(folder, files, damaged, cause):
    for path in folder.glob(files):
        content = path.read_bytes()
        path.unlink()
        if damaged:
            path.write_bytes(damaged(content))
    assert cause in refusal(folder)


def test_weights_that_no_layer_is_for_are_left_over(folder):
    """Old checkpoints carry masks and the like."""
    extra = {"transformer.h.0.attn.masked_bias": torch.ones(1)}
    change_weights(folder, lambda tensors: tensors.update(extra))
    assert loaded(folder).architecture.layers == 2


def test_a_tokenizer_that_panics_when_it_is_loaded(folder):
    """Item 18 of issue I: a panic is no `Exception`."""
    broken = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    configure(folder, "tokenizer.json", normalizer=broken)
    assert "the tokenizer of MODEL cannot be loaded: Precompiled" in refusal(folder)


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("{{ 'a' * 10**15 }}", "MemoryError"),
        ("{% for", "TemplateSyntaxError"),
        ("{{ raise_exception('only\n pictures') }}", "TemplateError: only pictures"),
    ],
)
def test_a_chat_template_that_cannot_be_rendered(folder, template, cause):
    (folder / "chat_template.jinja").write_text(template)
    assert loaded(folder)
    with pytest.raises(DataError, match=f"chat template cannot be rendered: {cause}"):
        loaded(folder, chat_template=True)


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        (
            {"dtype": "int8"},
            "there is no dtype 'int8'",
            "float32, float64, bfloat16, float16, tf32",
        ),
        ({"dtype": "tf32"}, "tf32 is a precision of CUDA devices, and this one is cpu", ""),
        ({"device": "nonsense"}, "the device 'nonsense' cannot be used: ", "try --device cpu"),
        ({"device": "cuda:99"}, "the device 'cuda:99' cannot be used: ", "try --device cpu"),
        (
            {"device": "auto", "device_map": "auto"},
            "a device map needs accelerate",
            "pip install 'edit-harness[device-map]'",
        ),
    ],
)
def test_a_precision_or_a_device_that_there_is_not(saved, options, cause, remedy, monkeypatch):
    if "device_map" in options:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refusal(saved, UsageError, **options)
    assert said.startswith(cause)
    assert said.endswith(remedy)
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_model_that_does_not_fit(saved, monkeypatch):
    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    for step in ("to", "from_pretrained"):
        with monkeypatch.context() as patch:
            patch.setattr(GPT2LMHeadModel, step, full)
            assert "MODEL does not fit the memory of cpu" in refusal(saved, ResourceError)


# The hub, without a network.


def test_a_hub_without_an_address_is_not_asked(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(loading_module, "unknown_host", lambda url: "huggingface.co")
    monkeypatch.setattr("huggingface_hub.file_download.get_hf_file_metadata", pytest.fail)
    assert "MODEL is neither a folder nor in the cache" in refusal("org/no-such-model")


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("org/name is not a valid model identifier", "the hub has no model MODEL"),
        ("abc is not a valid git identifier", "the hub has no such revision of MODEL"),
        ("You are trying to access a gated repo. 401 Client Error", "the hub refuses MODEL"),
        (
            "org/name does not appear to have a file named model.safetensors",
            "MODEL lacks a file, such as weights in safetensors",
        ),
        ("We couldn't connect to 'https://huggingface.co'", "MODEL is neither a folder nor in the"),
    ],
)
def test_what_the_hub_answers(message, cause, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(message)

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(loading_module, "unknown_host", lambda url: "")
    monkeypatch.setattr(loading_module.PreTrainedConfig, "get_config_dict", fail)
    assert refusal("org/name").startswith(cause)


@pytest.mark.parametrize("name", ["./here", "/abs/olute", "~/home", "a/b/c"])
def test_what_looks_like_a_folder_never_goes_to_the_hub(name, monkeypatch):
    monkeypatch.setattr(loading_module.PreTrainedConfig, "get_config_dict", pytest.fail)
    assert "the model folder MODEL does not exist" in refusal(name)


def test_a_hub_model_has_the_digest_of_its_commit_and_is_refused_at_once_when_offline(monkeypatch):
    config = SimpleNamespace(_commit_hash="abc")
    first = digest_of("org/name", config)
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first != digest_of("org/other", config)
    assert first != digest_of("org/name", SimpleNamespace(_commit_hash="abd"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "MODEL is not in the cache and HF_HUB_OFFLINE=1" in refusal("org/no-such-model")


@pytest.mark.parametrize(("given", "threads"), [("", 1), ("3", 2)])
def test_small_models_get_one_thread_unless_the_user_says_otherwise(
    saved, monkeypatch, given, threads
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    torch.set_num_threads(2)
    try:
        loaded(saved)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(1)


def test_a_path_that_is_no_text_in_the_locale():
    """Item 18 of issue I: a folder ``mü`` under LC_ALL=C, without Python's UTF-8 mode."""
    said = refusal("./m\udcc3\udcbc")
    assert said.startswith("MODEL has bytes that are no text in this locale | set PYTHONUTF8=1")


@pytest.mark.parametrize("where", ["../w.safetensors", "a/../../w.safetensors", "{}/w.safetensors"])
def test_an_index_names_files_of_the_folder(folder, where):
    """Item 5 of issue I."""
    (folder / "a").mkdir()
    file = where.format(folder.parent)
    index(folder, file)
    said = refusal(folder)
    assert f"model.safetensors.index.json names weights outside of the folder: {file}" in said


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        # These two are of a stranger's review of issue 18.
        '{"weight_map": {"x": "w.safetensors"}}',
        '{"weight_map": {}, "metadata": {}}',
    ],
)
def test_an_index_that_is_damaged(folder, text):
    index(folder, "w.safetensors")
    (folder / "model.safetensors.index.json").write_text(text)
    assert "model.safetensors.index.json is damaged: it needs" in refusal(folder)
