"""The same numbers wherever the program is started: locale, paths, home, umask."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from support.builders import record, stored

import edit_harness as eh
from edit_harness.testing.tiny import tiny_model

SETTINGS = {
    "C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "Latin-1 terminal": {"PYTHONIOENCODING": "cp1252"},
    "path with spaces": {"EDIT_HARNESS_CACHE": "a cache [of mine] ü"},
    "read-only home": {"HOME": "/proc"},
    "no home": {"HOME": None, "USER": None, "LOGNAME": None},
    "umask": {},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in a folder with a name that not everybody expects."""
    folder = tmp_path_factory.mktemp("runs")
    facts = stored(folder, record(0, subject="Ada"), record(1, subject="Özlem"))
    done = eh.evaluate(
        editor="none", task="counterfact", model=tiny_model(), metrics=["success"],
        task_args={"data": facts}, output=folder / "où [bold] — 漢 x",
    )  # fmt: skip
    return done.folder.path


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_numbers_there(run, tmp_path, name):
    """Scored there by a process of its own: same results, no traceback, as private as was asked."""
    path = tmp_path / run.parent.name / run.name
    shutil.copytree(run, path)
    expected = json.loads((path / "results.json").read_text(encoding="utf-8"))["results"]
    environment = {**os.environ, "HOME": str(tmp_path), **SETTINGS[name]}
    if "EDIT_HARNESS_CACHE" not in SETTINGS[name]:
        environment.pop("EDIT_HARNESS_CACHE")
    done = subprocess.run(
        [sys.executable, "-m", "edit_harness", "score", str(path), "-v"],
        env={key: value for key, value in environment.items() if value is not None},
        cwd=tmp_path, capture_output=True, timeout=60, check=False,
        umask=0o077 if name == "umask" else -1,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout.startswith(b"Metric")
    results = path / "results.json"
    assert json.loads(results.read_text(encoding="utf-8"))["results"] == expected
    if name == "umask":
        assert results.stat().st_mode & 0o777 == 0o600
