"""The command `new`: what it writes installs, passes its own checks and runs, and bad names are refused."""

import os
import re
import shlex
import subprocess
import sys
import tarfile
from importlib.metadata import metadata, version
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from support.builders import ROOT

from edit_harness.cli import main
from edit_harness.hookspecs import API
from edit_harness_plugins.commands.authoring.new import LONGEST, RUNS, TEMPLATES

KINDS = tuple(RUNS)
MARK = "Here is what makes it yours"
UNFOLLOWED = """
[[tool.mypy.overrides]]
module = ["transformers.*"]
follow_imports = "skip"
"""
OFFLINE = ("--no-deps", "--no-index", "--disable-pip-version-check")


def tell(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args], env={"COLUMNS": "80"})


def python(*args, cwd=None, **env):
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | {name: str(value) for name, value in env.items()},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(result, code, *parts):
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    for part in parts:
        assert part in " ".join(result.stderr.split()), result.stderr


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Have a package of each kind written; return the folders."""
    folder = tmp_path_factory.mktemp("packages")
    for kind in KINDS:
        assert tell("new", kind, f"my-{kind}", "-o", folder).exit_code == 0
    return {kind: folder / f"edit-harness-my-{kind}" for kind in KINDS}


@pytest.fixture(scope="module")
def wheels(packages, tmp_path_factory):
    """Build the wheels as `pip install ./edit-harness-my-editor` does."""
    folder = tmp_path_factory.mktemp("wheels")
    options = ("--no-build-isolation", *OFFLINE, "--wheel-dir", folder)
    python("-m", "pip", "wheel", *options, *packages.values())
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheels, tmp_path_factory):
    """Install the wheels into a folder of their own."""
    folder = tmp_path_factory.mktemp("site")
    python("-m", "pip", "install", *OFFLINE, "--target", folder, *wheels)
    return folder


@pytest.fixture
def installed(site, tmp_path, monkeypatch):
    """Have what is installed on the path, and forget its modules afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(site)
    yield site
    for name in [name for name in sys.modules if name.startswith("edit_harness_my_")]:
        del sys.modules[name]


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written(packages, kind):
    found = files_of(packages[kind])
    package = f"src/edit_harness_my_{kind}"
    expected = {".gitignore", "README.md", "pyproject.toml", "tests/test_conformance.py"}
    expected |= {f"{package}/{name}.py" for name in ("__init__", kind)}
    # A command has no suite.
    expected |= set() if kind == "command" else {f"{package}/conformance.py"}
    expected |= {f"{package}/py.typed"}
    data = {f"{package}/facts.jsonl", f"{package}/facts.py", "tests/test_data.py"}
    expected |= data if kind == "task" else set()
    assert found.keys() == expected
    texts = {name: path.read_text(encoding="utf-8") for name, path in found.items()}
    assert not [name for name, text in texts.items() if "$" in text]
    assert [name for name, text in texts.items() if MARK in text] == [f"{package}/{kind}.py"]
    assert f"edit_harness_api = {API}\n" in texts[f"{package}/__init__.py"]
    assert "\n# authors = " in texts["pyproject.toml"]
    assert "what an index shows" in texts["README.md"]
    for command in ("pip install -e .", RUNS[kind].format(f"my-{kind}"), "twine upload"):
        assert command in texts["README.md"]


def test_what_can_be_created_is_what_has_templates():
    assert {path.name for path in TEMPLATES.iterdir()} == {"every", *KINDS}
    (kinds,) = (p.type.choices for p in main.get_command(None, "new").params if p.name == "kind")
    assert tuple(kinds) == KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["x", "a" * LONGEST, "one-2-three"])
def test_it_passes_its_own_lint_whatever_it_is_called(tmp_path, kind, name):
    assert tell("new", kind, name, "-o", tmp_path).exit_code == 0
    (folder,) = tmp_path.iterdir()
    for command in (["check"], ["format", "--check"]):
        python("-m", "ruff", *command, "--no-cache", cwd=folder)


@pytest.mark.slow
def test_it_passes_its_own_type_check(packages, tmp_path):
    for name, folder in {"edit_harness": "harness", "edit_harness_plugins": "plugins"}.items():
        (tmp_path / name).symlink_to(ROOT / folder)
    # Following transformers would take most of the time, and is of no interest here.
    own = (packages["editor"] / "pyproject.toml").read_text(encoding="utf-8")
    settings = tmp_path / "pyproject.toml"
    settings.write_text(own + UNFOLLOWED, encoding="utf-8")
    options = ("--config-file", settings, "--follow-imports=silent")
    sources = [folder / "src" for folder in packages.values()]
    said = python("-m", "mypy", *options, *sources, cwd=tmp_path, MYPYPATH=tmp_path)
    assert "no issues found in 15 source files" in said


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_passes_its_own_tests(packages, site, kind):
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    options = ("-q", "-rs", "-p", "no:cacheprovider", "-W", "error")
    said = python("-m", "pytest", *options, cwd=packages[kind], PYTHONPATH=path)
    assert " passed" in said
    assert not re.findall(r"SKIPPED .*: (.*)", said)


def test_its_wheel_is_ready_to_be_published(wheels):
    said = python("-m", "twine", "check", "--strict", *wheels)
    assert said.count("PASSED") == len(KINDS)


@pytest.mark.slow
def test_its_source_distribution_has_the_data(packages, tmp_path):
    options = ("--no-isolation", "--sdist", "--outdir", tmp_path)
    python("-m", "build", *options, packages["task"])
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert names >= {"facts.jsonl", "py.typed", "test_conformance.py", "test_data.py"}


def test_it_asks_for_this_version(installed):
    said = metadata("edit-harness-my-editor")
    (required,) = (
        requirement
        for requirement in map(Requirement, said.get_all("Requires-Dist"))
        if requirement.name == "edit-harness"
    )
    ours = version("edit-harness")
    assert required.specifier.contains(ours)
    major, minor, _ = map(int, ours.split("."))
    assert not required.specifier.contains(f"{major}.{minor + 1}.0")
    assert said["License-Expression"]
    assert not said.get_all("Project-URL")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "row"), [("editor", "ES"), ("task", "ES"), ("metric", "E-my-metric"), ("judge", "SA")]
)
def test_the_command_that_it_names_prints_a_table(installed, kind, row):
    _, *flags = shlex.split(RUNS[kind].format(f"my-{kind}"))
    result = tell(*flags, "--limit", 5)
    assert result.exit_code == 0, result.stderr
    line = next(line.split() for line in result.stdout.splitlines() if line.startswith(row + " "))
    _, _, before, after, *_ = line
    assert float(after) > float(before)
    assert kind == "metric" or f"my-{kind}" in result.stderr


@pytest.mark.slow
def test_a_command_is_listed_and_run_as_ours_are(installed):
    listed = " ".join(tell("--help").stdout.split())
    assert "my-command Say how many of some edits took." in listed
    result = tell("my-command", "--limit", 2)
    assert (result.exit_code, result.stdout) == (0, "rome: 100.0 % of 2 edits took\n")
    refused(tell("my-command", "--editor", "rmoe"), 3, "there is no editor 'rmoe'; did you mean")
    refused(tell("my-comand"), 2, "there is no command 'my-comand'; did you mean my-command?")


def test_it_says_what_comes_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tell("new", "editor", "demo")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "written  ./edit-harness-demo"
    assert lines[-3:] == [
        "next     pip install -e ./edit-harness-demo",
        "         edit-harness check edit-harness-demo",
        "         edit-harness --editor demo --limit 100",
    ]
    assert max(map(len, lines)) <= 80
    named = {line.strip() for line in lines[1:-3]}
    assert named == files_of(tmp_path / "edit-harness-demo").keys()


def test_it_goes_where_it_is_told_to(tmp_path):
    result = tell("new", "task", "demo", "--out", tmp_path / "a b" / "c")
    folder = tmp_path / "a b" / "c" / "edit-harness-demo"
    assert (folder / "pyproject.toml").is_file()
    assert f"pip install -e '{folder}'" in result.stdout


@pytest.mark.parametrize("folder", ["sub", "..", "."])
def test_pip_takes_the_place_that_it_names_for_a_path(tmp_path, monkeypatch, folder):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    line = tell("new", "task", "demo", "-o", folder).stdout.splitlines()[-3]
    place = line.split()[-1]
    assert os.sep in place
    assert (Path(place) / "pyproject.toml").is_file()


@pytest.mark.parametrize(
    "name",
    ["My_Editor", "a--b", "../b", "été", "3d", "", "--", "edit-harness-demo", "edit-harness"],
)
def test_a_name_that_cannot_be_one_is_refused(tmp_path, name):
    result = tell("new", "editor", "-o", tmp_path / "out", "--", name)
    refused(
        result, 2, "is no name: a-z, 0-9 and single hyphens after a letter", "edit-harness-NAME"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["a" * 300, "A" * 300])
def test_a_long_name_is_not_repeated_whole(tmp_path, name):
    result = tell("new", "editor", name, "-o", tmp_path)
    assert name[: LONGEST + 1] not in result.stderr


def test_nothing_is_overwritten(tmp_path):
    folder = tmp_path / "edit-harness-demo"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    refused(tell("new", "editor", "demo", "-o", tmp_path), 2, "is there already", "--out DIR")
    assert files_of(folder).keys() == {"README.md"}
    assert (folder / "README.md").read_text() == "mine"


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "edit-harness-demo").write_text("mine")
    refused(tell("new", "editor", "demo", "-o", tmp_path), 2, "is there already")


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "edit-harness-demo").mkdir()
    assert tell("new", "editor", "demo", "-o", tmp_path).exit_code == 0
    assert (tmp_path / "edit-harness-demo" / "pyproject.toml").is_file()


def test_a_place_that_cannot_be_written_to_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    refused(tell("new", "editor", "demo", "-o", tmp_path / "file"), 5, "Not a directory")


def test_another_kind_is_refused():
    refused(tell("new", "model", "demo"), 2, "'model' is not one of 'editor', 'task'")
