"""What `cluster-check` says of workers; those of a real cluster are asked in `test_on_ray`."""

import json

import pytest
from click.testing import CliRunner

from edit_harness.cli import main
from edit_harness.terminal import Terminal
from edit_harness_plugins.commands.distributed import check as command
from edit_harness_plugins.commands.distributed.check import differences

OURS = {
    "versions": {"python": "3.11.7", "torch": "2.13.0"},
    "packages": [{"name": "edit-harness-x", "version": "1.0", "digest": "ab" * 32, "source": "/x"}],
}


def worker(**other):
    row = {"node": "b", "host": "b", "pid": 7, "device": "NVIDIA X", "memory": 80 * 2**30}
    return {**row, **OURS, **other}


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({}, []),
        ({"pid": 8, "device": "cpu", "memory": 1}, []),
        (
            {"versions": {**OURS["versions"], "torch": "2.12.1"}},
            ["worker 1 on b has torch 2.12.1, this process has 2.13.0"],
        ),
        (
            {"packages": []},
            ["worker 1 on b has edit-harness-x not at all, this process has 1.0 (abababababab)"],
        ),
        (
            {"packages": [{**OURS["packages"][0], "digest": "cd" * 32}]},
            [
                "worker 1 on b has edit-harness-x 1.0 (cdcdcdcdcdcd), this process has 1.0 (abababababab)"
            ],
        ),
        (
            {"packages": [{**OURS["packages"][0], "source": "/elsewhere"}]},
            [],
        ),
    ],
)
def test_what_a_worker_has_otherwise_is_named(other, told):
    assert list(differences(OURS, [worker(), worker(**other)])) == told


def test_a_worker_that_could_not_say_anything_is_named():
    failed = {"node": "c", "problem": "a worker has no edit-harness"}
    told = list(differences(OURS, [worker(), failed]))
    assert told == ["worker 1 on c: a worker has no edit-harness"]


def check(monkeypatch, capsys, found, as_json=False):
    """Print workers that are given; return the exit code and what is printed."""
    monkeypatch.setattr(command, "out", Terminal(width=80))
    code = command.told(OURS, found, as_json)
    return code, capsys.readouterr().out


def test_workers_that_agree(monkeypatch, capsys):
    code, shown = check(monkeypatch, capsys, [worker(), worker(pid=8)])
    assert code == 0
    rows = [line.split() for line in shown.splitlines()]
    assert rows[0] == ["worker", "node", "pid", "device", "memory"]
    assert rows[2] == ["1", "b", "8", "NVIDIA", "X", "80", "GiB"]
    assert "torch 2.13.0" in shown
    assert "2 workers and this process have the same" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_packages_that_differ_are_code_3(monkeypatch, capsys):
    code, shown = check(monkeypatch, capsys, [worker(packages=[])])
    assert code == 3
    assert "worker 0 on b has edit-harness-x not at all" in shown
    assert "have the same" not in shown


def test_json_has_all_that_is_known(monkeypatch, capsys):
    found = [worker(versions={})]
    code, shown = check(monkeypatch, capsys, found, as_json=True)
    assert code == 3
    assert json.loads(shown)["workers"] == found
    assert len(json.loads(shown)["differences"]) == 2


def test_an_executor_without_workers_has_nothing_to_check():
    shown = CliRunner().invoke(main, ["cluster-check", "--executor", "local"])
    assert shown.exit_code == 2
    assert "--executor local has no workers to ask" in shown.stderr
