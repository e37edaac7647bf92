"""The command ``edit`` and what is done with its result: files of facts, edits and models."""

import json

import pytest
import torch
from peft import AutoPeftModelForCausalLM
from support.builders import record
from support.commands import failed, invoked
from transformers import AutoModelForCausalLM

import edit_harness as eh
from edit_harness.edits import Dense, Edit
from edit_harness_plugins.commands.run.editing import read

FAST = "steps=3,context_count=1,covariance=false"
FACTS = [
    {"prompt": "{} is a citizen of", "subject": "Sophia Loren", "target_new": "Japan"},
    {"prompt": "The native language of {} is", "subject": "Marie Curie", "target_new": "Turkish"},
]
QUESTION = "Sophia Loren is a citizen of"


@pytest.fixture
def tell(tell, tmp_path):
    """Run a command in a folder with a file of facts."""
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, FACTS)))
    return tell


def edit(tell, *args):
    return tell("edit", "--requests", "facts.jsonl", "--editor-args", FAST, *args)


@pytest.fixture(scope="module")
def model():
    return eh.load_model("pocket")


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    """A folder with an edit and the model that it makes, and what was told of it."""
    place = tmp_path_factory.mktemp("edited")
    (place / "facts.jsonl").write_text("\n".join(map(json.dumps, FACTS)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        saving = ("--save", "e.safetensors", "--save-model", "edited", "--save-adapter", "lora")
        result = edit(invoked, *saving, "--json")
    assert result.exit_code == 0, result.stderr
    return place, json.loads(result.stdout)


def test_all_facts_are_written_and_kept_and_a_saved_model_is_the_edited_one(edited, model):
    place, told = edited
    assert [r["subject"] for r in told["requests"]] == ["Sophia Loren", "Marie Curie"]
    assert all(after > before for before, after in zip(told["before"], told["after"], strict=True))
    loaded = Edit.load(place / "e.safetensors", model.digest)
    requests = [eh.Request(**fact) for fact in FACTS]
    asked = [(loaded, eh.Choose(r.text, (r.target_new,))) for r in requests]
    after = [answer.prob(0) for answer in model.answer(asked)]
    assert after == pytest.approx(told["after"], rel=1e-4)
    module = AutoModelForCausalLM.from_pretrained(place / "edited", dtype=torch.float32)
    ids = torch.tensor([model.tokens.encode(QUESTION).ids])
    with torch.no_grad(), model.applied(loaded):
        expected = model.module(ids).logits
    assert torch.equal(module(ids).logits, expected)
    assert not torch.equal(model.module(ids).logits, expected)
    lora = AutoPeftModelForCausalLM.from_pretrained(place / "lora", dtype=torch.float32)
    found = lora(ids).logits.log_softmax(-1)
    torch.testing.assert_close(found, expected.log_softmax(-1), rtol=0, atol=1e-5)
    plain = eh.load_model(str(place / "edited"))
    assert plain.tokens.encode(QUESTION) == model.tokens.encode(QUESTION)


def test_a_saved_edit_is_tried(tell, edited, monkeypatch):
    monkeypatch.chdir(edited[0])
    asked = ("try", "--edit", "e.safetensors", "--max-new-tokens", 3, "--json")
    without = json.loads(tell(*asked, "--ask", QUESTION).stdout)
    assert [v["prompt"] for v in without["views"]] == [QUESTION]
    fact = ("--prompt", "{} is a citizen of", "--subject", "Sophia Loren", "--target", "Japan")
    view, _ = json.loads(tell(*asked, *fact).stdout)["views"]
    assert view["after"]["target"] > view["before"]["target"]
    alone = without["views"][0]["after"]
    assert view["after"]["max_logit"] == pytest.approx(alone["max_logit"], rel=1e-4)
    assert [t["text"] for t in view["after"]["top"]] == [t["text"] for t in alone["top"]]
    table = tell(*asked[:-1], "--ask", QUESTION)
    assert "(e.safetensors)" in table.stdout
    failed(tell(*asked), 2, "a saved edit is asked nothing", "--ask")
    elsewhere = tell(*asked, "--model", "edited", "--ask", QUESTION)
    failed(elsewhere, 4, "made for other weights")


def test_saved_edits_are_added_up_and_kept_in_another_form(tell, edited):
    one = Edit.load(edited[0] / "e.safetensors")
    one.save("again.safetensors")
    both = f"{edited[0] / 'e.safetensors'},again.safetensors"
    told = tell("edit", "--edit", both, "--save-adapter", "lora", "--rank", 3, "--save", "sum")
    assert "adapter rank 3; relative error (Frobenius norm) up to" in " ".join(told.stderr.split())
    (name, change), added = one.weights.popitem(), Edit.load("sum").weights
    torch.testing.assert_close(added[name].dense(), 2 * change.dense())
    failed(tell("edit", "--save", "e"), 2, "nothing to write", "--requests FILE, or --edit FILE")


@pytest.mark.parametrize(
    ("args", "code", "parts"),
    [
        ((), 2, ("nowhere to put its result", "--save-model DIR")),
        (("--save-model", "."), 2, ("is there already", "new or empty")),
        (("--save", "e", "--model", "pocket,gpt2"), 2, ("one model and one editor",)),
        (("--save", "none/e.safetensors"), 5, ("cannot be written",)),
        (("--save", "e", "--rank", 2), 2, ("--rank is of a LoRA", "--save-adapter DIR")),
        (("--save-adapter", "facts.jsonl/lora"), 5, ("cannot be written",)),
    ],
)
def test_what_cannot_be_done_is_said(tell, args, code, parts):
    failed(edit(tell, *args), code, *parts)


def test_an_edit_that_is_no_change_of_weights_is_no_model(tell, tmp_path):
    result = tell("edit", "--editor", "prompt", "--requests", "facts.jsonl",
                  "--save", "p.safetensors", "--save-model", "edited")  # fmt: skip
    failed(result, 3, "no change of weights", "--save FILE")
    assert [path.name for path in tmp_path.iterdir()] == ["facts.jsonl"]
    args = ("--editor", "prompt", "--requests", "facts.jsonl", "--save", "p.safetensors")
    assert tell("edit", *args).exit_code == 0
    assert "Turkish" in Edit.load(tmp_path / "p.safetensors").prefix


def test_an_edit_of_numbers_that_are_not_finite_is_not_kept(model, tmp_path):
    name, tensor = next(iter(model.architecture.projection(0).parameters.items()))
    broken = Edit({name: Dense(torch.full_like(tensor, float("nan")))})
    told = ({"loss": float("nan")}, {"losses": [1.0, float("inf")]})
    for edit in (broken, *(Edit(info=info) for info in told)):
        with pytest.raises(eh.PluginError, match="numbers that are not finite"):
            edit.save(tmp_path / "e.safetensors")
        with pytest.raises(eh.PluginError, match="numbers that are not finite"):
            eh.save_model(model, edit, tmp_path / "edited")
    assert not list(tmp_path.iterdir())


def test_requests_are_read_from_lines_a_list_and_records_of_counterfact(tmp_path):
    path = tmp_path / "facts"
    expected = [eh.Request(**fact) for fact in FACTS]
    path.write_text("\n\n".join(map(json.dumps, FACTS)))
    assert read(path) == expected
    path.write_text("﻿" + json.dumps(FACTS))
    assert read(path) == expected
    path.write_text('{"prompt": "Water is", "target_new": "dry"}')
    assert read(path) == [eh.Request.of("Water is", "dry")]
    path.write_text(json.dumps(record(0, subject="Ada")))
    (request,) = read(path)
    assert request.subject == "Ada"
    assert request.target_true


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no requests"),
        ("[1", "f:1: not JSON"),
        ('\n{"prompt"', "f:2: not JSON"),
        ("[3]", "item 1: a request has no prompt and no target_new"),
        ('{"prompt": "{} is", "target_new": "x"}', "f:1: a request has no subject"),
        (json.dumps({**FACTS[0], "prompt": "lives in"}), "f:1: the prompt 'lives in' has 0 places"),
        (json.dumps({**FACTS[0], "target_new": 3}), "f:1: 3 is no text"),
    ],
)
def test_a_bad_file_is_named_with_the_line(tmp_path, text, message):
    path = tmp_path / "f"
    path.write_text(text)
    with pytest.raises(eh.DataError) as caught:
        read(path)
    assert message in caught.value.cause
    with pytest.raises(eh.DataError, match="cannot be read"):
        read(tmp_path / "missing")
