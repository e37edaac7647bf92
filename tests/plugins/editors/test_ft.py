"""Fine-tuning many cases at once gives each what it finds alone, and what plain torch finds.

Adam's first steps are little but signs, so where a gradient is nearly zero rounding decides on a
whole step. Deltas are therefore compared in float64; in fp32, and in families that compute parts
in fp32 whatever their weights are, losses and answers under the edit are.
"""

import copy
import math
from collections import Counter

import pytest
import torch
from support.editors import ALONE, MIXED, REQUESTS

from edit_harness import Choose
from edit_harness.edits import Dense, Edit
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search import texts as shared
from edit_harness_plugins.editors.tuning import ft
from edit_harness_plugins.editors.tuning.ft import ConstrainedFineTuning, FineTuning

FIELDS = {"layer": 0, "steps": 6, "lr": 2e-3, "bias": True}


def tuner(cls=FineTuning, **fields):
    box = {"epsilon": 5e-3} if cls is ConstrainedFineTuning else {}
    return cls(**FIELDS | box | fields)


VARIANTS = [
    tuner(weight_decay=0.1),
    tuner(position="teacher", bias=False),
    tuner(ConstrainedFineTuning, position="teacher", weight_decay=0.1),
    tuner(ConstrainedFineTuning, bias=False),
]
NAMES = ["ft-decay", "ft-teacher", "ft-l-teacher-decay", "ft-l"]


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


def same_behaviour(model, one, other, *, atol):
    """Compare losses, and log-probabilities under the edits."""
    assert one.info["steps"] == other.info["steps"]
    assert one.info["loss"] == pytest.approx(other.info["loss"], abs=atol)
    queries = [Choose(r.text, (r.target_new, "Fiat")) for r in REQUESTS]
    answers = [model.answer([(edit, query) for query in queries]) for edit in (one, other)]
    for left, right in zip(*answers, strict=True):
        for i in range(2):
            assert left.nll(i) == pytest.approx(right.nll(i), abs=atol)


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
    losses = []
    while len(losses) < editor.steps and not (losses and losses[-1] < editor.stop):
        seen = []
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


@pytest.mark.parametrize("family", ["llama", "gptj", "gemma2", "bloom"])
def test_other_families_find_what_plain_torch_finds(family, passes):
    """In fp32, where Adam's steps enlarge rounding: what the edits answer."""
    model, editor = tiny_model(family), tuner(weight_decay=0.1)
    together = editor.edit_each(model, ALONE)
    assert passes == [4] * editor.steps
    for batch, found in zip(ALONE, together, strict=True):
        same_behaviour(model, found, by_hand(model, editor, batch), atol=5e-3)


# Who takes a step.


@pytest.mark.parametrize(
    ("stop", "steps", "rows"),
    [
        (3.6, [3, 8, 8, 4], [4, 4, 4, 4, 2, 2, 2, 2]),
        (3.85, [3, 7, 8, 3], [4, 4, 4, 2, 2, 2, 2, 1]),
    ],
)
def test_a_finished_case_keeps_its_change(stop, steps, rows, passes):
    """Others go on, and so would Adam's momentum; half of the rows gone, it is laid out anew."""
    model = tiny_model(dtype=torch.float64)
    editor = tuner(steps=8, lr=5e-3, stop=stop)
    together = editor.edit_each(model, ALONE)
    assert [edit.info["steps"] for edit in together] == steps
    assert passes == rows
    for batch, found in zip(ALONE, together, strict=True):
        same_deltas(found, by_hand(model, editor, batch))


def test_a_case_that_needs_no_step_is_left_as_it_is(model):
    (edit,) = tuner(steps=5, stop=1e3).edit_each(model, ALONE[:1])
    assert edit.info["steps"] == 1
    assert not any(change.any() for change in dense(edit).values())


def test_a_chunk_below_the_threshold_takes_no_step_while_others_do():
    """So the steps of two cases differ in number, and with them Adam's correction of its means."""
    model = tiny_model(dtype=torch.float64)
    probe = {r.target_new: tuner(steps=1).edit(model, [r]).info["loss"] for r in REQUESTS}
    easy, *_, hard = sorted(REQUESTS, key=lambda r: probe[r.target_new])
    stop = (probe[easy.target_new] + min(v for k, v in probe.items() if k != easy.target_new)) / 2
    batches = [[easy, hard], [hard, easy], [hard], [hard, hard, easy]]
    editor = tuner(steps=4, chunk=1, stop=stop)
    for batch, found in zip(batches, editor.edit_each(model, batches), strict=True):
        same_deltas(found, by_hand(model, editor, batch))


def test_a_case_is_done_by_its_mean_though_a_chunk_is_still_above(passes):
    model = tiny_model(dtype=torch.float64)
    batches = [REQUESTS[:2], [REQUESTS[1]], [REQUESTS[2]]]
    editor = tuner(steps=3, chunk=1, stop=6.3)
    together = editor.edit_each(model, batches)
    assert [edit.info["steps"] for edit in together] == [1, 3, 3]
    assert passes == [3, 1] * 3, "its rows are still run"
    for batch, found in zip(batches, together, strict=True):
        same_deltas(found, by_hand(model, editor, batch))


@pytest.mark.parametrize("chunk", [1, 3])
def test_more_requests_than_a_chunk_are_taken_one_chunk_after_another(chunk):
    model = tiny_model(dtype=torch.float64)
    editor = tuner(chunk=chunk, weight_decay=0.1)
    together = editor.edit_each(model, MIXED)
    for batch, found in zip(MIXED, together, strict=True):
        same_deltas(found, by_hand(model, editor, batch))
    whole = tuner(weight_decay=0.1).edit(model, MIXED[3])
    assert together[3].info["loss"] != pytest.approx(whole.info["loss"], rel=1e-3)


# The box.


def test_every_case_stays_in_its_own_box_and_reaches_its_walls(model):
    editor = tuner(ConstrainedFineTuning, lr=5e-3, epsilon=1e-3, steps=1)
    found = editor.edit_each(model, ALONE)
    for edit in found:
        for change in dense(edit).values():
            assert change.abs().max() == torch.tensor(1e-3)
            assert (change.abs() == torch.tensor(1e-3)).float().mean() > 0.9
    signs = [torch.cat([c.sign().flatten() for c in dense(e).values()]) for e in found]
    assert (signs[0] != signs[1]).float().mean() > 0.1


# What shares passes.


@pytest.mark.parametrize(("cases", "rows"), [(2, 2), (1.99, 1), (0, 1)])
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


@pytest.mark.parametrize(
    ("limit", "chunk", "rows"),
    [(5, 64, [5, 4]), (4, 64, [4, 1, 4]), (1, 64, [1, 1, 2, 1, 4]), (5, 2, [5, 2, 2])],
)
def test_a_pass_has_so_many_texts_unless_a_chunk_has_more(monkeypatch, passes, limit, chunk, rows):
    model, editor = tiny_model(dtype=torch.float64), tuner(steps=1, chunk=chunk)
    together = editor.edit_each(model, MIXED)
    assert passes == ([9] if chunk == 64 else [7, 2])
    passes.clear()
    monkeypatch.setattr(shared, "GROUP_TEXTS", limit)
    for one, other in zip(together, editor.edit_each(model, MIXED), strict=True):
        same_deltas(one, other)
    assert passes == rows


def test_texts_of_unlike_lengths_do_not_share_passes(monkeypatch):
    model, editor = tiny_model(), tuner()
    texts = [[editor._text(model, request)] for request in REQUESTS * 2]
    lengths = [len(text.ids) for (text,) in texts]
    for spread in (1.0, 1.5):
        monkeypatch.setattr(shared, "SPREAD", spread)
        groups = list(shared.grouped(texts, 64, 1))
        assert sorted(i for group in groups for i in group) == list(range(8))
        assert 1 < len(groups) < 8
        for group in groups:
            assert max(lengths[i] for i in group) <= spread * min(lengths[i] for i in group)


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
