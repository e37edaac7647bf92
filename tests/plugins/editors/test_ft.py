"""Fine-tuning many cases at once gives each what it finds alone, and what plain torch finds.

Adam's first steps are little but signs, so where a gradient is nearly zero rounding decides on a
whole step. Deltas are therefore compared in float64.
"""

import copy
import math
from collections import Counter

import pytest
import torch
from support.editors import ALONE, MIXED, REQUESTS

from edit_harness.edits import Dense, Edit
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search import texts as shared
from edit_harness_plugins.editors.tuning import ft
from edit_harness_plugins.editors.tuning.ft import ConstrainedFineTuning, FineTuning
from edit_harness_plugins.editors.tuning.locft import LocalizedFineTuning

FIELDS = {"layer": 0, "steps": 6, "lr": 2e-3, "bias": True}


def tuner(cls=FineTuning, **fields):
    box = {"epsilon": 5e-3} if cls is ConstrainedFineTuning else {}
    return cls(**FIELDS | box | fields)


VARIANTS = [
    tuner(weight_decay=0.1),
    tuner(position="teacher", bias=False),
    tuner(ConstrainedFineTuning, position="teacher", weight_decay=0.1),
    tuner(ConstrainedFineTuning, bias=False),
    tuner(LocalizedFineTuning, chunk=2),
    tuner(LocalizedFineTuning, chunk=2, eos=False, shuffle=False),
]
NAMES = ["ft-decay", "ft-teacher", "ft-l-teacher-decay", "ft-l", "ft-loc", "ft-loc-plain"]


@pytest.fixture(autouse=True)
def passes(monkeypatch):
    """Let texts of all lengths share passes, and return the passes, as their numbers of rows."""
    seen, outputs = [], ft.Part.change
    monkeypatch.setattr(shared, "SPREAD", math.inf)
    monkeypatch.setattr(
        ft.Part, "change", lambda part: seen.append(part.rows[-1].stop) or outputs(part)
    )
    return seen


def dense(edit):
    return {name: delta.dense() for name, delta in edit.weights.items()}


def same_deltas(one, other, *, atol=1e-9):
    assert one.info["steps"] == other.info["steps"]
    assert one.info["loss"] == pytest.approx(other.info["loss"], rel=1e-8, abs=atol)
    assert one.weights.keys() == other.weights.keys()
    for name, delta in dense(one).items():
        torch.testing.assert_close(delta, dense(other)[name], rtol=1e-6, atol=atol)
        assert delta.any()


# An oracle: torch's Adam on the parameters themselves, whole forward passes, one text at a time.


def by_hand(model, editor, requests):
    """Return the edit of one case."""
    module = copy.deepcopy(model.module)
    names = list(model.architecture.projection(editor.layer).parameters)
    trained = {n: module.get_parameter(n) for n in names if editor.bias or "bias" not in n}
    before = {n: p.detach().clone() for n, p in trained.items()}
    adam = torch.optim.Adam(
        [p.requires_grad_() for p in trained.values()], editor.lr, weight_decay=editor.weight_decay
    )
    losses, requests = [], list(requests)
    while len(losses) < editor.steps and not (losses and losses[-1] < editor.stop):
        seen = []
        if getattr(editor, "shuffle", False) and len(requests) > editor.chunk:
            draw = torch.Generator().manual_seed(shared.seeded(editor.seed, len(losses)))
            requests = [requests[i] for i in torch.randperm(len(requests), generator=draw)]
        for start in range(0, len(requests), editor.chunk):
            chunk = requests[start : start + editor.chunk]
            loss = sum(text_loss(model, module, editor, r) for r in chunk) / len(chunk)
            seen += [loss.item()] * len(chunk)
            if loss.item() >= editor.stop:
                adam.zero_grad()
                loss.backward()
                adam.step()
            if (bound := editor.bound()) is not None:
                for n, p in trained.items():
                    p.data.clamp_(before[n] - bound, before[n] + bound)
        losses.append(sum(seen) / len(seen))
    changes = {n: Dense(p.detach() - before[n]) for n, p in trained.items()}
    return Edit(changes, info={"loss": losses[-1], "steps": len(losses)})


def text_loss(model, module, editor, request):
    parts = model.tokens.split(request.text, request.target_new)
    prompt, target = list(parts.prompt), list(parts.target)
    if getattr(editor, "eos", False):
        target.append(model.tokens.tokenizer.eos_token_id)
    if editor.position == "teacher":
        logits = module(torch.tensor([prompt + target])).logits[0, len(prompt) - 1 : -1]
    else:
        logits = module(torch.tensor([prompt])).logits[0, -1:].expand(len(target), -1)
    return torch.nn.functional.cross_entropy(logits, torch.tensor(target))


@pytest.mark.parametrize("family", ["gpt2", "opt"])
@pytest.mark.parametrize("editor", VARIANTS, ids=NAMES)
def test_each_case_is_what_plain_torch_finds(family, editor):
    model = tiny_model(family, torch.float64)
    for batch, found in zip(MIXED, editor.edit_each(model, MIXED), strict=True):
        same_deltas(found, by_hand(model, editor, batch))


def test_ft_loc_asks_for_another_order_by_its_seed_and_never_for_one_batch():
    model = tiny_model(dtype=torch.float64)
    editors = [tuner(LocalizedFineTuning, chunk=chunk, seed=s) for chunk in (2, 4) for s in (0, 1)]
    one, other, whole, again = (dense(e.edit(model, REQUESTS)) for e in editors)
    for name in one:
        assert not torch.allclose(one[name], other[name])
        assert torch.equal(whole[name], again[name])


# Who takes a step.


def test_a_finished_case_keeps_its_change(passes):
    """Others go on, and so would Adam's momentum; half of the rows gone, it is laid out anew."""
    model = tiny_model(dtype=torch.float64)
    editor = tuner(steps=8, lr=5e-3, stop=3.6)
    together = editor.edit_each(model, ALONE)
    assert [edit.info["steps"] for edit in together] == [3, 8, 8, 4]
    assert passes == [4, 4, 4, 4, 2, 2, 2, 2]
    for batch, found in zip(ALONE, together, strict=True):
        same_deltas(found, by_hand(model, editor, batch))


@pytest.mark.parametrize(
    ("stop", "batches", "steps"),
    [
        # A chunk below the threshold takes no step while others do, nor does Adam count one.
        (5.5, [REQUESTS[:2], REQUESTS[1::-1], [REQUESTS[1]] * 2], [4, 4, 3]),
        # A case is done by its mean, though a chunk is still above.
        (6.3, [REQUESTS[:2], [REQUESTS[1]], [REQUESTS[2]]], [1, 3, 4]),
    ],
)
def test_who_takes_a_step(stop, batches, steps):
    model = tiny_model(dtype=torch.float64)
    editor = tuner(steps=4, chunk=1, stop=stop)
    together = editor.edit_each(model, batches)
    assert [edit.info["steps"] for edit in together] == steps
    for batch, found in zip(batches, together, strict=True):
        same_deltas(found, by_hand(model, editor, batch))


def test_more_requests_than_a_chunk_are_taken_one_chunk_after_another():
    model = tiny_model(dtype=torch.float64)
    editor = tuner(chunk=3, weight_decay=0.1)
    for batch, found in zip(MIXED, editor.edit_each(model, MIXED), strict=True):
        same_deltas(found, by_hand(model, editor, batch))


# What shares passes.


@pytest.mark.parametrize(("cases", "rows"), [(2, 2), (1.99, 1)])
def test_the_bound_on_memory_holds_and_changes_no_number(cases, rows, monkeypatch, passes):
    model, editor = tiny_model(dtype=torch.float64), tuner(steps=2)
    together = editor.edit_each(model, ALONE)
    size = ft.state_bytes(model.architecture.projection(0))
    assert size == 3 * 32 * 128 * 8
    monkeypatch.setattr(shared, "GROUP_BYTES", int(cases * size))
    passes.clear()
    for one, other in zip(together, editor.edit_each(model, ALONE), strict=True):
        same_deltas(one, other)
    assert passes == [rows] * (editor.steps * 4 // rows)


@pytest.mark.parametrize(("limit", "chunk", "rows"), [(4, 64, [4, 1, 4]), (5, 2, [5, 2, 2])])
def test_a_pass_has_so_many_texts_unless_a_chunk_has_more(monkeypatch, passes, limit, chunk, rows):
    model, editor = tiny_model(dtype=torch.float64), tuner(steps=1, chunk=chunk)
    together = editor.edit_each(model, MIXED)
    passes.clear()
    monkeypatch.setattr(shared, "GROUP_TEXTS", limit)
    for one, other in zip(together, editor.edit_each(model, MIXED), strict=True):
        same_deltas(one, other)
    assert passes == rows


# The passes.


def test_after_one_clean_pass_only_the_blocks_above_run():
    model, editor = tiny_model(n_layer=4), tuner(layer=1, steps=5)
    editor.edit_each(model, ALONE)  # what a model allows is tried once
    ran = Counter()
    for i in range(4):
        model.architecture.block(i).register_forward_hook(lambda *_, i=i: ran.update([i]))
    editor.edit_each(model, ALONE)
    assert ran == {0: 1, 1: 1, 2: 5, 3: 5}, "the clean pass ends where its last state is read"


def test_a_sequence_of_edits_starts_from_the_model_as_it_stands():
    """The decay and the box are those of the weights with the edits before."""
    model = tiny_model(dtype=torch.float64)
    editor = tuner(ConstrainedFineTuning, weight_decay=0.1)
    first = editor.edit(model, ALONE[0])
    both = editor.extend(model, first, ALONE[1])
    with model.applied(first):
        second = by_hand(model, editor, ALONE[1])
    same_deltas(both, first + second)


def test_in_half_precision_the_change_is_kept_in_single():
    """A step is far below what a weight in bfloat16 can show; an edit holds no more than its numbers."""
    model = tiny_model(dtype=torch.bfloat16)
    editor = tuner(lr=1e-5, steps=3, weight_decay=0.1)
    for edit in editor.edit_each(model, ALONE):
        for change in dense(edit).values():
            assert change.dtype is torch.float32
            assert change.abs().max() == pytest.approx(3e-5, rel=0.05)
            assert change.untyped_storage().nbytes() == 4 * change.numel()
