"""LoRA: the conformance suite, peft itself as the oracle, and many cases at once as each alone.

Adam's first steps are little but signs, so where a gradient is nearly zero rounding decides on a
whole step. Factors are therefore compared in float64.
"""

import copy
import math

import pytest
import torch
from support.editors import ALONE, MIXED, REQUESTS, OnBothKinds

from edit_harness import PluginError
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors._search import texts
from edit_harness_plugins.editors._search.texts import Text
from edit_harness_plugins.editors.tuning import lora
from edit_harness_plugins.editors.tuning.lora import (
    Adapters,
    Lora,
    Part,
    Row,
    first_factors,
    seeded,
)

PARTS = [("gpt2", ("c_attn",)), ("gpt2", ("c_fc", "mlp.c_proj")), ("opt", ("fc1", "v_proj"))]
"""Weights as (in, out), as (out, in), and a map whose inputs have rows and positions flattened."""


def trainer(targets=(), **fields):
    return Lora(**{"targets": targets, "steps": 5, "lr": 5e-3} | fields)


class TestLora(OnBothKinds):
    editor = trainer()


class TestLoraOnGptJ(EditorTests):
    family = "gptj"
    editor = trainer(("fc_in", "fc_out"), weight_decay=0.01)


@pytest.fixture
def passes(monkeypatch):
    """Let texts of all lengths share passes, and return the passes, as their numbers of rows."""
    seen, beside = [], Adapters.beside
    monkeypatch.setattr(texts, "SPREAD", math.inf)
    monkeypatch.setattr(
        Adapters, "beside", lambda own, part: seen.append(len(part.rows)) or beside(own, part)
    )
    return seen


def same(one, other):
    assert one.info["loss"] == pytest.approx(other.info["loss"], rel=1e-8)
    assert one.weights.keys() == other.weights.keys()
    assert one.weights
    for name, delta in one.weights.items():
        change = delta.dense()
        torch.testing.assert_close(change, other.weights[name].dense(), rtol=1e-7, atol=1e-11)
        assert change.any()


# Many cases at once.


def same_bits(one, other):
    return all(
        torch.equal(delta.left, other.weights[name].left) for name, delta in one.weights.items()
    )


def test_a_case_with_more_requests_than_a_pass_takes_adds_up_their_gradients(monkeypatch, passes):
    model, editor = tiny_model(dtype=torch.float64), trainer()
    whole = editor.edit(model, REQUESTS)
    passes.clear()
    for module in (lora, texts):
        monkeypatch.setattr(module, "GROUP_TEXTS", 3)
    same(editor.edit(model, REQUESTS), whole)
    assert passes == [3, 1] * editor.steps


def test_a_case_that_ends_in_no_numbers_does_not_take_others_with_it(model, monkeypatch, passes):
    editor = trainer()
    alone = [editor.edit(model, batch) for batch in ALONE]
    draw, broken = lora.first_factors, seeded(editor.seed, REQUESTS[1].statement)

    def drawn(targets, rank, seed):
        nothing = math.nan if seed == broken else 1.0
        return {name: nothing * first for name, first in draw(targets, rank, seed).items()}

    monkeypatch.setattr(lora, "first_factors", drawn)
    passes.clear()
    together = editor.edit_each(model, ALONE)
    assert passes == [4] * editor.steps + [1] * 4 * editor.steps
    assert math.isnan(together[1].info["loss"])
    for i in (0, 2, 3):
        assert same_bits(together[i], alone[i])


# Oracle: peft's own model and training loop, one case at a time, the loss from whole logits.


def by_hand(model, editor, requests):
    from peft import LoraConfig, get_peft_model

    targets = editor._targets(model)
    own = seeded(editor.seed, *(r.statement for r in requests))
    firsts = first_factors(targets, editor.rank, own)
    config = LoraConfig(
        r=editor.rank, lora_alpha=editor.alpha, target_modules=[t.name for t in targets]
    )
    before = {n: p.clone() for n, p in model.module.named_parameters()}
    with torch.random.fork_rng(devices=[]):
        wrapped = get_peft_model(copy.deepcopy(model.module), config)
    for target in targets:
        layer = wrapped.base_model.model.get_submodule(target.name)
        layer.lora_A["default"].weight.data.copy_(firsts[target.name])
    trained = [p for p in wrapped.parameters() if p.requires_grad]
    adam = torch.optim.Adam(trained, editor.lr, weight_decay=editor.weight_decay)
    for _ in range(editor.steps):
        loss = sum(text_loss(model, wrapped, r) for r in requests) / len(requests)
        adam.zero_grad()
        loss.backward()
        adam.step()
    merged = dict(wrapped.merge_and_unload().named_parameters())
    return loss.item(), {
        t.name: merged[f"{t.name}.weight"].detach() - before[f"{t.name}.weight"] for t in targets
    }


def text_loss(model, module, request):
    parts = model.tokens.split(request.text, request.target_new)
    prompt, target = list(parts.prompt), list(parts.target)
    logits = module(input_ids=torch.tensor([prompt + target])).logits[0, len(prompt) - 1 : -1]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(target))


def same_changes(edit, changes):
    """The tolerance is for merging: a weight of about 1 loses 1e-16 of a change."""
    for name, change in changes.items():
        found = edit.weights[f"{name}.weight"].dense()
        torch.testing.assert_close(found, change, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize(
    ("family", "targets", "fields"),
    [
        (*PARTS[0], {}),
        (*PARTS[1], {"rank": 12, "alpha": 6.0, "weight_decay": 0.1, "seed": 3}),
        (*PARTS[2], {"rank": 12, "alpha": 6.0, "weight_decay": 0.1, "seed": 3}),
    ],
)
def test_each_case_is_what_peft_finds_alone(family, targets, fields, passes):
    model = tiny_model(family, torch.float64)
    editor = trainer(targets, dropout=0.0, **fields)
    for batch, found in zip(MIXED, editor.edit_each(model, MIXED), strict=True):
        loss, changes = by_hand(model, editor, batch)
        assert found.info["loss"] == pytest.approx(loss, rel=1e-8)
        assert len(found.weights) == len(changes) == 2 * len(targets)
        same_changes(found, changes)


# What is drawn.


def test_start_values_are_spread_as_those_of_peft(model):
    """Uniformly within 1/√inputs, as A is by torch's own initialisation of a linear map."""
    model = tiny_model(dtype=torch.bfloat16)
    editor = trainer(("c_attn",))
    targets = editor._targets(model)
    assert lora.state_bytes(targets, 8) == 4 * 2 * 8 * (32 + 96) * 4, "in single precision"
    one, two = first_factors(targets, 64, 0).values()
    assert one.shape == (64, 32)
    assert one.abs().max() == pytest.approx(32**-0.5, rel=0.01)
    assert one.std() == pytest.approx((3 * 32) ** -0.5, rel=0.05)
    assert not torch.equal(one, two)
    assert not torch.equal(one, first_factors(targets, 64, 1)[targets[0].name])
    plain = trainer().edit(model, ALONE[0])
    for other in (trainer(seed=1), trainer(dropout=0.0), trainer(dropout=0.2)):
        assert not same_bits(plain, other.edit(model, ALONE[0]))


def test_dropout_hides_a_share_of_each_rows_tokens(model):
    def part(*lengths):
        texts = [Text((1,) * length, (0,), (1,)) for length in lengths]
        noises = [torch.Generator().manual_seed(length) for length in lengths]
        rows = [Row(0, text, 1.0, noise) for text, noise in zip(texts, noises, strict=True)]
        return Part(model, rows, 1)

    seen = part(40, 25).dropped(torch.ones(2, 40, 500), 0.25)
    assert seen.unique().tolist() == pytest.approx([0, 4 / 3])
    for i, length in enumerate((40, 25)):
        # Four standard deviations of the mean of 12,500 draws.
        assert (seen[i, :length] == 0).float().mean() == pytest.approx(0.25, abs=0.016)
        assert not seen[i, length:].any()
    assert torch.equal(part(40, 25).dropped(torch.ones(80, 500), 0.25), seen.flatten(0, 1))


# Which maps.


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("gpt2", ["c_attn"]),
        ("llama", ["q_proj", "v_proj"]),
        ("gptj", ["v_proj", "q_proj"]),
        ("gpt_neox", ["query_key_value"]),
    ],
)
def test_query_and_value_maps_are_found(family, names):
    model, editor = tiny_model(family), trainer()
    editor.prepare(model)
    assert editor.found == {"targets": names}
    assert len(editor._targets(model)) == 2 * len(names)


def test_a_name_may_say_which_block(model):
    (only,) = trainer(("1.attn.c_attn",))._targets(model)
    assert only.name == "transformer.h.1.attn.c_attn"
    # A suffix is of whole names: gpt2 has c_proj, but no map named proj.
    with pytest.raises(PluginError, match="named 'proj'") as caught:
        trainer(("c_attn", "proj")).check(model)
    assert "c_attn, c_proj, c_fc" in caught.value.remedy
