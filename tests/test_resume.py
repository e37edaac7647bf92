"""Suffixes run from a block on, against what whole rows give."""

import pytest
import torch

from edit_harness import resume
from edit_harness.hooks import adding
from edit_harness.testing import tiny_model

FITS = ["gpt2", "gptj", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi",
        "opt", "olmo2", "falcon"]  # fmt: skip
ROWS = [[5, 9, 2, 7, 4, 3], [8, 1, 6], [4, 4, 2, 9, 9]]
STARTS = [3, 0, 1]
LAST = [5, 2, 4]


def whole(model, layer, delta):
    batch = model.batch(ROWS)
    places = batch.places(range(3), STARTS)
    with adding(model.architecture.projection(layer).module, places, delta, 3):
        return model.logits(batch, batch.places(range(3), LAST))


def cut(model, layer, delta):
    suffixes = resume.freeze(model, model.batch(ROWS), STARTS, layer)
    ends = [last - start for last, start in zip(LAST, STARTS, strict=True)]
    read = suffixes.batch.places(range(3), ends)
    return resume.logits(model, suffixes, read, layer, delta)


def change(model, requires_grad=False):
    draw = torch.Generator().manual_seed(1)
    made = torch.randn(3, model.architecture.hidden, generator=draw, dtype=model.dtype)
    return made.requires_grad_(requires_grad)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", FITS)
def test_suffixes_give_what_whole_rows_give(family, side):
    """Logits and their gradients; fp32 sums in another order."""
    model = tiny_model(family, padding=side)
    assert model.resumes(0, 8)
    found = []
    for run in (whole, cut):
        delta = change(model, requires_grad=True)
        logits = run(model, 0, delta)
        logits.log_softmax(-1)[:, 7].sum().backward()
        found.append((logits.detach(), delta.grad))
    (one, one_slope), (two, two_slope) = found
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(one_slope, two_slope, rtol=1e-3, atol=1e-4)
    assert one_slope.abs().max() > 1e-3


def test_a_model_without_such_masks_does_not_resume():
    assert not tiny_model("bloom").resumes(0, 8)


def test_texts_beyond_a_sliding_window_do_not_resume():
    """A window hides early tokens, which the mask of kept keys would show."""
    model = tiny_model("mistral", sliding_window=10)
    assert model.resumes(0, 10)
    assert not model.resumes(0, 11)


def test_there_is_nothing_above_the_last_layer(model):
    assert not model.resumes(model.architecture.layers - 1, 8)


def test_only_suffixes_and_blocks_above_are_run(model):
    suffixes = resume.freeze(model, model.batch(ROWS), STARTS, 0)
    ran = []
    for layer in range(model.architecture.layers):
        model.architecture.block(layer).register_forward_hook(
            lambda module, args, output, layer=layer: ran.append((layer, args[0].shape[:2]))
        )
    read = suffixes.batch.places(range(3), [0, 0, 0])
    resume.logits(model, suffixes, read, 0, change(model))
    longest = max(last - start for last, start in zip(LAST, STARTS, strict=True)) + 1
    assert ran == [(layer, (3, longest)) for layer in range(1, model.architecture.layers)]


def test_the_blocks_are_back_after_an_error(model, monkeypatch):
    suffixes = resume.freeze(model, model.batch(ROWS), STARTS, 0)
    names = [name for name, _ in model.module.named_modules()]
    read = suffixes.batch.places(range(3), [0, 0, 0])
    monkeypatch.setattr(model, "logits", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        resume.logits(model, suffixes, read, 0, change(model))
    assert [name for name, _ in model.module.named_modules()] == names
    assert not any(module._forward_pre_hooks for module in model.module.modules())
