"""The bundled judges pass the suite that third parties run."""

import pytest
from support.judge_keys import KEYS as CHAT_KEYS
from support.judge_keys import PAIR
from support.judge_server import judged, serving
from support.symbolic_answers import ALL, KEYS

from edit_harness import Judge, Key, Reply, Text
from edit_harness.testing import JudgeTests
from edit_harness_plugins.judges.match import Match
from edit_harness_plugins.judges.model.hf import HF
from edit_harness_plugins.judges.model.openai import OpenAI
from edit_harness_plugins.judges.symbolic.judge import Symbolic

CHAT_REPLIES = (
    *(Reply("", text, CHAT_KEYS["match"]) for text in ("Rome", "Paris", "Milan")),
    *(Reply("", "12", key) for kind, key in CHAT_KEYS.items() if kind != "compare"),
    PAIR,
)


class TestMatch(JudgeTests):
    judge = Match()
    replies = tuple(
        Reply("The home of Ada is", text, Key("match", "Rome", "Paris", {"how": how}))
        for how in ("equal", "within")
        for text in ("Rome", "It is Rome.", "Paris", "")
    )


class TestSymbolic(JudgeTests):
    judge = Symbolic()
    replies = tuple(Reply("", answer.text, KEYS[answer.key]) for answer in ALL[:350:6])

    @classmethod
    def setup_class(cls):
        """Start the process that judges: it stays for all of a run."""
        cls.judge.judge(cls.replies[:1])


class TestOpenAI(JudgeTests):
    replies = CHAT_REPLIES

    @pytest.fixture(autouse=True)
    def server(self):
        with serving() as server:
            self.judge = OpenAI(model="judge", url=server.url, cache="none", twice=0.5, retries=0)
            yield server


class TestHF(JudgeTests):
    """The model is one that says what the server of the tests says; a real one is in its own tests."""

    replies = CHAT_REPLIES

    @pytest.fixture(autouse=True)
    def model(self, monkeypatch):
        monkeypatch.setattr(HF, "_loaded", Fluent())
        self.judge: Judge = HF(model="fluent", twice=0.5)


class Fluent:
    """What `HF` needs of a model."""

    digest, name = "0", "fluent"

    def __init__(self):
        self.tokens = self.tokenizer = self

    def answer(self, questions):
        return [Text(judged(query.prompt)) for _, query in questions]

    def encode(self, prompt):
        self.ids = prompt.split()
        return self

    def __call__(self, text):
        return {"input_ids": text.split()}
