"""The command `new`: what it writes and where, and which names it refuses; slow/test_strangers.py tries it all."""

import os
import shlex
from pathlib import Path

import pytest
from support.commands import failed, invoked

from edit_harness.hookspecs import API
from edit_harness_plugins.commands.authoring.new import LONGEST, RUNS

MARK = "Here is what makes it yours"


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("kind", RUNS)
def test_what_is_written(tmp_path, kind):
    assert invoked("plugins", "new", kind, f"my-{kind}", "-o", tmp_path).exit_code == 0
    found = files_of(tmp_path / f"edit-harness-my-{kind}")
    package = f"src/edit_harness_my_{kind}"
    texts = {name: path.read_text(encoding="utf-8") for name, path in found.items()}
    assert not [name for name, text in texts.items() if "$" in text]
    assert [name for name, text in texts.items() if MARK in text] == [f"{package}/{kind}.py"]
    assert f"edit_harness_api = {API}\n" in texts[f"{package}/__init__.py"]
    assert "\n# authors = " in texts["pyproject.toml"]
    assert RUNS[kind].format(f"my-{kind}") in texts["README.md"]


@pytest.mark.parametrize("folder", ["sub", "..", ".", "a b/c"])
def test_it_goes_where_it_is_told_to_and_names_that_to_pip(tmp_path, monkeypatch, folder):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    lines = invoked("plugins", "new", "task", "demo", "-o", folder).stdout.splitlines()
    *_, place = shlex.split(lines[-3])
    assert os.sep in place, "without one, pip takes it for a name"
    assert (Path(place) / "pyproject.toml").is_file()


@pytest.mark.parametrize("name", ["My_Editor", "../b", "été", "3d", "edit-harness-demo", "A" * 300])
def test_a_name_that_cannot_be_one_is_refused(tmp_path, name):
    result = invoked("plugins", "new", "editor", "-o", tmp_path / "out", "--", name)
    failed(result, 2, "is no name: a-z, 0-9 and single hyphens after a letter", "edit-harness-NAME")
    assert "A" * (LONGEST + 1) not in result.stderr
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten(tmp_path):
    folder = tmp_path / "edit-harness-demo"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    (tmp_path / "edit-harness-file").write_text("mine")
    for name in ("demo", "file"):
        result = invoked("plugins", "new", "editor", name, "-o", tmp_path)
        failed(result, 2, "is there already", "--output DIR")
    assert {name: path.read_text() for name, path in files_of(tmp_path).items()} == {
        "edit-harness-demo/README.md": "mine", "edit-harness-file": "mine"
    }  # fmt: skip
    (tmp_path / "edit-harness-empty").mkdir()
    assert invoked("plugins", "new", "editor", "empty", "-o", tmp_path).exit_code == 0
    result = invoked("plugins", "new", "editor", "demo", "-o", tmp_path / "edit-harness-file")
    failed(result, 5, "Not a directory")
