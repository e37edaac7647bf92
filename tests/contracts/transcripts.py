"""What the command line prints: help of all commands, the run folders of `runs`, and typical mistakes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import click
from click.testing import CliRunner

from edit_harness.cli import main
from tests.contracts.folders import DIGEST, VERSION
from tests.contracts.nets import HERE

RUNS = HERE / "runs"
"""Run folders as an earlier version wrote them: see `tools.old_runs`."""
LOOKING = (
    "ls", "ls editors", "ls runs -o .", "show rome", "show counterfactplus", "show success",
    "show symbolic", "show text", "show ES", "run --help-all", "show counterfactplus-table1", "show counterfact --stats",
)  # fmt: skip
OF_ONE = ("score {}", "report {} -v", "report {} --format latex", "report {} --layout paper")
OF_ALL = ("compare single unedited", "compare single unedited --why", "report single unedited", "report single --format csv",
          "case single 0", "score damaged --repair", "score single --repair", "merge shard -o merged", "score single --json",
          "leaderboard submit single -o b.zip --contact a@b.c --tuned-on pocket", "verify b.zip --level 2")  # fmt: skip
MISTAKES = (
    "rnu", "--editor rmoe", "--task conterfact", "-e rome -t counterfact --editor-args layr=3",
    "-e rome -t counterfact --editor-args layer=many", "-e rome --model nosuch/model", "-e rome -L 0", "--limit x",
    "show nosuch", "report nosuch", "score .", "compare single nosuch", "case single nosuch", "--edit-mode bathc",
    "-e rome -t counterfact --task-args data=nosuch.json", "--seed x", "-e none --judge nosuch", "--shard 3/2",
    "-e none -t counterfact --metrics nosuch", "verify single", "edit --editor rome", "try", "sweep --layers x",
    "reproduce nosuch", "-e rome --control nosuch", "-e rome --executor nosuch", "plugins nosuch", "trace",
)  # fmt: skip
STEADY = (
    (VERSION, "edit-harness"),
    (DIGEST, "<digest>"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|min)\b"), "<time>"),
    (re.compile(r"\b\d[\d,]*(\.\d+)? (MB|GB|kB|bytes)\b"), "<size>"),
)


def cast() -> dict[str, Any]:
    """Return code, output and messages of each command, as lines."""
    runner, found = CliRunner(), {}
    with (
        TemporaryDirectory() as folder,
        chdir(folder),
        mock.patch.dict(os.environ, _environment(folder)),
    ):
        for run in RUNS.iterdir():
            shutil.copytree(run, run.name)
        for line in _commands():
            result = runner.invoke(main, line.split(), prog_name="edit-harness")
            found[line] = {
                "code": result.exit_code,
                "out": _steady(result.stdout, folder),
                "err": _steady(result.stderr, folder),
            }
    return found


def _environment(folder: str) -> dict[str, str]:
    return {
        "COLUMNS": "80",
        "EDIT_HARNESS_CACHE": f"{folder}/cache",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


def _commands() -> Iterator[str]:
    context = click.Context(main)
    yield "--help"
    for name in main.list_commands(context):
        yield f"{name} --help"
        for inner in sorted(getattr(main.get_command(context, name), "commands", ())):
            yield f"{name} {inner} --help"
    yield from LOOKING
    runs = sorted(run.name for run in RUNS.iterdir())
    yield from (line.format(run) for run in runs for line in OF_ONE)
    yield from OF_ALL
    yield from MISTAKES


def _steady(text: str, folder: str) -> Sequence[str]:
    text = text.replace(str(Path(folder).resolve()), "<here>").replace(folder, "<here>")
    for pattern, instead in STEADY:
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in text.splitlines()]
