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
from edit_harness_plugins.exporters import adapter

FEW = {"layer": 1, "steps": 3}
EDITORS = {"rome": {**FEW, "covariance": False}, "lora": {"steps": 3}, "ft": {**FEW, "bias": False}}


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
            least = float(values[3:].norm() / values.norm())
            found = (error, relative(near.weights[weight].dense(), whole))
            assert found == pytest.approx((least, least), rel=1e-4)


def test_what_is_no_lora_is_refused(model, tmp_path):
    ones, down = torch.ones(128, 32), "transformer.h.0.mlp.c_proj"
    for edit, words in (
        (Edit({f"{down}.bias": Dense(ones[0])}), f"{down}.bias\n.*bias=false"),
        (Edit({"transformer.ln_f.weight": Dense(ones[0])}), "ln_f.weight, no .*\n.*--save-model"),
        (Edit({f"{down}.weight": Dense(ones)}), "weight is dense.*\n--rank N .*--save-model"),
        (Edit({f"{down}.weight": Dense(0 * ones)}), "changes no weight\n.*--save FILE"),
        (Edit(adaptors={down: lambda *given: given[1]}), f"adaptor, of {down}\n.*--save FILE"),
        (Edit(prefix="Ada."), "a text before the prompt\n.*--save FILE"),
        (Edit(patch=nullcontext), "a patch\n.*make the edit of weights"),
    ):
        with pytest.raises(eh.PluginError, match=words):
            adapter.save(model, edit, tmp_path / "lora")
    assert not list(tmp_path.iterdir())
