"""UltraEdit: the suite, and the paper's formula done naively: a text at a time, all tokens kept."""

import pytest
import torch
from support.editors import REQUESTS, relative
from torch.nn.functional import cross_entropy

from edit_harness import PluginError, Request
from edit_harness.edits import Dense, Edit
from edit_harness.model.hooks import changing
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors.tuning.ultraedit import UltraEdit

ON_DOWN, GATED = UltraEdit((), (), (0, 1), lr=1e-3), UltraEdit((0,), (0, 1), (1,), lr=1e-3)
FACTS = [*REQUESTS, Request("{} works at", "Bob", "Fiat")]  # of several tokens, the last of one
TWENTY = [Request(f.prompt, who, f.target_new) for who in ("Ann", "Bob", "Ada", "X") for f in FACTS]


class TestUltraEdit(EditorTests):
    editor, family = GATED, "llama"


def tokens_of(model, matrix, requests):
    """Return keys and gradients where targets are predicted, each text in a pass of its own."""
    parts, rows = [model.tokens.split(r.text, r.target_new) for r in requests], []
    for part in parts:
        seen, at, ids = [], list(part.places), torch.tensor([part.inputs])
        with changing(matrix.module, 1, lambda x, y, to=seen: to.extend((x, y.requires_grad_()))):
            logits = model.module(input_ids=ids, use_cache=False).logits[0, at]
        loss = cross_entropy(logits, torch.tensor(part.target), reduction="sum")
        (gradient,) = torch.autograd.grad(loss / sum(len(p.target) for p in parts), seen[1])
        rows.append((seen[0][0, at], gradient[0, at]))
    return list(map(torch.cat, zip(*rows, strict=True)))


def normal(vectors, past):
    alone = vectors / vectors.square().mean().sqrt()
    return alone if len(past) == 1 else (vectors - past.mean(0)) / past.std(0)


def assert_naive(model, editor, edit, batches):
    """Compare an edit with the sum of all batches' changes, each of the model as it then is."""
    total, seen = Edit(), {matrix: [] for matrix in editor._matrices(model)}
    for batch in batches:
        with model.applied(total):
            new = [tokens_of(model, matrix, batch) for matrix in seen]
        for (matrix, found), own in zip(seen.items(), new, strict=True):
            found.append(own)
            k, g = map(normal, own, map(torch.cat, zip(*found, strict=True)))
            v = -editor.lr * k.norm(dim=1, keepdim=True) ** 2 * g
            gram = own[0].T @ own[0] + torch.eye(own[0].shape[1])
            total = total + Edit(matrix.dense(gram.inverse() @ own[0].T @ v))
    assert edit.weights.keys() == total.weights.keys()
    for name, delta in edit.weights.items():
        assert relative(delta.dense(), total.weights[name].dense()) < 1e-9


@pytest.mark.parametrize(("family", "editor"), [("gpt2", ON_DOWN), ("llama", GATED)])
def test_edits_are_what_the_paper_says(family, editor, tmp_path):
    """Of one request, of a target of one token, of five and of twenty at once; twenty in turn."""
    model, edit, path = tiny_model(family, torch.float64), Edit(), tmp_path / "edit"
    batches = [FACTS[2:3], FACTS[4:], FACTS, TWENTY]
    for batch, together in zip(batches, editor.edit_each(model, batches), strict=True):
        assert_naive(model, editor, together, [batch])
        assert_naive(model, editor, editor.edit(model, batch), [batch])
    assert any(isinstance(d, Dense) for d in together.weights.values()) == (family == "llama")
    for request in TWENTY:
        edit = editor.extend(model, edit, [request])
        edit.save(path)
        edit = Edit.load(path)
    assert_naive(model, editor, edit, [[request] for request in TWENTY])


def test_a_map_that_is_not_there_is_named(model):
    with pytest.raises(PluginError, match="no map up_proj was found in block 1"):
        UltraEdit((), (1,), (), 1e-6).check(model)
