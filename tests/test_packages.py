"""What brings plugins: installed, in a folder, in a file; and the digest that identifies it."""

import importlib
import json
import math
import os
import shutil
import subprocess
import sys

import pytest
from builders import ROOT, distribution

from edit_harness import UsageError, discovery, guard
from edit_harness.plugins import Plugins

EDITOR = """
from edit_harness import Editor, hookimpl

class Nothing(Editor):
    def edit(self, model, requests): ...

@hookimpl
def edit_harness_register_editors(register):
    register("nothing", Nothing, "Does nothing")
"""
PYPROJECT = """
[project]
name = "edit-harness-nothing"
version = "0.7"

[project.entry-points.edit_harness]
nothing = "edit_harness_nothing"

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to put plugins into; what is imported from it is forgotten."""
    for name in (discovery.ONLY, discovery.BLOCK, discovery.FILES, discovery.FOLDERS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith(("quiz_", "edit_harness_nothing", "edit_harness_file_", "constants")):
            del sys.modules[name]


@pytest.fixture
def sources(here):
    """The sources of a package, with a module and a file of data."""
    package = here / "sources" / "src" / "edit_harness_nothing"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(EDITOR)
    (package / "data.json").write_text("[]")
    text = PYPROJECT + '[tool.setuptools.package-data]\nedit_harness_nothing = ["*.json"]\n'
    (here / "sources" / "pyproject.toml").write_text(text)
    return here / "sources"


def editors(distribution_name):
    found = Plugins.installed()
    return [c.name for c in found.of_kind("editor") if c.distribution == distribution_name]


def test_a_file_that_is_named_is_a_plugin(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR)
    monkeypatch.setenv(discovery.FILES, str(here / "mine.py"))
    found = Plugins.installed()
    assert found.find("editor", "mine.py/nothing").origin == "mine.py"
    assert (
        found.find("editor", "nothing").load()
        is Plugins.installed().find("editor", "nothing").load()
    )
    assert found.find("editor", "rome").distribution == "edit-harness"


def test_only_what_every_start_loads_has_to_be_quick(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR)
    distribution(here, "quiz-good", EDITOR.replace("nothing", "idle"))
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv(discovery.FILES, str(here / "mine.py"))
    limits = {package.name: went.limit for package, went in Plugins.installed().packages.items()}
    assert limits["quiz-good"] == guard.SLOW
    assert limits["mine.py"] == math.inf


def test_two_files_may_have_one_name(here, monkeypatch):
    files = [here / "a" / "mine.py", here / "b" / "mine.py"]
    for file, name in zip(files, ("one", "two"), strict=True):
        file.parent.mkdir()
        file.write_text(EDITOR.replace('"nothing"', f'"{name}"'))
    monkeypatch.setenv(discovery.FILES, os.pathsep.join(map(str, files)))
    assert editors("mine.py") == ["one", "two"]


@pytest.mark.parametrize("name", ["absent.py", "notes.txt", "folder.py"])
def test_what_is_no_file_of_python_is_an_error(here, monkeypatch, name):
    (here / "notes.txt").write_text("")
    (here / "folder.py").mkdir()
    monkeypatch.setenv(discovery.FILES, str(here / name))
    with pytest.raises(UsageError) as caught:
        Plugins.installed()
    assert caught.value.cause == f"{here / name} is no plugin: there is no such Python file"
    assert caught.value.remedy == "name a file: --plugin mine.py"


def test_a_broken_file_is_reported_and_can_be_mended_in_one_process(here, monkeypatch):
    (here / "mine.py").write_text("1 / 0")
    monkeypatch.setenv(discovery.FILES, str(here / "mine.py"))
    (failure,) = Plugins.installed().failures
    assert str(failure).startswith("mine.py (edit_harness_file_")
    assert failure.reason == "ZeroDivisionError: division by zero"
    (here / "mine.py").write_text(EDITOR + "\n")
    assert editors("mine.py") == ["nothing"]


def test_a_module_that_registers_nothing_is_broken(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR.replace("@hookimpl", ""))
    monkeypatch.setenv(discovery.FILES, str(here / "mine.py"))
    (failure,) = Plugins.installed().failures
    assert failure.reason.endswith("it registers nothing; hooks are functions marked @hookimpl")


def test_a_plugin_of_a_later_interface_is_broken(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR + "\nedit_harness_api = 99\n")
    monkeypatch.setenv(discovery.FILES, str(here / "mine.py"))
    (failure,) = Plugins.installed().failures
    assert "made for version 99 of the plugin interface, and here it is 1" in failure.reason


def test_a_folder_has_files_with_hooks_and_modules_that_they_import(here, monkeypatch):
    (here / "helping.py").write_text("raise SystemExit('this one is imported by nobody')")
    (here / "constants.py").write_text("NAME = 'nothing'")
    (here / "mine.py").write_text(f"from constants import NAME\n{EDITOR}")
    monkeypatch.setenv(discovery.FOLDERS, str(here))
    assert editors("mine.py") == ["nothing"]


def test_a_folder_with_the_sources_of_a_package(sources, monkeypatch):
    monkeypatch.setenv(discovery.FOLDERS, str(sources))
    assert editors("edit-harness-nothing") == ["nothing"]
    (package,) = (p for p in Plugins.installed().packages if p.name == "edit-harness-nothing")
    assert (package.version, package.source) == ("0.7", f"{sources} (sources)")


def test_sources_hide_what_is_installed_by_that_name(sources, here, monkeypatch):
    (here / "site").mkdir()
    distribution(here / "site", "edit-harness-nothing", EDITOR, version="0.1")
    monkeypatch.syspath_prepend(here / "site")
    importlib.invalidate_caches()
    monkeypatch.setenv(discovery.FOLDERS, str(sources))
    assert [p.version for p in discovery.found() if p.name == "edit-harness-nothing"] == ["0.7"]


@pytest.mark.parametrize(
    ("pyproject", "cause"),
    [
        (None, "has no plugin"),
        ("[project]\nname = 'x'", "has no plugin"),
        ("[project", "pyproject.toml is no TOML"),
    ],
)
def test_a_folder_without_plugins_is_an_error(here, monkeypatch, pyproject, cause):
    if pyproject is not None:
        (here / "pyproject.toml").write_text(pyproject)
    monkeypatch.setenv(discovery.FOLDERS, str(here))
    with pytest.raises(UsageError, match=cause):
        Plugins.installed()


def test_a_folder_that_is_not_there_is_an_error(here, monkeypatch):
    monkeypatch.setenv(discovery.FOLDERS, str(here / "absent"))
    with pytest.raises(UsageError) as caught:
        Plugins.installed()
    assert caught.value.cause == f"there is no folder {here / 'absent'}"


@pytest.mark.parametrize(
    ("variable", "names", "reason"),
    [
        (discovery.BLOCK, "Quiz_Good", "EDIT_HARNESS_BLOCK names it"),
        (discovery.BLOCK, "other, quiz-good", "EDIT_HARNESS_BLOCK names it"),
        (discovery.ONLY, "edit-harness", "EDIT_HARNESS_PLUGINS does not name it"),
        (discovery.ONLY, "", "EDIT_HARNESS_PLUGINS does not name it"),
    ],
)
def test_lists_leave_out_what_is_installed_and_say_so(here, monkeypatch, variable, names, reason):
    distribution(here, "quiz-good", EDITOR)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv(variable, names)
    found = Plugins.installed()
    assert reason in [out.reason for out in found.left_out if out.package.name == "quiz-good"]
    assert f"quiz-good 1.0 is left out: {reason}" in found.unknown("editor", "nothing").remedy


def test_lists_are_of_what_is_installed_not_of_what_is_named(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR)
    monkeypatch.setenv(discovery.FILES, str(here / "mine.py"))
    monkeypatch.setenv(discovery.ONLY, "edit-harness")
    assert editors("mine.py") == ["nothing"]
    assert editors("edit-harness")


def of(name):
    (package,) = (p for p in discovery.found() if p.name == name)
    return package


def test_a_digest_is_of_names_and_bytes(sources, monkeypatch):
    monkeypatch.setenv(discovery.FOLDERS, str(sources))
    first = of("edit-harness-nothing").digest
    assert of("edit-harness-nothing").digest == first
    data = sources / "src" / "edit_harness_nothing" / "data.json"
    data.write_text("[1]")
    second = of("edit-harness-nothing").digest
    data.rename(data.with_name("other.json"))
    assert len({first, second, of("edit-harness-nothing").digest}) == 3


def test_compiled_files_are_no_part_of_a_digest(sources, monkeypatch):
    monkeypatch.setenv(discovery.FOLDERS, str(sources))
    first = of("edit-harness-nothing")
    cache = sources / "src" / "edit_harness_nothing" / "__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_bytes(b"1")
    assert of("edit-harness-nothing").digest == first.digest
    assert of("edit-harness-nothing").stamp == first.stamp


def test_a_wheel_an_editable_install_and_the_sources_have_one_digest(sources, here, monkeypatch):
    """What is recorded of a run says the same of the same code."""
    copy = here / "copy"
    shutil.copytree(sources, copy)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--target"]
    for target, what in (("wheel", [str(copy)]), ("editable", ["-e", str(sources)])):
        command = [sys.executable, "-m", "pip", "install", *options, str(here / target), *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    monkeypatch.setenv(discovery.FOLDERS, str(sources))
    digests = {"sources": of("edit-harness-nothing").digest}
    monkeypatch.delenv(discovery.FOLDERS)
    for target in ("wheel", "editable"):
        with monkeypatch.context() as patch:
            patch.syspath_prepend(here / target)
            importlib.invalidate_caches()
            package = of("edit-harness-nothing")
            patch.syspath_prepend(sources / "src")  # where the .pth of a site folder would lead
            digests[target] = package.digest
            assert package.source.startswith(f"file://{here}")
            assert package.source.endswith("(editable)") == (target == "editable")
    assert len(set(digests.values())) == 1, digests


def test_a_revision_is_part_of_the_source(here, monkeypatch):
    distribution(here, "quiz-good", EDITOR)
    said = {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    (here / "quiz_good-1.0.dist-info" / "direct_url.json").write_text(json.dumps(said))
    monkeypatch.syspath_prepend(here)
    assert of("quiz-good").source == "git+https://example.org/x.git@abc"


def test_our_own_package_is_one_of_them(here):
    package = of("edit-harness")
    names = {name for name, _ in package.contents()}
    assert {"edit_harness/cli.py", "edit_harness_plugins/editors/rome.py"} <= names
    assert package.version
    assert (ROOT / "harness" / "cli.py").read_bytes() == dict(package.contents())[
        "edit_harness/cli.py"
    ].read_bytes()
