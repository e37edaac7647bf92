from dataclasses import replace

import pytest
import torch
from support.generation import PROMPT, uncached

from edit_harness import Choose, Generate
from edit_harness.edits import UNEDITED, Edit
from edit_harness.model.generate import GeneratedRow, Prompt, drawn, samples
from edit_harness.testing.tiny import tiny_model


def sample(model, ids, query):
    return samples(model, [Prompt(tuple(ids), query)])[0]


def test_a_prefix_is_read_but_not_returned(model):
    """Texts come in the order of the questions, also between scores."""
    prefix = "Ann is French. "
    asked = [
        (Edit(prefix=prefix), Generate("Ada", 6)),
        (UNEDITED, Choose("Ada", ("Paris",))),
        (UNEDITED, Generate(prefix + "Ada", 6)),
        (UNEDITED, Generate("Bob is", 5)),
    ]
    told, _, plain, other = model.answer(asked)
    assert told == plain != other
    assert "French" not in told.text
    ids = model.tokens.encode("Bob is").ids
    assert other.text == model.tokens.decode(uncached(model.module, ids, asked[3][1]))


def test_a_seed_fixes_the_text_whatever_else_is_drawn(model):
    def text(seed):
        return model.answer([(UNEDITED, Generate(PROMPT, 20, top_k=50, seed=seed))])[0].text

    first = text(1)
    state = torch.get_rng_state()
    assert text(2) != first
    torch.rand(3)
    assert text(1) == first
    torch.set_rng_state(state)
    text(3)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_draw_follows_the_probabilities():
    logits = torch.tensor([0.1, 0.2, 0.3, 1e-9, 1e-9]).log()

    def draws(top_k, count):
        line = GeneratedRow(Prompt((1,), Generate("", top_k=top_k)), left=count)
        for _ in range(count):
            drawn(logits[None], [line])
        return line.new

    two = draws(2, 2000)
    assert set(two) == {1, 2}
    assert two.count(2) / 2000 == pytest.approx(0.6, abs=0.04)
    assert set(draws(1, 20)) == {2}
    assert set(draws(99, 500)) == {0, 1, 2}


def test_the_stop_token_is_the_tokenizers_eos(model):
    ids = model.tokens.encode(PROMPT).ids
    free = sample(model, ids, Generate(PROMPT, 20))
    stop = next(token for token in free if token != free[0])
    tokenizer = model.tokens.tokenizer
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(stop)
    (answer,) = model.answer([(UNEDITED, Generate(PROMPT, 20))])
    assert answer.text == model.tokens.decode(free[: free.index(stop)])


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_text_to_the_end_has_all_its_tokens(family):
    """Also past the tokenizer's EOS, and however much the edit puts in front."""
    model = tiny_model(family)
    ids = model.tokens.encode(PROMPT).ids
    query = Generate(PROMPT, 99, top_k=5, seed=3, max_tokens=24, to_the_end=True)
    free = sample(model, ids, replace(query, max_new_tokens=24 - len(ids)))
    assert len(free) == 24 - len(ids) > 8
    assert free == uncached(model.module, ids, replace(query, max_new_tokens=len(free)))
    tokenizer = model.tokens.tokenizer
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(free[3])
    text = model.tokens.decode(list(ids) + free).removeprefix(model.tokens.decode(ids))
    asked = [query, replace(query, to_the_end=False), replace(query, max_tokens=len(ids) - 1)]
    whole, stopped, none = model.answer([(UNEDITED, each) for each in asked])
    assert whole.text == text
    assert text.startswith(stopped.text)
    assert len(stopped.text) < len(text)
    assert none.text == ""
    (behind,) = model.answer([(Edit(prefix="Bob is not "), query)])
    longer = model.tokens.encode("Bob is not " + PROMPT).ids
    new = sample(model, longer, replace(query, max_new_tokens=len(free)))
    assert behind.text == model.tokens.continuation(longer, new)
