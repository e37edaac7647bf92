"""The command line in this process, and Python in others: what they print, and how they end."""

import os
import subprocess
import sys

from click.testing import CliRunner
from support.editors import stored_model

from edit_harness.cli import main
from edit_harness.testing import tiny_model


def stored(folder):
    """Write a tiny model into a folder of its own in a folder, for commands that read it by its name."""
    return stored_model(tiny_model(), folder / "tiny")


def failed(result, code: int, *parts: str) -> None:
    """The command failed with a code, a cause and a remedy, and without a traceback."""
    assert result.exit_code == code, result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.startswith(("error: ", "Usage: ")), result.stderr
    for part in parts:
        assert part in " ".join(result.stderr.split()), result.stderr


def invoked(*args):
    """Run a command on a terminal of 80 columns; return click's result."""
    return CliRunner().invoke(main, [str(arg) for arg in args], env={"COLUMNS": "80"})


def python(*args, cwd=None, path=(), **env):
    """Run Python, with folders on its path; return what it printed. It must succeed."""
    paths = [*map(str, path), os.environ.get("PYTHONPATH", "")]
    more = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | more | {name: str(value) for name, value in env.items()},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def edit_harness(*args):
    """Run a command; returns its exit code, and what it printed."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert "Traceback" not in result.output
    return result.exit_code, result.output
