"""WISE: the conformance suite, training against autograd on a copied matrix, and which rows a memory answers."""

from dataclasses import replace

import pytest
import torch
from support.editors import REQUESTS, OnBothKinds
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from transformers.activations import ACT2FN

from edit_harness import Choose, Generate, PluginError, Scores
from edit_harness.edits import Edit
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors._search.texts import seeded
from edit_harness_plugins.editors.memories.wise import Wise, ties

CONTEXTS = ("{}", "The sun rose. {}")


def wise(**fields):
    margins = {"alpha": 0.2, "beta": 2.0, "gamma": 1.0, "act_ratio": 0.8}
    usual = {
        "layer": 1,
        "module": "down",
        "steps": 6,
        "lr": 0.5,
        "contexts": CONTEXTS,
        "save_every": 500,
    }
    return Wise(**usual | margins | fields)


class TestWise(OnBothKinds):
    editor = wise()


class TestWiseBeforeTheNonlinearity(EditorTests):
    editor = wise(module="up", layer=0)
    family = "gptj"


def memories_of(edit):
    (memories,) = edit.adaptors.values()
    return memories


# Training.


def passed(model, linear, ids, parameters=None):
    """Return the logits of one text, and what comes out of a map, tokens by width."""
    seen = []
    with linear.module.register_forward_hook(lambda _, args, output: seen.append(output)):
        given = {"input_ids": torch.tensor([ids]), "use_cache": False}
        out = functional_call(model.module, parameters or {}, (), given)
    return out.logits[0], seen[0].view(len(ids), -1)


def distance(model, linear, ids, length, parameters):
    act = ACT2FN["gelu_new" if model.architecture.config.model_type == "gpt2" else "silu"]
    outputs = (passed(model, linear, ids, each)[1] for each in (None, parameters))
    before, after = (act(each[:length]) for each in outputs)
    return (after - before).square().sum(1).clamp(min=1e-300).sqrt().mean()


def trained_plainly(model, editor, request, start, moving):
    """Train a copy of a weight, in its own orientation, one text at a time; return it and a distance."""
    linear = editor._linear(model)
    name, other = f"{linear.name}.weight", model.tokens.encode(request.tags["unrelated"]).ids
    original, copied = model.module.get_parameter(name), start
    split = model.tokens.split
    parts = [split(c.replace("{}", request.text), request.target_new) for c in CONTEXTS]
    for step in range(editor.steps + 1):
        copied = copied.detach().requires_grad_()
        far = lambda ids, length, weight=copied: distance(
            model, linear, ids, length, {name: weight}
        )
        own = [far(part.inputs, len(part.prompt)) for part in parts]
        if step == editor.steps:
            return copied.detach(), sum(own).item() / len(own)
        loss = 0.0
        for part in parts:
            logits, _ = passed(model, linear, part.inputs, {name: copied})
            loss += cross_entropy(logits[list(part.places)], torch.tensor(part.target)) / len(parts)
        out = far(other, len(other))
        kinds = (
            [out - editor.alpha],
            [editor.beta - each for each in own],
            [editor.gamma + out - each for each in own],
        )
        for over in ([each for each in kind if each > 0] for kind in kinds):
            loss += sum(over) / max(len(over), 1)
        (gradient,) = torch.autograd.grad(loss, copied)
        moved = copied - editor.lr * gradient * moving - original
        copied = original + moved.clamp(-editor.box, editor.box)


@pytest.mark.parametrize(
    ("family", "layer", "padding"), [("gpt2", 0, "left"), ("llama", 1, "right")]
)
def test_edits_are_those_of_plain_training(family, layer, padding):
    """Two requests alone, and the second on top of the first, in fp64; the box is hit."""
    model = tiny_model(family, torch.float64, padding=padding)
    editor = wise(layer=layer, box=0.05)
    two = [replace(request, tags={"unrelated": "Where is"}) for request in REQUESTS[:2]]
    linear, noise = editor._linear(model), torch.Generator().manual_seed(seeded(0, 0))
    moving = torch.rand(linear.shape, generator=noise) < 0.2
    original = model.module.get_parameter(f"{linear.name}.weight")
    turned = (lambda x: x.T) if linear.out_in else (lambda x: x)
    edits = editor.edit_each(model, [[request] for request in two])
    edits.append(editor.extend(model, edits[0], two[1:]))
    weights, distances = [], []
    for request, start in ((two[0], 0), (two[1], 0), (two[1], 1)):
        start = weights[0] if start else original
        copied, far = trained_plainly(model, editor, request, start, turned(moving))
        weights.append(copied)
        distances.append(far)
    distances[2] = min(distances[0], distances[2])
    for edit, copied, far in zip(edits, weights, distances, strict=True):
        change = memories_of(edit).changes[0]
        torch.testing.assert_close(change, turned(copied - original), rtol=1e-8, atol=1e-10)
        assert memories_of(edit).nearest.item() == pytest.approx(far, rel=1e-8)
        assert change.abs().max().item() == pytest.approx(0.05)
        assert not change[~moving].any()


# Which rows a memory answers.


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("rows", [1, 16])
def test_a_row_is_answered_by_what_its_own_prompt_moves(rows, padding):
    """As W' written into the weights answers, or as the unedited model; also in what is generated."""
    model = tiny_model("llama", torch.float64, padding=padding, batch_rows=rows)
    editor = wise(steps=12)
    edit, linear = editor.edit(model, REQUESTS[:2]), editor._linear(model)
    memories = memories_of(edit)
    written = Edit(linear.dense(memories.changes[0]))
    parameters = {f"{linear.name}.weight": linear.module.weight + memories.changes[0].T}
    fronts = ("Ada", "Bob Fiat", "In Oslo Ann", "é")
    prompts = [
        f"{front}{end}" for front in fronts for end in (" lives in", " is", " in Rome, and", "")
    ]
    texts = [model.tokens.encode(prompt).ids for prompt in prompts]
    moved = [distance(model, linear, ids, len(ids), parameters).item() for ids in texts]
    middle = sum(sorted(moved)[7:9]) / 2
    memories = replace(memories, act_ratio=middle / memories.nearest.item())
    edit = replace(edit, adaptors={linear.name: memories})
    owners = [written if far > middle else Edit() for far in moved for _ in range(2)]
    queries = [
        kind for p in prompts for kind in (Choose(p, ("Rome", "France by birth")), Generate(p, 4))
    ]
    found = model.answer([(edit, query) for query in queries])
    for one, other in zip(
        found, model.answer(list(zip(owners, queries, strict=True))), strict=True
    ):
        if isinstance(one, Scores):
            near = [pytest.approx(part, abs=1e-9) for part in other.logprobs]
            assert list(one.logprobs) == near
        else:
            assert one == other


# Sequences.


def test_a_sequence_begins_copies_and_merges_them(tmp_path):
    """Twenty requests, a copy for each five, merged by tens; stored on the way, as if it were not."""
    model = tiny_model(dtype=torch.float64)
    editor = wise(steps=2, save_every=5, merge_every=10)
    requests = [replace(REQUESTS[i % 4], subject=f"Ann {i}") for i in range(20)]
    edit, counts = Edit(), []
    kept = {}
    for done, request in enumerate(requests, 1):
        edit = editor.extend(model, edit, [request])
        counts.append(len(memories_of(edit).changes))
        kept[done] = memories_of(edit)
        if done in (3, 5, 12):
            edit.save(tmp_path / "edit")
            edit = Edit.load(tmp_path / "edit")
    assert counts == [1] * 5 + [2] * 4 + [1] + [2] * 5 + [3] * 4 + [2]
    whole = memories_of(editor.edit(model, requests))
    torch.testing.assert_close(kept[20].changes, whole.changes, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(kept[20].nearest, whole.nearest, rtol=1e-9, atol=0)
    assert kept[10].nearest == kept[9].nearest.min()
    assert torch.equal(kept[20].changes[0], kept[10].changes[0])
    last = editor.extend(model, Edit(), requests[15:])
    assert not torch.equal(memories_of(last).changes[0] != 0, kept[19].changes[2] != 0)
    assert edit.state["transformer.h.1.mlp.c_proj.requests"] == 20


def test_ties_trims_elects_a_sign_and_merges_what_has_it():
    changes = torch.tensor([[4.0, -3.0, 0.5, 2.0, 0.0], [2.0, 5.0, -0.4, -3.0, 0.0]])
    assert ties(changes, 0.8).tolist() == pytest.approx([3.0, 5.0, 0.5, -3.0, 0.0])
    assert ties(changes, 0.6).tolist() == pytest.approx([3.0, 5.0, 0.0, -3.0, 0.0])


def test_an_edit_of_others_is_not_extended():
    model = tiny_model()
    edit = wise(steps=1).edit(model, REQUESTS[:1])
    with pytest.raises(PluginError, match="wise cannot extend it"):
        wise(layer=0).extend(model, edit, REQUESTS[1:2])
