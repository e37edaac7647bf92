"""LoRA folders: peft itself reads what was written, and answers as the edit does."""

from contextlib import nullcontext

import pytest
import torch
from peft import PeftModel
from support.editors import REQUESTS, relative, stored_model
from transformers import AutoModelForCausalLM

import edit_harness as eh
from edit_harness.edits import Dense, Edit
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.run import adapter

EDITORS = {
    "rome": {"layer": 1, "steps": 3, "covariance": False, "context_count": 1},
    "lora": {"steps": 3},
    "ft": {"layer": 1, "steps": 3, "bias": False},
}


@pytest.mark.filterwarnings("error::UserWarning")  # peft's, of keys that it misses or cannot place
@pytest.mark.parametrize("family", ["gpt2", "llama", "gptj", "qwen2"])
def test_peft_answers_as_the_edit_does(family, tmp_path):
    model = tiny_model(family)
    base = stored_model(model, tmp_path / "base")
    edits = {name: eh.edit(model, name, REQUESTS[:2], **args) for name, args in EDITORS.items()}
    edits["both"] = edits["rome"] + edits["lora"]
    ids = torch.tensor([model.tokens.encode("Ada Lovelace lives in Oslo. Bob").ids])
    for (name, edit), rank in zip(edits.items(), (2, 8, 3, 8), strict=True):
        near, told = adapter.save(model, edit, tmp_path / name, 3 if name == "ft" else None)
        module = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        logits = [PeftModel.from_pretrained(module, tmp_path / name)(ids).logits]
        for each in (near, Edit()):
            with model.applied(each):
                logits.append(model.module(ids).logits)
        found, expected, plain = (each.log_softmax(-1) for each in logits)
        assert (found - expected).abs().max() <= 1e-5 < (plain - expected).abs().max()
        assert (told["rank"], bool(told["errors"])) == (rank, name == "ft")
        for weight, error in told["errors"].items():
            whole = edit.weights[weight].dense().double()
            values = torch.linalg.svdvals(whole)
            assert error == pytest.approx(float(values[3:].norm() / values.norm()), rel=1e-4)
            assert error == pytest.approx(relative(near.weights[weight].dense(), whole), rel=1e-4)


DOWN, FILE, DIR = "transformer.h.0.mlp.c_proj", "--save FILE", "--save-model DIR"


@pytest.mark.parametrize(
    ("edit", "part", "remedy"),
    [
        (Edit({f"{DOWN}.bias": Dense(torch.ones(32))}), f"{DOWN}.bias", f"{DIR}; or leave biases"),
        (Edit({"transformer.ln_f.weight": Dense(torch.ones(32))}), "ln_f.weight, no linear", DIR),
        (Edit({f"{DOWN}.weight": Dense(torch.ones(128, 32))}), "weight is dense", "--rank N"),
        (Edit({f"{DOWN}.weight": Dense(torch.zeros(128, 32))}), "changes no weight", FILE),
        (Edit(adaptors={DOWN: lambda *given: given[1]}), f"an adaptor, of {DOWN}", FILE),
        (Edit(prefix="Ada."), "a text before the prompt", FILE),
        (Edit(patch=nullcontext), "a patch", DIR),
    ],
)
def test_what_is_no_lora_is_refused(edit, part, remedy, model, tmp_path):
    with pytest.raises(eh.PluginError) as caught:
        adapter.save(model, edit, tmp_path / "lora")
    assert part in caught.value.cause
    assert remedy in caught.value.remedy
    assert not list(tmp_path.iterdir())
