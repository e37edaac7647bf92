"""The judge on this machine: a real model is asked, through its template, in batches."""

from copy import deepcopy

import pytest
from support.chatty_pocket import chatty_pocket
from support.judge_keys import KEYS, PAIR

from edit_harness import DataError, Generate, Reply, UsageError
from edit_harness.edits import UNEDITED
from edit_harness.interfaces import ModelSource
from edit_harness.registry.settings import Named, described
from edit_harness_plugins.judges.model.hf import HF
from edit_harness_plugins.judges.model.prompts import question
from edit_harness_plugins.loading.load import load

REPLIES = [PAIR, *(Reply("", "12", KEYS[kind]) for kind in ("formula", "match"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return chatty_pocket(tmp_path_factory.mktemp("judge") / "pocket")


@pytest.fixture(scope="module")
def judge(folder):
    return HF(model=str(folder), device="cpu", max_new_tokens=4)


def test_it_is_asked_what_a_server_is_asked_and_says_what_the_model_says(judge, folder):
    """The first of the answers is the model's own to the same question."""
    reply = Reply("", "Rome", KEYS["match"])
    model = load(ModelSource(str(folder)), device="cpu", chat_template=True)
    text = question(reply, judge.seed).text
    (answer,) = model.answer([(UNEDITED, Generate(text, 4))])
    (found,) = judge.judge([reply])
    assert found.raw.startswith(f"{answer.text}\n")
    assert "assistant:" in model.tokens.decode(model.tokens.encode(text).ids)


def test_a_model_that_cannot_judge_gives_no_verdict_together_or_alone(judge, folder):
    """Greedy texts do not depend on the batch here; ties of logits would be the model's own."""
    together = judge.judge(REPLIES)
    assert together == [deepcopy(judge).judge([reply])[0] for reply in REPLIES]
    for verdict in together:
        assert (verdict.status, verdict.score) == ("unparsed", None)
        assert verdict.raw
        assert verdict.served == "pocket[chat]"
    # The weights identify it.
    told = described(Named("hf", "1", judge))
    assert told["provenance"].keys() == {"weights", "tokenizer"}
    assert all(len(digest) == 64 for digest in told["provenance"].values())
    assert "device" not in told["fields"]
    # A question that is too long for the model stops no other.
    long, short = judge.judge([Reply("", "far " * 2000, KEYS["match"]), REPLIES[1]])
    assert (long.status, long.note, long.raw) == (
        "unparsed", "the question is too long for the model", "",
    )  # fmt: skip
    assert short.raw


def test_a_model_that_cannot_be_asked():
    with pytest.raises(UsageError, match="does not know which model"):
        HF().judge(REPLIES[:1])
    with pytest.raises(UsageError, match=r"pocket cannot judge.*chat template") as error:
        HF(model="pocket", device="cpu").judge(REPLIES[:1])
    assert "follow instructions" in error.value.remedy
    with pytest.raises(DataError, match="does not exist"):
        HF(model="./missing").judge(REPLIES[:1])
