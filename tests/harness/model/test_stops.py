"""Texts that end at a stop, against the same texts generated without it and cut."""

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.generation import PROMPT, TEXTS, edit_of, passes, switched, tied

from edit_harness import Generate
from edit_harness.edits import UNEDITED, Edit
from edit_harness.model.generate import Prompt, samples, stop_at, stopped
from edit_harness.model.tokens import Tokens
from edit_harness.testing.tiny import tiny_model, tiny_tokenizer


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
