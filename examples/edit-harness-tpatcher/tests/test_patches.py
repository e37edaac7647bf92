"""Patches put out what their definition says, and learn when to."""

import pytest
import torch
from edit_harness import (
    Choose,
    DataError,
    Drift,
    Generate,
    PluginError,
    Request,
    UsageError,
    load_model,
)
from edit_harness.edits import Edit, Rows
from edit_harness.model import Model
from edit_harness.registry.settings import configure, shape_of
from edit_harness.testing import tiny_model

from edit_harness_tpatcher.editor import TPatcher
from edit_harness_tpatcher.patch import Patches

MLP = "transformer.h.1.mlp"
TRAINED = {"steps": 100, "lr": 0.2, "hardest": 1000}
"""Fields by which a tiny random model learns."""
FACTS = [
    Request("{} lives in", "Ann", "Rome", "Oslo"),
    Request("The firm of {} is", "Bob", "Saab", "Fiat"),
    Request("The mother tongue of {} is", "Ada", "French", "English"),
]


def ready(model: Model, **fields):
    shape = shape_of(model.module.config, model.source.family)
    editor = configure(TPatcher(**fields), shape, "tpatcher").editor
    editor.check(model)
    editor.prepare(model)
    return editor


def drawn(count=3, width=8):
    noise = torch.Generator().manual_seed(0)
    sizes = [(count, width), (count,), (count, width)]
    return Patches(*(torch.randn(size, generator=noise) for size in sizes))


def rows(*shape):
    ids = torch.zeros(shape, dtype=torch.long)
    return Rows(ids, ids == 0, ids, {}, {})


def nll(model: Model, edit: Edit, fact: Request):
    (answer,) = model.answer([(edit, Choose(fact.text, (fact.target_new,)))])
    return answer.nll(0)


def test_outputs_are_those_of_a_loop_over_neurons():
    patches, noise = drawn(), torch.Generator().manual_seed(1)
    inputs, outputs = (torch.randn(2, 5, 8, generator=noise) for _ in range(2))
    found = patches(inputs, outputs, rows(2, 5))
    for row in range(2):
        for token in range(5):
            wanted = outputs[row, token].clone()
            for key, bias, value in zip(*patches.tensors, strict=True):
                match = inputs[row, token] @ key + bias
                wanted += match * (1 + torch.erf(match / 2**0.5)) / 2 * value
            torch.testing.assert_close(found[row, token], wanted)
    assert not torch.equal(found, outputs)


def test_outputs_keep_their_precision():
    inputs = torch.ones(1, 1, 8, dtype=torch.bfloat16)
    assert drawn()(inputs, inputs, rows(1, 1)).dtype == torch.bfloat16


@pytest.mark.parametrize("biases, values", [((2,), (3, 8)), ((3,), (3, 7)), ((3, 1), (3, 8))])
def test_patches_that_do_not_belong_together_are_refused(biases, values):
    with pytest.raises(ValueError, match="patches"):
        Patches(torch.ones(3, 8), torch.ones(biases), torch.ones(values))


def test_the_loss_is_the_papers():
    """Written down neuron by neuron, for one request with several wrong tokens."""
    editor = ready(tiny_model(), activation_weight=2.0, hardest=5)
    seen = []
    plain = editor._penalty
    editor._penalty = lambda lesson: seen.append(lesson) or plain(lesson)
    editor.steps = 2
    editor.edit(tiny_model(), FACTS[1:2])
    lesson = seen[-1]
    count = len(lesson.new)
    fires, silent, below = 0.0, 0.0, 0.0
    for i, (key, bias, _) in enumerate(zip(*lesson.new.tensors, strict=True)):
        own = lesson.wrong[i] @ key + bias
        match = sorted(float((place @ key + bias).detach()) for place in lesson.memory)[-5:]
        fires += torch.exp(-own) / count
        silent += sum(torch.tensor(m + 3.0).exp() for m in match) / 5 / count
        below += sum(torch.exp(m - own + 3.0) for m in match) / 5 / count
    torch.testing.assert_close(plain(lesson), 2.0 * fires + 10.0 * (silent + below))


def test_each_wrong_token_gets_a_patch():
    model = tiny_model()
    for fact in FACTS:
        parts = model.tokens.split(fact.text, fact.target_new)
        batch = model.batch([parts.inputs])
        reads = batch.places([0] * len(parts.places), parts.places)
        wrong = model.logits(batch, reads).argmax(-1) != torch.tensor(parts.target)
        edit = ready(model, steps=1).edit(model, [fact])
        assert edit.info["patches"] == int(wrong.sum()) > 0
        assert len(edit.adaptors[MLP]) == int(wrong.sum())


def test_what_the_model_says_already_gets_none():
    model = tiny_model()
    fact = FACTS[0]
    (said,) = model.answer([(Edit(), Generate(fact.text, 1))])
    known = Request(fact.prompt, fact.subject, said.text.strip())
    assert len(model.tokens.split(known.text, known.target_new).target) == 1
    edit = ready(model).edit(model, [known])
    assert edit.changes_nothing
    assert edit.info["patches"] == 0
    both = ready(model).edit(model, [known, FACTS[1]])
    assert nll(model, both, FACTS[1]) < nll(model, Edit(), FACTS[1])


def test_patches_are_off_in_the_memory_and_on_at_the_edit():
    model = tiny_model()
    seen = []
    for weight in (10.0, 0.0):
        editor = ready(model, **TRAINED | {"memory_weight": weight})
        patches = (edit := editor.edit(model, FACTS[:1])).adaptors[MLP]
        assert (patches.match(edit.state[f"{MLP}.queries"]).diagonal() > 0).all()
        memory = ready(model)._memory
        seen.append(float((patches.match(memory) < 0).float().mean()))
    assert seen[0] > 0.98 > seen[1]


def test_texts_of_the_memory_stay_nearer_to_what_they_were_than_without_it():
    model = tiny_model()
    texts = ready(model)._texts()
    moved = []
    for weight in (10.0, 0.0):
        edit = ready(model, **TRAINED | {"memory_weight": weight}).edit(model, FACTS[:1])
        drifts = model.answer([(edit, Drift(text)) for text in texts])
        moved.append(sum(drift.forward for drift in drifts) / len(texts))
    assert moved[0] < 0.1 * moved[1]


def test_later_requests_leave_earlier_patches_and_what_they_do():
    editor = ready(model := tiny_model(), **TRAINED)
    edits = [editor.edit(model, FACTS[:1])]
    for fact in FACTS[1:]:
        edits.append(editor.extend(model, edits[-1], [fact]))
    for tensor, first in zip(
        edits[-1].adaptors[MLP].tensors, edits[0].adaptors[MLP].tensors, strict=True
    ):
        assert torch.equal(tensor[: len(first)], first)
    assert all(nll(model, edits[-1], fact) < 0.5 * nll(model, Edit(), fact) for fact in FACTS)
    assert edits[-1].info["patches"] == len(edits[-1].adaptors[MLP])


def test_requests_of_one_edit_are_taken_in_turn():
    editor = ready(model := tiny_model(), steps=5)
    together = editor.edit(model, FACTS)
    in_turn = editor.extend(
        model, editor.extend(model, editor.edit(model, FACTS[:1]), FACTS[1:2]), FACTS[2:]
    )
    for one, two in zip(together.adaptors[MLP].tensors, in_turn.adaptors[MLP].tensors, strict=True):
        torch.testing.assert_close(one, two)


def test_an_edit_of_another_kind_is_not_extended():
    model = tiny_model()
    for other in ({"transformer.h.0.mlp": drawn(1, 32)}, {MLP: lambda i, o, r: o}):
        with pytest.raises(PluginError, match="cannot extend it"):
            ready(model, steps=1).extend(model, Edit(adaptors=other), FACTS[:1])


def test_a_memory_of_ones_own_is_read_and_identified(tmp_path):
    path = tmp_path / "memory.txt"
    path.write_text("Ann lives in Oslo.\n\n Bob works in Rome.\n", encoding="utf-8")
    editor = ready(tiny_model(), memory=str(path))
    assert editor._texts() == ["Ann lives in Oslo.", "Bob works in Rome."]
    assert editor.provenance != ready(tiny_model()).provenance
    assert not TPatcher(memory_weight=0.0).provenance
    assert TPatcher(memory_weight=0.0).variant == "no memory"


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_memory_of_no_use_is_an_error_for_users(tmp_path, content):
    path = tmp_path / "memory.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match="the memory"):
        ready(tiny_model(), memory=str(path))


def test_a_layer_that_the_model_has_not_is_an_error_for_users():
    with pytest.raises(PluginError, match="no layer 9"):
        ready(tiny_model(), layer=9)
    with pytest.raises(PluginError, match="no module of its own"):
        ready(tiny_model("opt"))
    with pytest.raises(UsageError, match="steps"):
        ready(tiny_model(), steps=0)


def test_a_model_of_half_precision_is_edited_by_patches_in_single():
    model = tiny_model(dtype=torch.bfloat16)
    edit = ready(model, **TRAINED).edit(model, FACTS[:1])
    assert all(tensor.dtype == torch.float32 for tensor in edit.adaptors[MLP].tensors)
    assert nll(model, edit, FACTS[0]) < 0.5 * nll(model, Edit(), FACTS[0])


def test_an_edit_on_pocket_does_what_was_asked():
    model = load_model("pocket")
    fact = Request("{} is a citizen of", "Sophia Loren", "Japan")
    edit = ready(model).edit(model, [fact])
    assert nll(model, edit, fact) < 0.5
    assert nll(model, Edit(), fact) > 2
    (text,) = model.answer([(edit, Generate(fact.text, 2))])
    assert "Japan" in text.text
