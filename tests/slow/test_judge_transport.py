"""A real OpenAI-compatible server on this machine, with a model that cannot judge: transport only."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.chatty_pocket import chatty_pocket
from support.judge_keys import KEYS, PAIR

from edit_harness import Reply
from edit_harness_plugins.judges.model.openai import OpenAI

NEEDS = ("fastapi", "openai", "uvicorn")
STARTING = 60.0
COMMAND = Path(sys.executable).with_name("transformers")

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, NEEDS)), reason=f"transformers serve needs {', '.join(NEEDS)}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Serve a copy of the bundled model; yields its address and its name."""
    folder = chatty_pocket(tmp_path_factory.mktemp("serve") / "pocket")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder.with_name("log").open("w+")
    process = subprocess.Popen(
        [COMMAND, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port),
         "--device", "cpu", "--dtype", "float32"],
        stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        process.terminate()
        process.wait()
        log.close()


def wait_for(url, process, log):
    """Wait until a server answers; fails with its own words if it ends before."""
    end = time.monotonic() + STARTING
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.2)
    log.seek(0)
    pytest.fail(f"transformers serve does not start: {log.read()[-2000:]}")


def test_what_a_real_server_says_arrives(server, tmp_path):
    url, model = server
    judge = OpenAI(model=model, url=url, max_tokens=8, workers=2, cache=str(tmp_path / "cache"))
    replies = [PAIR, Reply("", "Rome", KEYS["match"])]
    found = judge.judge(replies)
    for verdict in found:
        assert (verdict.status, verdict.score) == ("unparsed", None), verdict
        assert verdict.raw.strip()
        assert verdict.usage["tokens"] > 3 * 100
        assert model in verdict.served
    again = OpenAI(model=model, url=url, max_tokens=8, cache=str(tmp_path / "cache"), seconds=0.001)
    assert again.judge(replies) == found, "out of the cache"
