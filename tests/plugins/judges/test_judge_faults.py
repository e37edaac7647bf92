"""A server that fails in every way: no text is scored by a failure, and no key is written anywhere.

A run waits for its judge. In each scenario a copy of it is scored; what is decided has to be what a
server without faults decides, and everything else has to have no score.
"""

import asyncio
import json
import logging
import re
import shutil
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from click.testing import CliRunner
from support.builders import rewrite, with_entries
from support.commands import stored
from support.judge_server import KEY, completion, judged, serving, well

from edit_harness import Key, Reply
from edit_harness.cli import main
from edit_harness.folder.folder import RunFolder
from edit_harness_plugins.commands.results import score as scoring
from edit_harness_plugins.judges.model.openai import OpenAI

HTML = b"<html><body>Bad gateway</body></html>"


@dataclass(frozen=True)
class Scenario:
    """What a server does, and what is to become of the texts."""

    happens: object
    status: str = "decided"
    code: int = 0
    says: str = ""
    """Words of the message at the command line."""
    requests: int | None = None
    """How many requests it may be asked at most, if that is known."""


def at_first(times, fault):
    """Return what fails so many times for each question, and then works."""
    seen, lock = Counter(), threading.Lock()

    def happens(handler, number, prompt):
        with lock:
            seen[question := prompt.partition("\n\nThe last answer")[0]] += 1
            count = seen[question]
        fault(handler, number, prompt) if count <= times else handler.judge(prompt)

    return happens


def always(fault):
    return lambda handler, number, prompt: fault(handler)


def hang(handler, *_):
    time.sleep(1.2)
    handler.drop()


def endlessly(handler, *lines):
    """Send some lines, the last one over and over."""
    first, last = lines
    handler.wfile.write(first)
    for _ in range(200):
        handler.wfile.write(last)
        handler.wfile.flush()
        time.sleep(0.05)


def stall(handler):
    """Say that an answer is to come just before its time is over, and nothing more."""
    time.sleep(0.25)
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
    time.sleep(10)


ENDLESS = {
    "headers": lambda h, *_: endlessly(h, b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
    "100 Continue": lambda h, *_: endlessly(h, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": lambda h, *_: h.drip(completion("{}"), 0.1),
    "status": lambda h, *_: time.sleep(10),
    "half a body": lambda h, *_: stall(h),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_exchange_ends_in_its_time_whatever_the_server_sends(name):
    """Item 17 of issue I."""
    reply = Reply("", "Rome", Key("match", "Rome", about={"how": "equal"}))
    with serving(ENDLESS[name]) as server:
        judge = OpenAI(model="judge", url=server.url, patience=0.4, cache="none")
        assert judge._asked, "with the package openai, whose import takes a while"
        began = time.monotonic()
        (found,) = judge.judge([reply])
        assert "no answer in 0.4 seconds" in found.note
        assert time.monotonic() - began < 8, "not when the server has ended"


def repeated_key(handler, number, prompt):
    said = json.loads(judged(prompt))
    text = f"<think>{handler.headers['Authorization']}</think>{json.dumps(said)}"
    handler.say(text, model=KEY, system_fingerprint=handler.headers["Authorization"])


def broken(body, **how):
    """What answers with no chat completion."""
    return Scenario(always(lambda h: h.answer(body, **how)), "pending", 1, "no chat completion")


def refusing(says, requests, *args, **how):
    """What answers with an error that ends all asking."""
    return Scenario(always(lambda h: h.fail(*args, **how)), "pending", 4, says, requests)


SCENARIOS = {
    "well": Scenario(well),
    "timeout": Scenario(hang, "pending", 1, "no answer in time"),
    "reset, then well": Scenario(at_first(2, lambda h, *_: h.drop())),
    "reset": Scenario(always(lambda h: h.drop()), "pending", 1, "no connection"),
    "429 with seconds": Scenario(at_first(1, lambda h, *_: h.fail(429, Retry_After="7"))),
    "429 for hours": Scenario(
        always(lambda h: h.fail(429, Retry_After="7200")), "pending", 1,
        "HTTP 429, with Retry-After: 7200", 18,
    ),
    "quota": refusing("quota is used up", 12, 429, code="insufficient_quota"),
    "503": Scenario(always(lambda h: h.fail(503)), "pending", 1, "HTTP 503"),
    "HTML": broken(HTML, kind="text/html"),
    "no choices": broken(completion("{}", choices=[])),
    "empty answer": Scenario(always(lambda h: h.say(None)), "unparsed", 1, "not to be trusted"),
    "mixed models": Scenario(
        lambda h, n, p: h.judge(p, model=f"v{len(p) % 2}"),
        says="more than one model judged: its server has changed | judged 18 texts by openai 1 (v0, v1)"
    ),
    "unknown model": refusing("no such model", 4, 404, code="model_not_found"),
    "pinned model": refusing(
        "HTTP 400: is there a model 'judge'? It says:", 4, 400, "this server has 'other', not 'judge'"
    ),
    "wrong key": refusing("refuses the key", 4, 401, f"Incorrect API key: {KEY}"),
    "too long a question": Scenario(
        always(lambda h: h.fail(400, f"{KEY}: at most 10 tokens")), "pending", 1, "refused: HTTP 400"
    ),
    "key repeated": Scenario(repeated_key),
}  # fmt: skip


def command(folder, *args):
    """Run a case of a model in a folder."""
    model = str(folder / "tiny")
    return tell(
        "-m", model, "-e", "ft-l", "-t", "rule-edit", "-L", "1",
        "--editor-args", "layer=0,steps=1,lr=0.01,epsilon=0.1", *args,
    )  # fmt: skip


def tell(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """Make a run whose texts wait for a judge: half of them are right, half are wrong."""
    folder = tmp_path_factory.mktemp("run")
    stored(folder)
    told = command(folder, "--judge", "none", "-o", folder / "out")
    assert told.exit_code == 1, told.output
    (run,) = (folder / "out").iterdir()
    (case,) = RunFolder(run).cases().values()
    path = run / "samples.jsonl"
    record = json.loads(path.read_text())
    for side in ("before", "after"):
        for i, (probe, answer) in enumerate(zip(case.probes, record[side], strict=True)):
            answer["text"] = f" is {probe.key.right}" if i % 2 else " is nothing"
    rewrite(path, [record])
    (run / "results.json").unlink()  # it is of other rows
    return run


@pytest.fixture
def score(waiting, tmp_path, monkeypatch, caplog):
    """Return what scores a copy of the run, asking a server."""
    monkeypatch.setenv("EDIT_HARNESS_JUDGE_KEY", KEY)
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    waits = []
    monkeypatch.setattr(
        "openai._base_client.anyio.sleep", lambda s: asyncio.sleep(waits.append(s) or 0)
    )
    caplog.set_level(logging.DEBUG)
    run = tmp_path / waiting.name
    shutil.copytree(waiting, run)

    def score(url, *args, seconds=30):
        settings = f"model=judge,url={url},seconds={seconds},retries=2,workers=4,patience=200"
        asked = ",".join((settings, *args))
        return tell("score", run, "--debug", "--judge", "openai", "--judge-args", asked)

    score.run, score.waits = run, waits
    return score


def verdicts(run):
    """Return the verdicts of the last record, with the text and the key of each."""
    folder = RunFolder(run)
    (case,), (record,) = folder.cases().values(), folder.records()
    return [
        (answer["verdict"], answer["text"], probe.key)
        for answers in (record.before, record.after)
        for probe, answer in zip(case.probes, answers, strict=True)
        if answer.get("verdict")
    ]


def check_scores(run, status):
    """Check that all verdicts have a status, and a score only if it is that of a good server."""
    found = verdicts(run)
    assert len(found) > 10
    for verdict, text, key in found:
        assert verdict["status"] == status, verdict
        if status != "decided":
            assert verdict["score"] is None
        elif key.kind != "same":
            assert verdict["score"] == float(key.right in text)
    if status == "decided":
        assert {verdict["score"] for verdict, *_ in found} == {0.0, 1.0}


def check_no_key(folder, *texts):
    """Check that no file and no message has the key in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
    for text in texts:
        assert KEY not in text


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_text_is_scored_by_a_failure(name, score, tmp_path, caplog):
    scenario = SCENARIOS[name]
    with serving(scenario.happens) as server:
        told = score(server.url, seconds=1 if name == "timeout" else 30)
    assert told.exit_code == scenario.code, told.output
    said = " ".join(told.stderr.split())
    assert all(part in said for part in scenario.says.split(" | "))
    check_scores(score.run, scenario.status)
    check_no_key(tmp_path, told.output, caplog.text)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    if scenario.requests:
        assert len(server.asked) <= scenario.requests


def test_a_redirect_is_not_followed(score, tmp_path, caplog):
    with serving() as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        with serving(always(lambda h: h.fail(307, Location=elsewhere))) as server:
            told = score(server.url)
    assert (told.exit_code, len(server.asked) <= 4) == (4, True)
    assert f"it sends to {elsewhere}, and is not followed" in " ".join(told.stderr.split())
    assert (other.asked, other.strayed) == ([], False)
    check_scores(score.run, "pending")
    check_no_key(tmp_path, told.output, caplog.text)


@pytest.mark.parametrize("asked", [7, 120])
def test_waits_are_what_a_server_asks_for(score, asked):
    with serving(always(lambda h: h.fail(429, Retry_After=str(asked)))) as server:
        score(server.url, "workers=1", "patience=1000")
    assert score.waits == [asked] * 6


def test_a_run_goes_on_without_its_judge(score, waiting, tmp_path, caplog):
    """Nothing that all of it leaves has the key, though the server repeats it."""
    model = waiting.parent.parent
    asking = (model, "-v", "--debug", "-o", tmp_path / "out", "--judge", "openai", "--judge-args")
    with serving(always(lambda h: h.fail(401))) as server:
        told = command(*asking, f"model=judge,url={server.url}")
        assert told.exit_code == 4, told.output
        assert "judge openai stopped" in told.stderr
        assert len(server.asked) <= 8
        (run,) = (tmp_path / "out").iterdir()
        assert {v["status"] for v, *_ in verdicts(run)} == {"pending"}
        assert (run / "results.json").exists()
        server.happens = repeated_key
        told = tell("score", run)
        assert told.exit_code == 0, told.output
        asked = len(server.asked)
        again = command(*asking, f"model=judge,url={server.url}")
        assert again.exit_code == 0, again.output
        assert len(server.asked) == asked, "the run is there, verdicts and all"
    assert {v["status"] for v, *_ in verdicts(run)} == {"decided"}
    check_no_key(tmp_path, told.output, again.output, caplog.text)


def test_only_what_waits_is_asked_for_again(score):
    """The server fails on every second question; what it said is kept, and costs nothing more."""
    good: dict[str, bool] = {}

    def half(handler, number, prompt):
        known = good.setdefault(prompt, len(good) % 2 == 0)
        handler.judge(prompt) if known else handler.fail(400, "not now")

    with serving(half) as server:
        args = "price_in=1", "price_out=2", "workers=1", "twice=0"
        assert score(server.url, *args).exit_code == 1
        statuses = Counter(verdict["status"] for verdict, *_ in verdicts(score.run))
        assert statuses["decided"] > 3 < statuses["pending"]
        before = len(server.asked)
        server.happens = well
        told = tell("score", score.run)
        assert told.exit_code == 0, told.output
        assert len(server.asked) - before == sum(not known for known in good.values())
    check_scores(score.run, "decided")
    assert all("usd" in v["usage"] for v, *_ in verdicts(score.run) if v.get("usage"))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], (3, 0.5)),
        (["--judge", "openai", "--judge-args", "workers=5"], (5, 0.5)),
        (["--judge", "openai", "--judge-args", "model=judge,url=URL"], (8, 0.1)),
    ],
)
def test_whose_settings_count(score, monkeypatch, flags, expected):
    """Those of the flags; else the run's own, unless the flags say themselves who is to judge."""
    with serving(lambda h, n, p: h.judge(p) if n % 2 else h.fail(400, "no")) as server:
        told = score(server.url, "workers=3", "twice=0.5")
        assert told.exit_code == 1
        judge, made = OpenAI.judge, []
        server.happens = well
        monkeypatch.setattr(
            OpenAI, "judge", lambda self, replies: made.append(self) or judge(self, replies)
        )
        told = tell("score", score.run, *(f.replace("URL", server.url) for f in flags))
    assert told.exit_code == 0, told.output
    (it,) = made
    assert (it.workers, it.twice, it.url) == (*expected, server.url)


def test_an_interruption_keeps_what_was_judged(score, monkeypatch):
    """Cases are judged some at a time; the third piece is never judged."""
    monkeypatch.setattr(scoring, "CASES", 1)
    path = score.run / "samples.jsonl"
    folder = RunFolder(score.run)
    record, manifest = json.loads(path.read_text()), folder.manifest()
    (case,) = folder.cases().values()
    names = [f"{case.id} {n}" for n in range(4)]
    folder.write_cases([replace(case, id=name) for name in names])
    rewrite(path, [record | {"case": name} for name in names])
    folder.write_manifest(with_entries(manifest, cases=names, visits=4))
    judge, calls = OpenAI.judge, []

    def interrupted(self, replies):
        calls.append(replies)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return judge(self, replies)

    with serving() as server, monkeypatch.context() as patched:
        patched.setattr(OpenAI, "judge", interrupted)
        assert score(server.url).exit_code == 130
        pending = [r.verdicts["pending"] for r in RunFolder(score.run).records()]
        assert pending[:2] == [0, 0]
        assert min(pending[2:]) > 0
        patched.setattr(OpenAI, "judge", judge)
        assert tell("score", score.run).exit_code == 0
    assert sum(r.verdicts["pending"] for r in RunFolder(score.run).records()) == 0


@pytest.mark.parametrize(
    ("name", "value", "flags"),
    [
        ("url", "https://judge.example/v1", []),
        ("url", "https://judge.example/v1", ["--judge", "openai"]),
        ("url", "https://judge.example/v1", ["--judge-args", "workers=2"]),
        ("cache", "/etc/somewhere", []),
    ],
)
def test_a_folder_alone_sends_nothing_elsewhere(score, monkeypatch, name, value, flags):
    """Of a folder that somebody sent: not even the name of the server is looked up."""
    folder, version = RunFolder(score.run), OpenAI(model="judge").version
    by = {"name": "openai", "version": version, "fields": {"model": "judge", "max_tokens": 512,
          "twice": 0.1, "seed": 0}, "provenance": {"server": "x"}, "note": ""}  # fmt: skip
    sent = with_entries(folder.manifest(), judged_by=by, judge_settings={name: value})
    folder.write_manifest(sent)
    monkeypatch.setattr(socket, "getaddrinfo", pytest.fail)
    before = (score.run / "samples.jsonl").read_bytes()
    told = tell("score", score.run, *flags)
    assert told.exit_code == 2, told.output
    assert f"judge openai with {name}='{value}', and a folder alone" in told.stderr
    other = tell("score", score.run, "--judge-args", "url=http://other.example/v1,cache=none")
    assert other.exit_code == 7, "the folder says that another server has judged"
    assert (score.run / "samples.jsonl").read_bytes() == before


def test_a_quiet_command_says_why_it_ends_with_1(score):
    with serving(always(lambda h: h.fail(503))) as server:
        settings = f"model=judge,url={server.url},retries=0"
        told = tell("score", score.run, "--judge", "openai", "--judge-args", settings, "-q")
    assert told.exit_code == 1
    (line,) = told.stderr.splitlines()
    assert re.match(r"pending  \d+ texts in .*: http://.*HTTP 503", line)
