"""Edited passes that begin with the clean ones' hidden states, against passes from the start."""

import pytest
import torch
from support.oracles import logprobs
from support.queries import PROMPTS, QUERIES, Shift, edits_of, low_rank

from edit_harness import Choose, Generate, NextToken
from edit_harness.edits import UNEDITED, Dense, Edit
from edit_harness.model import reuse
from edit_harness.model.reuse import CleanTexts, Start, start_of_edit
from edit_harness.testing import tiny_model

FAMILIES = ["gpt2", "gptj", "llama", "mistral", "gemma2", "opt", "bloom"]


def whole(model, questions, monkeypatch):
    """The answers from passes that begin at the start."""
    with monkeypatch.context() as patch:
        patch.setattr(reuse, "start_of_edit", lambda model, edit: None)
        return model.answer(questions)


@pytest.mark.parametrize(
    ("family", "side", "dtype", "atol"),
    [
        *((family, "right", torch.float32, 1e-4) for family in FAMILIES),
        ("gpt2", "left", torch.float32, 1e-4),
        ("llama", "left", torch.float32, 1e-4),
        ("gpt2", "right", torch.float64, 1e-9),
        ("gpt2", "right", torch.bfloat16, 0.2),
    ],
)
def test_begun_passes_answer_as_whole_ones(family, side, dtype, atol, monkeypatch):
    """Mixed edits in one call; sums come in another order, and bfloat16 has 8 bits."""
    model = tiny_model(family, dtype, padding=side)
    edits = edits_of(model)
    asked = [q for q in QUERIES if dtype == torch.float32 or isinstance(q, Choose)]
    questions = [(edit, query) for query in asked for edit in (UNEDITED, *edits.values())]
    expected = logprobs(whole(model, questions, monkeypatch))
    answers = logprobs(model.answer(questions))
    torch.testing.assert_close(answers, expected, rtol=0, atol=atol)
    assert expected.std() > 0.1
    assert start_of_edit(model, edits["one projection"]) or "post_norm" in model.architecture.flags


def counted(model, *edits):
    """Count the positions of coming passes by block, the trials for some edits apart."""
    assert model.packs
    assert model.sees(32)
    for edit in edits:
        assert start_of_edit(model, edit)
    positions = [0] * model.architecture.layers
    for layer in range(model.architecture.layers):

        def hook(module, args, output, layer=layer):
            positions[layer] += args[0].shape[:2].numel()

        model.architecture.block(layer).register_forward_hook(hook)
    return positions


def test_a_later_editor_runs_only_what_it_changes():
    model = tiny_model(num_hidden_layers=4)
    base, queries = CleanTexts(model), [q for q in QUERIES if isinstance(q, Choose)]
    one, other, deep = low_rank(model, 1), low_rank(model, 1, seed=3), low_rank(model, 2)
    positions = counted(model, one, deep)
    model.answer([(edit, query) for edit in (UNEDITED, one) for query in queries], base)
    tree = positions[0]
    assert positions == [tree, tree, 2 * tree, 2 * tree]
    positions[:] = [0] * 4
    model.answer([(other, query) for query in queries], base)
    assert positions == [0, 0, tree, tree]
    positions[:] = [0] * 4
    answers = model.answer([(deep, query) for query in queries], base)
    # Blocks 0 to 2 run once more without the edit: nobody had asked for what goes into block 3.
    assert positions == [tree, tree, tree, tree]
    expected = [model.answer([(deep, query)])[0] for query in queries]
    torch.testing.assert_close(logprobs(answers), logprobs(expected), rtol=0, atol=1e-4)


def test_what_was_not_asked_before_is_asked(model):
    base, edit, prompt = CleanTexts(model), low_rank(model, 0), PROMPTS[0]
    model.answer([(UNEDITED, Choose(prompt, ("Paris",)))], base)
    positions = counted(model, edit)
    later = [(UNEDITED, Choose(prompt, ("Oslo", "Paris"))), (UNEDITED, NextToken(prompt))]
    later += [(edit, Choose("Ann was born in", ("Oslo",))), (edit, Generate(prompt, 4))]
    answers = model.answer(later, base)
    assert positions[0] > 0
    fresh = model.answer(later)
    torch.testing.assert_close(logprobs(answers[:3]), logprobs(fresh[:3]), rtol=0, atol=1e-5)
    assert answers[3] == fresh[3]


def test_where_edits_start(model):
    edits = edits_of(model)
    down = model.architecture.projection(0).name
    starts = {name: start_of_edit(model, edit) for name, edit in edits.items()}
    assert starts["one projection"] == starts["dense"] == Start(1, down)
    assert starts["several layers"] == Start(1, down)
    assert starts["the last block's"] == starts["inside a block"] == starts["adaptor"] == Start(1)
    assert starts["prefix"] is starts["nothing"] is None
    embedding = Edit({"transformer.wpe.weight": Dense(torch.eye(512)[:, :32])})
    assert start_of_edit(model, embedding) is None
    assert start_of_edit(model, Edit(adaptors={"lm_head": Shift()})) is None
