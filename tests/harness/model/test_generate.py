"""Generated texts: many prompts at once against each alone and without a cache; seeds; stops.

Tokens are compared for equality: batching moves the logits of these random models by less than
1e-4, and seeds are fixed, so that no text hangs on a tie.
"""

import re
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from support.generation import FAMILIES, PROMPT, TEXTS, edit_of, passes, switched, tied, uncached
from torch import nn

from edit_harness import Choose, Generate
from edit_harness.edits import UNEDITED, Edit
from edit_harness.model.generate import (
    KEPT,
    Chooser,
    GeneratedRow,
    Prompt,
    samples,
    stop_at,
    stopped,
)
from edit_harness.model.tokens import Tokens
from edit_harness.testing.tiny import tiny_model, tiny_tokenizer


def mixed(model):
    """Prompts that differ in whatever a prompt can differ in."""
    edits = [edit_of(model), UNEDITED, edit_of(model, 1), tied(model), switched(model)]
    edits.append(edit_of(model, 2) + Edit(prefix="Ann is French. "))
    prompts = []
    for i, edit in enumerate(edits):
        for j, text in enumerate(TEXTS):
            query = Generate(text, 5 + 3 * ((i + j) % 3), top_k=1 + 9 * (j % 2), seed=i)
            prompts.append(Prompt(model.tokens.encode(edit.prefix + text).ids, query, edit))
    return prompts


def alone(model, prompt):
    """The oracle: one prompt, the weights written, no cache."""
    with applied_and_switched(model, prompt):
        new = uncached(model.module, prompt.ids, prompt.query)
    return new[: new.index(prompt.stop)] if prompt.stop in new else new


@contextmanager
def applied_and_switched(model, prompt):
    """The edit, its adaptor a hook of our own that finds the prompt's end by its column."""
    handles = []
    for name, adaptor in prompt.edit.adaptors.items():
        last = len(prompt.ids) - 1

        def hook(_, args, output, value=adaptor.value, last=last):
            flat = output.view(-1, output.shape[-1]).clone()
            inputs = args[0].reshape(-1, args[0].shape[-1])
            flat[last:] += inputs[: last + 1, 0].mean().sign() * value
            return flat.view_as(output)

        handles.append(model.module.get_submodule(name).register_forward_hook(hook))
    try:
        with model.applied(prompt.edit):
            yield
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.parametrize(
    ("family", "padding"),
    [*((family, "right") for family in FAMILIES), ("gpt2", "left"), ("llama", "left")],
)
def test_together_is_as_alone(family, padding):
    model = tiny_model(family, padding=padding)
    assert model.pads
    prompts = mixed(model)
    assert len({len(p.ids) for p in prompts}) >= 4
    expected = [alone(model, prompt) for prompt in prompts]
    assert samples(model, prompts) == expected
    plain = [uncached(model.module, p.ids, p.query) for p in prompts]
    felt = {p.edit for p, a, b in zip(prompts, expected, plain, strict=True) if a != b}
    assert felt == {p.edit for p in prompts} - {UNEDITED}


def test_an_adaptor_of_the_head_sees_whole_rows():
    model = tiny_model("gptj")
    edit = switched(model, "lm_head", model.module.lm_head.out_features)
    prompts = [Prompt((i, 342, 261, i + 1), Generate("", 6), edit) for i in range(40, 60)]
    assert samples(model, prompts) == [alone(model, prompt) for prompt in prompts]


def test_each_text_ends_at_its_own_stop(model):
    free = mixed(model)
    long = samples(model, free)
    stops = [new[i % len(new)] for i, new in enumerate(long)]
    stopped = [replace(p, stop=s) for p, s in zip(free, stops, strict=True)]
    cut = [new[: new.index(stop)] for new, stop in zip(long, stops, strict=True)]
    assert samples(model, stopped) == cut
    assert len({len(new) for new in cut}) > 3
    assert [] in cut


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_each_text_ends_where_the_model_is_full(family):
    positions = "n_positions" if family == "gpt2" else "max_position_embeddings"
    model = tiny_model(family, **{positions: 16})
    ids = model.tokens.encode("Ada lives in Paris").ids * 4
    lengths = [16, 15, 12, 5, 3, 1]
    prompts = [Prompt(ids[:n], Generate("", 14, top_k=5)) for n in lengths]
    new = samples(model, prompts)
    assert list(map(len, new)) == [0, 1, 4, 11, 13, 14]
    fitting = [
        replace(p, query=Generate("", len(n), top_k=5)) for p, n in zip(prompts, new, strict=True)
    ]
    assert new == [alone(model, p) for p in fitting]


@pytest.mark.parametrize(("rows", "tokens"), [(3, 4096), (None, 60), (None, 1), (1, 4096)])
def test_batches_keep_the_budget(rows, tokens):
    model = tiny_model(batch_rows=rows, batch_tokens=tokens)
    prompts = mixed(model)
    expected = samples(tiny_model(), prompts)
    assert model.pads
    with passes(model) as seen:
        assert samples(model, prompts) == expected
    firsts = [(n, width) for n, width in seen if width > 1]
    assert max(n for n, _ in seen) <= (rows or 4096)
    shortest = min(p.query.max_new_tokens for p in prompts)
    assert all(n == 1 or n * (width + shortest) <= KEPT * tokens for n, width in firsts)
    assert (max(n for n, _ in firsts) > 1) == (rows != 1 and tokens > 1)


class Unpadded(nn.Module):
    """A module that heeds neither mask nor positions; or, ``lonely``, whose rows get mixed up."""

    def __init__(self, module, *, lonely):
        super().__init__()
        self.transformer, self.lm_head = module.transformer, module.lm_head
        self.config, self.lonely = module.config, lonely
        object.__setattr__(self, "whole", module)

    def forward(self, input_ids, attention_mask=None, past_key_values=None, use_cache=False):
        out = self.whole(input_ids=input_ids, past_key_values=past_key_values, use_cache=use_cache)
        if self.lonely and len(input_ids) > 1:
            out.logits = out.logits.flip(0)
        return out


@pytest.mark.parametrize("lonely", [False, True])
def test_a_model_that_fails_the_trial_is_right_all_the_same(lonely):
    model = tiny_model()
    prompts = mixed(model)
    expected = samples(model, prompts)
    model.module = Unpadded(model.module, lonely=lonely)
    model.takes = frozenset()
    del model.pads
    assert not model.pads
    with passes(model) as seen:
        assert samples(model, prompts) == expected
    assert max(n for n, _ in seen) == 1
    lengths = {len(p.ids) for p in prompts}
    assert {width for _, width in seen} <= lengths | {1}


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
        choose = Chooser([line], logits.device)
        return [int(choose(logits[None])) for _ in range(count)]

    two = draws(2, 2000)
    assert set(two) == {1, 2}
    assert two.count(2) / 2000 == pytest.approx(0.6, abs=0.04)
    assert set(draws(1, 20)) == {2}
    assert set(draws(99, 500)) == {0, 1, 2}


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


def cut(text, stop):
    return text[: stop_at(text, stop)]


SOME = st.text("ab \n\t", max_size=12)


@given(SOME, st.text("ab \n", max_size=3))
@example("\n A = x\nB", "\n")
@example("\n\n\n", "\n\n")
@example("abc", "c")
def test_the_cut(text, stop):
    """The naive version: walk on from the first character that is no white space."""
    starts = [i for i in range(len(text)) if text[:i].strip() or not text[i].isspace()]
    ends = [i for i in starts if stop and text[i : i + len(stop)] == stop]
    assert cut(text, stop) == (text[: ends[0]] if ends else text)


@pytest.mark.parametrize("kind", ["gpt2", "llama2", "llama3", "qwen2"])
@pytest.mark.parametrize("stop", ["\n", "Rome", "é\n"])
@pytest.mark.parametrize("text", ["Ada in Rome\nand Oslo", "日本 Café\n\nAda", "\n\n Rome\né"])
def test_the_watch_sees_the_stop_when_it_comes(kind, stop, text):
    """Token by token against a watch that decodes everything; no later where a token has the stop."""
    tokens = Tokens(tiny_tokenizer(kind))
    prompt = tokens.encode(PROMPT).ids
    new = tokens.encode(PROMPT + text).ids[len(prompt) :]
    told = [stopped(tokens, new[: i + 1], stop) for i in range(len(new))]
    texts = [tokens.continuation(prompt, new[: i + 1]) for i in range(len(new))]
    there = [cut(each, stop) != each for each in texts]
    first = there.index(True) if any(there) else None
    assert (told.index(True) if any(told) else None) == first
    assert all(is_there for said, is_there in zip(told, there, strict=True) if said)


def common_letters(text):
    """Letters that stand in the text, not at its beginning: stops that come early and late."""
    return dict.fromkeys(re.findall(r"[a-z]", text.lstrip()[1:]))


@pytest.mark.parametrize("family", ["gpt2", "llama", "bloom"])
def test_rows_with_stops_are_as_without_neighbours(family):
    """Rows of many edits, lengths, seeds and stops, together, alone and without stops."""
    model = tiny_model(family)
    edits = [UNEDITED, edit_of(model), tied(model), switched(model), Edit(prefix="Ann is French. ")]
    questions = [
        (edit, Generate(text, 6 + 5 * (i % 3), top_k=1 + 9 * (j % 2), seed=i))
        for i, edit in enumerate(edits)
        for j, text in enumerate(TEXTS)
    ]
    free = [answer.text for answer in model.answer(questions)]
    letters = [[*common_letters(text), ""] for text in free]
    stops = [some[i % len(some)] for i, some in enumerate(letters)]
    asked = [
        (edit, replace(query, stop=stop))
        for (edit, query), stop in zip(questions, stops, strict=True)
    ]
    together = [answer.text for answer in model.answer(asked)]
    assert together == [cut(text, stop) for text, stop in zip(free, stops, strict=True)]
    assert together == [model.answer([each])[0].text for each in asked]
    assert together != free


def test_a_row_ends_with_the_token_that_brings_its_stop(model):
    ids = model.tokens.encode(PROMPT).ids
    free = samples(model, [Prompt(ids, Generate(PROMPT, 30))])[0]
    texts = [model.tokens.continuation(ids, free[: i + 1]) for i in range(30)]
    stop = texts[9][len(texts[8]) :][-1]
    first = next(i for i, text in enumerate(texts) if cut(text, stop) != text)
    with passes(model) as seen:
        (new,) = samples(model, [Prompt(ids, Generate(PROMPT, 30, stop=stop))])
    assert new == free[: first + 1]
    assert len(seen) == first + 1 < 30


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_several_stops_are_those_of_a_naive_loop(family):
    """Token by token, without a cache, until the text has a stop anywhere; rows of many edits together."""
    model = tiny_model(family)
    edits = [UNEDITED, edit_of(model), tied(model)]
    asked = [(edit, Generate(text, 14)) for edit in edits for text in TEXTS]
    free = [answer.text for answer in model.answer(asked)]
    letters = [[*common_letters(text)] for text in free]
    stops = [(*some[i % 3 :: 3], "\n") for i, some in enumerate(letters)]
    stopping = [(e, replace(q, stop=s)) for (e, q), s in zip(asked, stops, strict=True)]
    for (edit, query), answer in zip(stopping, model.answer(stopping), strict=True):
        ids, new, text = model.tokens.encode(query.prompt).ids, [], ""
        with model.applied(edit):
            while len(new) < 14 and not any(stop in text for stop in query.stop):
                new += uncached(model.module, (*ids, *new), replace(query, max_new_tokens=1))
                text = model.tokens.continuation(ids, new)
        first = min((text.find(s) for s in query.stop if s in text), default=len(text))
        assert (answer.text, answer.tokens) == (text[:first], tuple(new))
    assert len({len(answer.tokens) for answer in model.answer(stopping)}) > 3
