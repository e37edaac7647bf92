"""The process in which replies are judged: limits of time and memory, its end, and its successor.

The judge's own process is used for what has to be true of it; a small one, told to sleep or to die,
for what has to happen then.
"""

import subprocess
import sys
import textwrap
import threading

import pytest
from support.symbolic_answers import KEYS

from edit_harness import PluginError, Reply
from edit_harness_plugins.judges.symbolic import judge
from edit_harness_plugins.judges.symbolic.judge import Symbolic, Worker

KEY = KEYS["rectangle"]
SMALL = """
import faulthandler, json, sys, time
print("{}", flush=True)
for line in sys.stdin:
    seconds, request = json.loads(line)
    faulthandler.dump_traceback_later(seconds, exit=True)
    text = request["text"]
    if text == "sleep":
        time.sleep(600)
    if text == "die" or (text == "die once" and sys.argv[1:] == []):
        sys.exit(3)
    print(json.dumps({"status": "decided", "score": 1.0, "note": text}), flush=True)
    faulthandler.cancel_dump_traceback_later()
"""
HUGE = [
    "9**9**9**9", "A = " + "(" * 900 + "x" + ")" * 900, "((x + y + 1)**20)**20", "9" * 1_900,
    "(((2**20)**20)**20)**20", "\\frac{" * 300, "A = \\binom{100000}{50000}", "half " * 390,
    "(x**20 + y**20)**20*(x**19 + 1)**20 - (x + y)**20", "the square root of " * 100 + "x",
    "min(x, " * 280, "-" * 1_900 + "x", "12" + "%" * 1_900, "__import__('os')._exit(0)",
]  # fmt: skip


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A worker with a process that does what it is told, and the processes that it started."""
    monkeypatch.setattr(judge, "COMMAND", (sys.executable, "-c", SMALL))
    started = []
    start = subprocess.Popen

    def remember(*args, **kwargs):
        started.append(start(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(judge.subprocess, "Popen", remember)
    made = Worker()
    yield made, started
    made.stop()
    assert [process.poll() is None for process in started] == [False] * len(started)


@pytest.mark.parametrize("text", HUGE, ids=range(len(HUGE)))
def test_huge_expressions_are_given_up_by_their_structure(text):
    """And not by the clock: the verdict is no matter of speed."""
    for key in (KEY, KEYS["12 or 35"], KEYS["circle in words"]):
        (verdict,) = Symbolic(seconds=60.0).judge([Reply("", text, key)])
        assert verdict.score == 0
        assert "longer than 60" not in verdict.note
        assert "ended" not in verdict.note


def test_a_reply_that_takes_too_long_is_undecided_and_stops_no_other(small):
    made, started = small
    late = made.judge({"text": "sleep"}, 0.3)
    assert (late.status, late.score) == ("undecided", 0.0)
    assert late.note == "took longer than 0.3 s"
    assert made.judge({"text": "go on"}, 30.0).note == "go on"
    assert len(started) == 2


def test_a_reply_that_ends_two_processes_is_undecided(small):
    made, started = small
    gone = made.judge({"text": "die"}, 30.0)
    assert (gone.status, gone.score) == ("undecided", 0.0)
    assert "ended" in gone.note
    assert len(started) == 2
    assert made.judge({"text": "go on"}, 30.0).score == 1


def test_a_reply_is_judged_again_if_the_process_ends_once(small, monkeypatch):
    made, started = small
    made.judge({"text": "warm"}, 30.0)
    monkeypatch.setattr(judge, "COMMAND", (sys.executable, "-c", SMALL, "second"))
    assert made.judge({"text": "die once"}, 30.0).note == "die once"
    assert len(started) == 2


def test_a_process_that_does_not_start_is_an_error_with_its_cause(monkeypatch):
    monkeypatch.setattr(judge, "COMMAND", (sys.executable, "-c", "raise ValueError('no such day')"))
    with pytest.raises(PluginError, match="no such day") as raised:
        Worker().judge({"text": "x"}, 5.0)
    assert raised.value.remedy


def test_threads_share_the_process(small):
    made, started = small
    notes = {}

    def ask(number):
        notes[number] = made.judge({"text": str(number)}, 30.0).note

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notes == {number: str(number) for number in range(20)}
    assert len(started) == 1


def test_an_interrupted_question_leaves_no_answer_for_the_next(small, monkeypatch):
    made, started = small
    made.judge({"text": "warm"}, 30.0)
    with monkeypatch.context() as patch:
        patch.setattr(
            judge, "print", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt), raising=False
        )
        with pytest.raises(KeyboardInterrupt):
            made.judge({"text": "first"}, 30.0)
    assert made.judge({"text": "second"}, 30.0).note == "second"
    assert len(started) == 2


SCRIPT = """
from edit_harness import Key, Reply
from edit_harness_plugins.judges.symbolic.judge import Symbolic
key = Key("formula", "x + y", "x*y", {"lhs": "A", "variables": {"x": "side", "y": "side"}})
print(Symbolic().judge([Reply("", "A = y + x", key)])[0].score)
"""


def test_a_program_without_a_guard_judges_and_leaves_nothing_behind(tmp_path):
    """Nor does it take a module of the working directory for one of its own."""
    (tmp_path / "program.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "sympy.py").write_text("raise SystemExit('the wrong sympy')", encoding="utf-8")
    command = [sys.executable, "-P", "-X", "dev", "-W", "error", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("1.0\n", "", 0)


def test_memory_is_limited():
    """A reply that wants too much is undecided where the platform has such a limit."""
    pytest.importorskip("resource")
    code = textwrap.dedent("""
        from edit_harness_plugins.judges.symbolic import judge, verdicts

        def greedy(**request):
            return bytearray(judge.MEMORY)

        verdicts.verdict = greedy
        judge._limit_memory()
        print(verdicts.answer({})["note"])
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "not read: too large\n"
