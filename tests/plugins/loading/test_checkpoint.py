"""What a model may bring along: its code, pickled weights, adapters; none of it unasked."""

import json
import os
import re
import socket

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from support.builders import record
from support.complaints import configure, refusal
from support.editors import stored_model, stored_records
from transformers import GPT2LMHeadModel

from edit_harness import ModelSource
from edit_harness.cli import main
from edit_harness.testing.tiny import tiny_model
from edit_harness_plugins.loading import checkpoint
from edit_harness_plugins.loading import load as loading_module
from edit_harness_plugins.loading.load import load

WEIGHTS = "model.safetensors"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CODE = """
import pathlib
from transformers import GPT2Config, GPT2LMHeadModel
pathlib.Path({sprung!r}).touch()
class OwnConfig(GPT2Config):
    model_type = "own-gpt2"
class Own(GPT2LMHeadModel):
    config_class = OwnConfig
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A good model, to be changed; what it brings of code is copied elsewhere than usual."""
    monkeypatch.setattr(socket, "getaddrinfo", pytest.fail)
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "code")
    )
    return stored_model(tiny_model(), tmp_path / "tiny")


@pytest.fixture
def coded(folder):
    """A model whose class is its own."""
    (folder / "own.py").write_text(CODE.format(sprung=str(folder / "sprung")))
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.Own"}
    configure(folder, auto_map=classes, model_type="own-gpt2")
    return folder


@pytest.fixture
def pickled(folder):
    """A model whose weights are not in safetensors."""
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    return folder


def command(folder, out, *flags):
    return CliRunner().invoke(
        main, ["-m", str(folder), "-e", "none", "-L", "1", "-o", str(out), *flags]
    )


# Code.


def test_code_is_run_for_a_flag_and_the_run_says_so(coded, tmp_path):
    """Refused without, run with; what was run is part of what identifies the model."""
    said = refusal(coded)
    assert "MODEL needs code of its own, and --trust-remote-code would run it as you" in said
    assert said.endswith("read its *.py files first, and if you trust that: --trust-remote-code")
    assert not (coded / "sprung").exists()
    facts = stored_records(tmp_path / "facts.json", [record(0)])
    data = ("-t", "counterfact", "--task-args", f"data={facts}", "--metrics", "success")
    told = command(coded, tmp_path / "out", "--trust-remote-code", *data)
    assert told.exit_code == 0, told.output
    (run,) = (tmp_path / "out").iterdir()
    noted = json.loads((run / "manifest.json").read_text())["model"]["let_in"]
    assert f"remote code let in: {noted[checkpoint.CODE]}" in " ".join(told.stderr.split())
    model = load(ModelSource(str(coded)), device="cpu", trust_remote_code=True)
    assert type(model.module).__name__ == "Own"
    assert (coded / "sprung").exists()
    assert re.fullmatch("[0-9a-f]{64}", model.let_in[checkpoint.CODE])
    assert model.let_in == noted
    (coded / "own.py").write_text((coded / "own.py").read_text() + "# another\n")
    again = load(ModelSource(str(coded)), device="cpu", trust_remote_code=True)
    assert again.digest != model.digest


@pytest.mark.parametrize("revision", [None, "main", COMMIT[:12], COMMIT.upper(), COMMIT + "0"])
def test_of_the_hub_it_takes_a_whole_commit(revision, monkeypatch):
    monkeypatch.setattr(loading_module.PreTrainedConfig, "get_config_dict", pytest.fail)
    said = refusal("org/name", named=False, trust_remote_code=True, revision=revision)
    assert f"of one commit and no other: {revision or 'no revision'} is no full hash" in said
    assert said.endswith("--model-args revision=, 40 hexadecimal digits")


def test_the_commit_goes_wherever_anything_is_read(monkeypatch):
    """Configuration, tokenizer and weights are all of that commit, and asked for with the flag."""
    asked, entries = [], {"auto_map": {"AutoModelForCausalLM": "own.Own"}}

    def config(path, **options):
        asked.append(options)
        return entries, {}

    monkeypatch.setattr(loading_module.PreTrainedConfig, "get_config_dict", config)
    monkeypatch.setattr(loading_module.AutoConfig, "from_pretrained", config)
    loading_module.config_of("org/name", COMMIT, trust_remote_code=True)
    assert asked == [{"revision": COMMIT}, {"revision": COMMIT, "trust_remote_code": True}]
    assert "needs code of its own" in refusal("org/name", revision=COMMIT)


@pytest.mark.parametrize("trusted", [True, False])
def test_code_of_another_repository_is_refused_with_the_flag_too(coded, trusted):
    configure(coded, auto_map={"AutoConfig": "other/repo--own.OwnConfig"})
    said = refusal(coded, trust_remote_code=trusted)
    assert "MODEL takes code from other/repo, another repository | no revision pins that" in said
    assert not (coded / "sprung").exists()


def test_a_tokenizer_brings_no_code_either(folder):
    path = folder / "tokenizer_config.json"
    entries = json.loads(path.read_text())
    own = {"auto_map": {"AutoTokenizer": [None, "own.Tokenizer"]}, "tokenizer_class": "Tokenizer"}
    path.write_text(json.dumps(entries | own))
    (folder / "own.py").write_text(f"open({str(folder / 'sprung')!r}, 'w')\n")
    assert "code of its own" in refusal(folder)
    path.write_text(json.dumps(entries | {"auto_map": {"AutoTokenizer": ["a/b--t.T", None]}}))
    assert "code from a/b, another repository" in refusal(folder, trust_remote_code=True)
    assert not (folder / "sprung").exists()


@pytest.mark.parametrize(
    "entries",
    [
        {"attn_implementation": "owner/kernel"},
        {"text_config": {"_attn_implementation_internal": "owner/kernel@main"}},
    ],
)
def test_compiled_code_of_the_hub_is_refused(folder, entries):
    configure(folder, **entries)
    assert "MODEL asks for compiled code from the hub: owner/kernel" in refusal(folder)


@pytest.mark.parametrize("flag", ["trust-remote-code", "allow-pickle-weights"])
def test_neither_the_environment_nor_a_file_says_what_only_a_hand_may(
    flag, coded, tmp_path, monkeypatch
):
    config = tmp_path / "run.toml"
    config.write_text(f"{flag} = true\n")
    told = command(coded, tmp_path / "out", "-C", str(config))
    assert told.exit_code == 2
    assert f"cannot say {flag}" in told.stderr
    assert f"say it at the command line: --{flag}" in told.stderr
    monkeypatch.setenv(f"EDIT_HARNESS_RUN_{flag.replace('-', '_').upper()}", "1")
    assert command(coded, tmp_path / "out").exit_code == 4
    told = command(coded, tmp_path / "out", "--model-args", "trust_remote_code=true")
    assert told.exit_code == 2
    assert not (coded / "sprung").exists()


# Weights.


def test_pickled_weights_are_read_for_a_flag_as_tensors_and_noted(pickled):
    """Item 5 of issue I: whatever lies beside them."""
    assert "--allow-pickle-weights" in refusal(pickled)
    save_file({"x": torch.ones(1)}, pickled / "other.safetensors")
    model = load(ModelSource(str(pickled)), device="cpu", allow_pickle_weights=True)
    assert torch.equal(model.module.lm_head.weight, tiny_model().module.lm_head.weight)
    assert re.fullmatch("[0-9a-f]{64}", model.let_in[checkpoint.PICKLED_WEIGHTS])
    assert re.fullmatch("[0-9a-f]{64}", model.digest)


@pytest.mark.parametrize("allowed", [True, False])
def test_nothing_but_tensors_is_unpickled(pickled, allowed):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(pickled / "sprung"),))

    torch.save({"transformer.wte.weight": Trap()}, pickled / "pytorch_model.bin")
    refusal(pickled, allow_pickle_weights=allowed)
    assert not (pickled / "sprung").exists()


def test_an_adapter_beside_the_weights_is_not_applied_unasked(folder):
    peft = pytest.importorskip("peft")
    module = GPT2LMHeadModel.from_pretrained(folder)
    config = peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], fan_in_fan_out=True)
    peft.get_peft_model(module, config).save_pretrained(folder)
    assert "MODEL has an adapter (adapter_config.json)" in refusal(folder)


def test_two_heads_where_the_configuration_has_one(tmp_path):
    """A head of its own must not be lost to the embedding that it is said to be tied to."""
    stored_model(tiny_model("llama"), tmp_path)
    configure(tmp_path, tie_word_embeddings=True)
    assert "MODEL has weights of a head, which its config.json ties" in refusal(tmp_path)
