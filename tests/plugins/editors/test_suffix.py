"""Ends of texts run again under a change, or under edits of their own, against what whole texts give."""

from functools import partial

import pytest
import torch
from support.builders import recording

from edit_harness.edits import UNEDITED, Edit
from edit_harness.model.hooks import adding
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search import suffix
from edit_harness_plugins.editors._search.suffix import LastTokens, SuffixForward, behind

FITS = ["gpt2", "gptj", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi",
        "opt", "olmo2", "falcon"]  # fmt: skip
TEXTS = [(5, 9, 2, 7, 4, 3), (8, 1, 6), (5, 9, 2, 9, 9)]
STARTS = [3, 0, 1]
LAST = [5, 2, 4]


def change(model, tokens=1, requires_grad=False):
    draw = torch.Generator().manual_seed(1)
    made = torch.randn(3, tokens, model.architecture.hidden, generator=draw, dtype=model.dtype)
    return made.requires_grad_(requires_grad)


def oracle(model, layer, delta, module=None):
    """Whole padded rows with the change added at the starts, by a hook of its own."""
    module = module or model.architecture.projection(layer).module
    batch = model.batch(TEXTS)
    rows, at, values = [], [], []
    for row, (text, start) in enumerate(zip(TEXTS, STARTS, strict=True)):
        for offset in range(min(delta.shape[1], len(text) - start)):
            rows.append(row)
            at.append(start + offset)
            values.append(delta[row, offset])
    places = batch.places(rows, at)
    with adding(module, places, torch.stack(values), 3):
        return model.logits(batch, batch.places(range(3), LAST))


def again(model, layer, delta, **kind):
    run = SuffixForward(model, layer, TEXTS, STARTS, **kind)
    return run.logits(run.places(range(3), LAST), delta)


@pytest.mark.parametrize(("side", "layer"), [("right", 0), ("left", 1)])
@pytest.mark.parametrize("family", [*FITS, "bloom"])
def test_ends_give_what_whole_texts_give(family, layer, side):
    """Logits and their gradients, a change of one token and of all; fp32 in another order."""
    model = tiny_model(family, padding=side)
    assert suffix.fits_suffix(model, layer, 8) == (family != "bloom")
    for tokens in (1, 4):
        ways = (oracle, again, lambda *args: again(*args, whole=True))
        assert_same_slopes(model, tokens, [partial(way, model, layer) for way in ways])


def assert_same_slopes(model, tokens, ways):
    """Compare logits, and how they move with the change."""
    found = []
    for run in ways:
        delta = change(model, tokens, requires_grad=True)
        logits = run(delta)
        logits.log_softmax(-1)[:, 7].sum().backward()
        found.append((logits.detach(), delta.grad))
    (logits, slope), *others = found
    for other, other_slope in others:
        torch.testing.assert_close(logits, other, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(slope, other_slope, rtol=1e-3, atol=1e-4)
    assert tokens == 1 or slope.abs().max() > 1e-3


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("family", ["gpt2", "gptj", "gemma2", "bloom"])
def test_the_residual_stream_can_be_changed_too(family, layer):
    """As MEMIT does: behind a layer, where a norm before the projection's sum has no part in it."""
    model = tiny_model(family)
    block, name = model.architecture.block(layer), model.architecture.blocks[layer]
    ways = (
        partial(oracle, model, layer, module=block),
        partial(again, model, layer, changed=[name]),
    )
    assert_same_slopes(model, 4, ways)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("family", ["gpt2", "gptj", "gemma2", "bloom"])
def test_several_modules_of_a_block_can_be_changed(family, layer):
    """As PMET does with attention and MLP; the clean values are what the modules put out."""
    model = tiny_model(family)
    architecture = model.architecture
    places = (architecture.attention(layer), architecture.projection(layer))
    names = [place.name for place in places]
    deltas = [change(model, 1, requires_grad=True), 2 * change(model, 1)]
    run = SuffixForward(model, layer, TEXTS, STARTS, changed=names)
    assert (run._start is None) == (layer == 0 or family == "bloom")
    logits = run.logits(run.places(range(3), LAST), *deltas)
    batch = model.batch(TEXTS)
    starts = batch.places(range(3), STARTS)
    with (
        recording(places[0].module, 3) as attention,
        recording(architecture.block(layer), 3) as block,
    ):
        model.logits(batch, starts)
    with (
        adding(places[0].module, starts, deltas[0][:, 0], 3),
        adding(places[1].module, starts, deltas[1][:, 0], 3),
    ):
        expected = model.logits(batch, batch.places(range(3), LAST))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    slopes = [torch.autograd.grad(l.sum(), deltas[0])[0] for l in (logits, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-4)
    value = run.values()[0]
    torch.testing.assert_close(value, attention.outputs[starts.rows, starts.columns])
    (stream,) = SuffixForward(
        model, layer, TEXTS, STARTS, changed=[architecture.blocks[layer]]
    ).values()
    torch.testing.assert_close(stream, block.outputs[starts.rows, starts.columns])


def test_texts_beyond_a_sliding_window_run_whole():
    """A window hides early tokens, which the mask of kept keys would show."""
    model = tiny_model("mistral", sliding_window=16)
    assert suffix.fits_suffix(model, 0, 16)
    assert not suffix.fits_suffix(model, 0, 17)
    run = SuffixForward(model, 0, [tuple(range(1, 24))], [19])
    delta = change(model)[:1]
    logits = run.logits(run.places([0], [22]), delta)
    batch = model.batch([range(1, 24)])
    projection = model.architecture.projection(0).module
    with adding(projection, batch.places([0], [19]), delta[0], 1):
        expected = model.logits(batch, batch.places([0], [22]))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_only_ends_and_blocks_above_are_run(model):
    run = SuffixForward(model, 0, TEXTS, STARTS)
    ran = []
    for layer in range(model.architecture.layers):
        model.architecture.block(layer).register_forward_hook(
            lambda module, args, output, layer=layer: ran.append((layer, args[0].shape[:2]))
        )
    run.logits(run.places(range(3), LAST), change(model))
    longest = max(last - start for last, start in zip(LAST, STARTS, strict=True)) + 1
    assert ran == [(layer, (3, longest)) for layer in range(1, model.architecture.layers)]


# The last tokens of texts, each text under an edit of its own.

ENDED = [*TEXTS, (5, 9), (8, 1, 6)]


def edited(model, layer, seed):
    """A random change of rank two that moves a layer's output by about its size."""
    draw = torch.Generator().manual_seed(seed)
    projection = model.architecture.projection(layer)
    left, right = (torch.randn(n, 2, generator=draw) for n in projection.matrix.shape)
    return Edit(projection.low_rank(left.to(model.dtype) / 4, right.T.to(model.dtype) / 4))


def alone(model, edit, text, names):
    """One text in the model whose weights hold the edit."""
    batch = model.batch([text])
    found = []
    for name in names:
        with model.applied(edit), recording(model.module.get_submodule(name), 1) as seen:
            model.logits(batch, batch.places([0], [0]))
        found.append(seen.inputs[0, -1])
    return found


@pytest.mark.parametrize(("side", "layer"), [("right", 0), ("left", 1)])
@pytest.mark.parametrize("family", ["gpt2", "gptj", "llama", "gemma2", "opt", "bloom"])
def test_each_text_is_seen_under_its_own_edit(family, layer, side):
    """Also texts of one edit in one row, and one text under two edits; fp32 in another order."""
    model = tiny_model(family, padding=side)
    one, other = (edited(model, layer, seed) for seed in (1, 2))
    edits = [one, one, other, UNEDITED, other]
    names = [model.architecture.projection(1).name, behind(model, 1)]
    ends = LastTokens(model, ENDED, layer)
    for given in ([UNEDITED] * len(ENDED), edits):
        found = ends.inputs(given, names)
        for i, (edit, text) in enumerate(zip(given, ENDED, strict=True)):
            for ours, theirs in zip(found, alone(model, edit, text, names), strict=True):
                torch.testing.assert_close(ours[i], theirs, rtol=1e-4, atol=1e-4)
    before, after = (ends.inputs(given, names[1:])[0] for given in ([UNEDITED] * 5, edits))
    assert (after - before).norm(dim=1)[[0, 1, 2, 4]].min() > 0.1
    torch.testing.assert_close(after[3], before[3], rtol=1e-5, atol=1e-5)
    # Blocks below the first change are not run again.
    ran = []
    model.architecture.block(0).register_forward_hook(lambda *_: ran.append(0))
    ends.inputs(edits, names)
    assert bool(ran) == (layer == 0 or family == "bloom")
