from dataclasses import replace

import pytest
import torch
from support.generation import FAMILIES, PROMPT, edit_of, uncached

from edit_harness import Choose, Generate
from edit_harness.edits import UNEDITED, Dense, Edit
from edit_harness.model.generate import GeneratedRow, Prompt, drawn, samples
from edit_harness.model.tokens import TooLongError
from edit_harness.testing.tiny import tiny_model


def sample(model, ids, query, *, edit=UNEDITED, stop=None):
    return samples(model, [Prompt(tuple(ids), query, edit, stop)])[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cache_changes_nothing(family):
    model = tiny_model(family)
    ids = model.tokens.encode(PROMPT).ids
    assert len(ids) > 4
    for query in (Generate(PROMPT, 24), Generate(PROMPT, 24, top_k=50, seed=1)):
        new = sample(model, ids, query)
        assert new == uncached(model.module, ids, query)
    assert len(set(new)) > 10


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edit_holds_at_every_token(family):
    model = tiny_model(family)
    edit, ids = edit_of(model), model.tokens.encode(PROMPT).ids
    for query in (Generate(PROMPT, 12), Generate(PROMPT, 12, top_k=50, seed=1)):
        new = sample(model, ids, query, edit=edit)
        with model.applied(edit):
            assert new == sample(model, ids, query)
            assert new == uncached(model.module, ids, query)
        assert new != sample(model, ids, query)


def test_an_edit_that_hooks_cannot_carry_holds_too(model):
    edit = Edit({"transformer.wpe.weight": Dense(torch.eye(512)[:, :32])})
    assert not model.carries(edit)
    ids, query = model.tokens.encode(PROMPT).ids, Generate(PROMPT, 12, top_k=50)
    new = sample(model, ids, query, edit=edit)
    with model.applied(edit):
        assert new == uncached(model.module, ids, query)
    assert new != uncached(model.module, ids, query)


def test_texts_come_in_the_order_of_the_questions(model):
    edit = edit_of(model)
    questions = [
        (edit, Generate("Ada", 5)),
        (edit, Choose("Ada", ("Paris",))),
        (UNEDITED, Generate("Ada", 5)),
        (UNEDITED, Generate("Bob is", 5)),
    ]
    answers = model.answer(questions)
    assert answers == [model.answer([question])[0] for question in questions]
    texts = [answers[i].text for i in (0, 2, 3)]
    assert len(set(texts)) == 3
    for text, (held, query) in zip(texts, [questions[i] for i in (0, 2, 3)], strict=True):
        ids = model.tokens.encode(query.prompt).ids
        with model.applied(held):
            assert text == model.tokens.decode(uncached(model.module, ids, query))


def test_a_prefix_is_read_but_not_returned(model):
    prefix = "Ann is French. "
    (told,) = model.answer([(Edit(prefix=prefix), Generate("Ada", 6))])
    (plain,) = model.answer([(UNEDITED, Generate(prefix + "Ada", 6))])
    assert told == plain
    assert "French" not in told.text


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


def test_samples_are_among_the_k_likeliest(model):
    ids = list(model.tokens.encode(PROMPT).ids)
    for seed in range(5):
        new = sample(model, ids, Generate(PROMPT, 6, top_k=3, seed=seed))
        for i, token in enumerate(new):
            logits = model.module(input_ids=torch.tensor([ids + new[:i]])).logits[0, -1]
            assert token in logits.topk(3).indices.tolist()


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


def test_a_text_ends_before_the_stop_token(model):
    ids = model.tokens.encode(PROMPT).ids
    free = sample(model, ids, Generate(PROMPT, 20))
    stop = next(token for token in free if token != free[0])
    stopped = sample(model, ids, Generate(PROMPT, 20), stop=stop)
    assert stopped == free[: free.index(stop)]
    assert stopped


def test_the_stop_token_is_the_tokenizers_eos(model):
    ids = model.tokens.encode(PROMPT).ids
    free = sample(model, ids, Generate(PROMPT, 20))
    stop = next(token for token in free if token != free[0])
    tokenizer = model.tokens.tokenizer
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(stop)
    (answer,) = model.answer([(UNEDITED, Generate(PROMPT, 20))])
    assert answer.text == model.tokens.decode(free[: free.index(stop)])


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "gptj"])
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


@pytest.mark.parametrize("room", [0, 1, 3])
def test_a_text_ends_where_the_model_is_full(room):
    length = len(tiny_model().tokens.encode(PROMPT).ids)
    model = tiny_model(n_positions=length + room)
    ids = model.tokens.encode(PROMPT).ids
    assert len(sample(model, ids, Generate(PROMPT, 20))) == room


def test_a_prompt_that_does_not_fit_is_refused():
    model = tiny_model(n_positions=4)
    with pytest.raises(TooLongError):
        model.answer([(UNEDITED, Generate(PROMPT, 2))])
