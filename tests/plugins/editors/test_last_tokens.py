"""What goes into modules at the last tokens of texts, against whole passes of an edited model."""

import pytest
import torch
from support.builders import recording

from edit_harness.edits import UNEDITED, Edit
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search.suffix import LastTokens, behind

TEXTS = [(5, 9, 2, 7, 4, 3), (8, 1, 6), (5, 9, 2, 9, 9), (5, 9), (8, 1, 6)]
FAMILIES = ["gpt2", "gptj", "llama", "gemma2", "opt", "bloom"]


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
@pytest.mark.parametrize("family", FAMILIES)
def test_each_text_is_seen_under_its_own_edit(family, layer, side):
    """Also texts of one edit in one row, and one text under two edits; fp32 in another order."""
    model = tiny_model(family, padding=side)
    one, other = (edited(model, layer, seed) for seed in (1, 2))
    edits = [one, one, other, UNEDITED, other]
    names = [model.architecture.projection(1).name, behind(model, 1)]
    ends = LastTokens(model, TEXTS, layer)
    for given in ([UNEDITED] * len(TEXTS), edits):
        found = ends.inputs(given, names)
        for i, (edit, text) in enumerate(zip(given, TEXTS, strict=True)):
            for ours, theirs in zip(found, alone(model, edit, text, names), strict=True):
                torch.testing.assert_close(ours[i], theirs, rtol=1e-4, atol=1e-4)
    before, after = (ends.inputs(given, names[1:])[0] for given in ([UNEDITED] * 5, edits))
    assert (after - before).norm(dim=1)[[0, 1, 2, 4]].min() > 0.1
    torch.testing.assert_close(after[3], before[3], rtol=1e-5, atol=1e-5)


def test_blocks_below_the_first_change_are_run_once(model):
    edits, names = [edited(model, 1, 1)] * len(TEXTS), [behind(model, 1)]
    ends = LastTokens(model, TEXTS, 1)
    ends.inputs(edits, names)  # the model is tried here
    ran = []
    for block in (0, 1):
        model.architecture.block(block).register_forward_hook(lambda *_, b=block: ran.append(b))
    ends.inputs(edits, names)
    assert set(ran) == {1}
