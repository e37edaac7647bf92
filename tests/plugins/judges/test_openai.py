"""The judge behind a server: its settings, its cache, its budget, and what it says of itself."""

import asyncio
import os
import re
import signal
import threading
import time
from dataclasses import replace

import pytest
from support.judge_keys import KEYS, PAIR
from support.judge_server import KEY, serving

from edit_harness import PluginError, Reply, UsageError
from edit_harness.registry import settings as fields
from edit_harness.registry.settings import Named, described
from edit_harness_plugins.judges.model import openai as openai_judge
from edit_harness_plugins.judges.model import server as server_module
from edit_harness_plugins.judges.model.openai import OpenAI

RIGHT, WRONG = (Reply("", text, KEYS["match"]) for text in ("Rome", "Paris"))


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch):
    for name in (*openai_judge.KEYS, "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("openai._base_client.anyio.sleep", lambda seconds: asyncio.sleep(0))


@pytest.fixture
def server():
    with serving() as server:
        yield server


def test_what_was_answered_is_not_paid_again(server, tmp_path):
    judge = OpenAI(model="judge", url=server.url, cache=str(tmp_path))
    first = judge.judge([RIGHT, WRONG, RIGHT])
    assert [v.score for v in first] == [1.0, 0.0, 1.0]
    assert [v.usage.get("tokens", 0) for v in first] == [120, 120, 0], "of equal replies one has it"
    assert first[2] == replace(first[0], usage={})
    assert len(server.asked) == 2, "equal replies are judged once"
    again = OpenAI(model="judge", url=server.url, cache=str(tmp_path), budget_tokens=1)
    assert again.judge([RIGHT, WRONG, RIGHT]) == first
    assert len(server.asked) == 2
    for other in ({"model": "other"}, {"max_tokens": 100}, {"seed": 1}):
        replace(judge, **other).judge([RIGHT])
    assert len(server.asked) == 5, "what an answer may depend on is another question"
    body = server.asked[0]
    assert body.keys() == {"model", "messages", "temperature", "max_tokens", "response_format"}
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("judge", 0, 512)
    assert body["response_format"] == {"type": "json_object"}


def test_answers_are_kept_in_the_cache_folder_unless_told_otherwise(server, tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    OpenAI(model="judge", url=server.url, cache="none").judge([RIGHT])
    assert list(tmp_path.iterdir()) == []
    OpenAI(model="judge", url=server.url).judge([RIGHT])
    (file,) = (path for path in (tmp_path / "judgements").rglob("*") if path.is_file())
    assert file.suffix == ".json"
    # One that cannot be written costs only the next question.
    (tmp_path / "file").write_text("no folder")
    judge = OpenAI(model="judge", url=server.url, cache=str(tmp_path / "file"))
    assert [judge.judge([RIGHT])[0].score for _ in range(2)] == [1.0, 1.0]
    assert len(server.asked) == 4


@pytest.mark.parametrize("damage", [b"{", b'{"text": 1}', b"\xff"])
def test_a_damaged_file_of_the_cache_is_as_good_as_none(server, tmp_path, damage):
    judge = OpenAI(model="judge", url=server.url, cache=str(tmp_path))
    expected = judge.judge([RIGHT])
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    whole = file.read_bytes()
    file.write_bytes(damage)
    assert judge.judge([RIGHT]) == expected
    assert len(server.asked) == 2
    assert file.read_bytes() == whole


def test_usage_is_in_tokens_and_with_prices_in_dollars(server):
    plain = OpenAI(model="judge", url=server.url, cache="none", twice=0)
    assert plain.judge([PAIR])[0].usage == {"tokens": 120}
    priced = replace(plain, price_in=2.0, price_out=8.0, twice=1.0)
    (found,) = priced.judge([PAIR])
    assert found.usage["tokens"] == 240
    # 200 tokens at 2 and 40 at 8 dollars a million; exact but for rounding.
    assert found.usage["usd"] == pytest.approx(2 * (100 * 2e-6 + 20 * 8e-6), rel=1e-12)
    assert (found.swapped, found.served) == (False, "judge-1")
    wrong = {"prompt_tokens": -1, "completion_tokens": 20}
    server.happens = lambda handler, number, prompt: handler.judge(prompt, usage=wrong)
    assert priced.judge([PAIR])[0].usage == {}
    # A request that fails spends nothing.
    before = len(server.asked)
    server.happens = lambda handler, number, prompt: (
        handler.fail(400) if number < 5 + before else handler.judge(prompt)
    )
    judge = OpenAI(model="judge", url=server.url, cache="none", budget_tokens=1000)
    assert judge.judge([RIGHT])[0].status == "pending"
    assert judge.judge([WRONG])[0].note.endswith("refused: HTTP 400: no")
    assert judge.judge([RIGHT])[0].usage == {"tokens": 120}


@pytest.mark.parametrize("budget", [{"budget_tokens": 600}, {"price_out": 1.0, "budget_usd": 1e-4}])
def test_a_budget_is_kept(server, budget):
    """Each question takes 120 tokens, or 20e-6 dollars."""
    judge = OpenAI(model="judge", url=server.url, cache="none", workers=1, **budget)
    found = judge.judge([Reply("", f"Rome {n}", KEYS["match"]) for n in range(9)])
    assert [v.status for v in found] == ["decided"] * 5 + ["pending"] * 4
    assert found[-1].note == "the budget is spent: raise budget_tokens or budget_usd"
    assert judge.stopped == "", "that is the user's wish, and no failure"


def test_a_server_that_was_given_up_is_asked_again_after_a_while(server, monkeypatch):
    """Judging piece by piece does not put three questions for each piece to one that is down."""
    server.happens = lambda handler, *_: handler.fail(503)
    judge = OpenAI(model="judge", url=server.url, cache="none", retries=0, workers=1)
    replies = [Reply("", str(n), KEYS["match"]) for n in range(9)]
    for _ in range(2):
        assert {v.status for v in judge.judge(replies)} == {"pending"}
        assert len(server.asked) == server_module.TIRED
    monkeypatch.setattr(server_module, "REST", 0.0)
    judge.judge(replies)
    assert len(server.asked) == 2 * server_module.TIRED


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ({}, "none"),
        ({"OPENAI_API_KEY": f" {KEY}\n"}, KEY),
        ({"OPENAI_API_KEY": KEY, "EDIT_HARNESS_JUDGE_KEY": "other"}, "other"),
        ({"OPENAI_API_KEY": "1"}, "1"),
    ],
)
def test_the_key_is_the_environments(server, monkeypatch, keys, sent):
    """One that is no secret, such as a letter, is not looked for in what the server says."""
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    right, _ = OpenAI(model="judge", url=server.url, cache="none").judge([RIGHT, PAIR])
    assert server.headers[-1]["Authorization"] == f"Bearer {sent}"
    assert (right.status, right.score, right.served) == ("decided", 1.0, "judge-1")


def test_an_interruption_waits_for_no_wait(server, monkeypatch):
    """Ctrl-C is not held up by questions that wait to be put again, here for two minutes."""
    # Who starts the tests in the background has Python ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("openai._base_client.anyio.sleep", asyncio.sleep)

    def interrupting(handler, *_):
        handler.fail(503, Retry_After="120")
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    server.happens = interrupting
    judge = OpenAI(model="judge", url=server.url, cache="none", patience=1000)
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            judge.judge([WRONG])
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 10
    assert len(server.asked) == 1


def test_patience_is_for_all_attempts_together(server, monkeypatch):
    monkeypatch.setattr("openai._base_client.anyio.sleep", asyncio.sleep)
    server.happens = lambda handler, *_: handler.fail(503, Retry_After="60")
    judge = OpenAI(model="judge", url=server.url, cache="none", patience=0.5)
    (found,) = judge.judge([RIGHT])
    assert (found.status, len(server.asked)) == ("pending", 1)
    assert "no answer in 0.5 seconds" in found.note


def test_the_address_may_come_from_the_environment_and_json_mode_is_tried_once(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    judge = OpenAI(model="judge", cache="none")
    assert judge.judge([RIGHT])[0].status == "decided"
    given = OpenAI(model="judge", url=f"{server.url}/", cache="none")
    assert judge.provenance == given.provenance == {"server": server.url}
    assert OpenAI(model="m", url="HTTP://Host:80/V1").provenance == {"server": "http://host:80/V1"}

    def refusing(handler, number, prompt):
        plain = "response_format" not in handler.server.asked[number - 1]
        handler.judge(prompt) if plain else handler.fail(422, "no response_format")

    before, server.happens = len(server.asked), refusing
    judge = OpenAI(model="judge", url=server.url, cache="none", workers=1)
    assert [v.score for v in judge.judge([RIGHT, WRONG])] == [1.0, 0.0]
    assert ["response_format" in body for body in server.asked[before:]] == [True, False, False]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "does not know which model"),
        ({"model": "m"}, "no key for OpenAI's server"),
        ({"model": "m", "url": "https://api.openai.com/v1/"}, "no key for OpenAI's server"),
        ({"model": "m", "url": "http://[::1"}, "no plain address of a server"),
        ({"model": "m", "url": "http://me:secret@host/v1"}, "no plain address of a server"),
        ({"model": "m", "url": "http://host/v1?key=secret"}, "no plain address of a server"),
        ({"model": "m", "url": "http://host/v1", "budget_usd": 1.0}, "needs prices"),
        ({"model": "m", "url": "http://host/v1"}, "characters that no key has"),
    ],
)
def test_settings_with_which_nobody_can_be_asked(settings, says, monkeypatch):
    if "characters" in says:
        monkeypatch.setenv("OPENAI_API_KEY", "sécret")
    for use in (lambda judge: judge.provenance, lambda judge: judge.judge([RIGHT])):
        with pytest.raises(UsageError, match=says) as error:
            use(OpenAI(**settings))
        assert not re.search("s[eé]cret", str(error.value))


def test_a_key_is_no_setting_and_the_package_may_be_missing(monkeypatch):
    for name in ("key", "token"):
        with pytest.raises(UsageError) as error:
            fields.build(OpenAI, {name: KEY, "model": "m"}, "judge openai")
        assert error.value.cause == f"judge openai has no field {name!r}"
        assert "EDIT_HARNESS_JUDGE_KEY" in error.value.remedy
        assert KEY not in str(error.value)
    monkeypatch.setattr(openai_judge, "find_spec", lambda name: None)
    with pytest.raises(PluginError, match=r"pip install 'edit-harness\[openai\]'"):
        OpenAI(model="m", url="http://localhost/v1").judge([RIGHT])


def test_what_does_not_change_a_verdict_is_no_part_of_what_identifies_the_judge(server):
    judge = OpenAI(model="judge", url=server.url)
    other = replace(judge, seconds=1, workers=1, budget_tokens=5, price_in=1.0, cache="none")
    told = described(Named("openai", "1", judge))
    assert told == described(Named("openai", "1", other))
    assert told["fields"].keys() == {"model", "max_tokens", "twice", "seed"}


def test_requests_are_under_way_at_once(server):
    """Eight threads meet at a barrier, which none of them could pass alone."""
    barrier = threading.Barrier(8)

    def meeting(handler, number, prompt):
        barrier.wait(30)
        handler.judge(prompt)

    server.happens = meeting
    judge = OpenAI(model="judge", url=server.url, cache="none", workers=8)
    found = judge.judge([Reply("", str(n), KEYS["match"]) for n in range(8)])
    assert {v.status for v in found} == {"decided"}
