"""The packages in ``examples/``, from their sources to the numbers of a run.

They are built and installed as a stranger's are, without a network, and used in processes of their own.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from support.builders import ROOT

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml"))
TRACES = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", "results", ".*_cache")
"""What an author's work leaves in a folder."""
HARNESS = ("-m", "edit_harness")
BATCHED_ONLY = """
from edit_harness.cli import main
from edit_harness.model import Model

applied = Model.applied

def refusing(model, edit):
    assert edit.patch is None and not edit.weights, "an edit was applied alone, not by hooks"
    return applied(model, edit)

Model.applied = refusing
main()
"""
"""The command, where an edit that can't share forward passes with others fails."""

each_example = pytest.mark.parametrize("name", EXAMPLES)
pytestmark = pytest.mark.slow


def python(*args, cwd=None, path=()):
    command = [sys.executable, *map(str, args)]
    paths = [*map(str, path), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "80"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)


def succeed(*args, **options):
    done = python(*args, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build each package, its wheel from its source distribution, from a copy that holds no traces."""
    sources, out = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("built")
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, sources / name, ignore=TRACES)
        succeed("-m", "build", "--no-isolation", "--outdir", out / name, sources / name)
    return out


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """Install all wheels into a folder."""
    target = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-index", "--target", target]
    succeed("-m", "pip", "install", *options, *built.glob("*/*.whl"))
    return target


@pytest.fixture(scope="module")
def loaded(installed):
    """Return what the command ``plugins`` says of each package."""
    said = json.loads(succeed(*HARNESS, "plugins", "--json", path=[installed]))
    return {entry["name"]: entry for entry in said["plugins"]}


@each_example
def test_it_can_be_uploaded(built, name):
    files = sorted((built / name).iterdir())
    assert [file.suffix for file in files] == [".whl", ".gz"]
    assert succeed("-m", "twine", "check", "--strict", *files).count("PASSED") == len(files)


@each_example
def test_it_is_loaded_without_a_word(loaded, name):
    assert loaded[name]["state"] == "loaded"
    assert loaded[name]["notes"] == []
    assert loaded[name]["provides"]


@each_example
def test_its_components_are_listed(installed, loaded, name):
    listed = json.loads(succeed(*HARNESS, "ls", "--json", path=[installed]))
    package = f"{name} {loaded[name]['version']}"
    for kind in ("editors", "tasks", "metrics"):
        found = [row["name"] for row in listed[kind] if row["package"] == package]
        assert found == loaded[name]["provides"].get(kind, [])


@each_example
def test_its_own_tests_pass_on_its_wheel(installed, name, tmp_path):
    # Without its sources, so that what is missing in the wheel is missed.
    without = shutil.ignore_patterns("src")
    shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=without)
    options = ["-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist"]
    told = succeed("-m", "pytest", *options, cwd=tmp_path / name, path=[installed])
    assert " passed" in told
    assert set(re.findall(r"SKIPPED .*: (.*)", told)) <= {"it registers no adaptor"}


@each_example
def test_it_passes_its_own_lint(name, tmp_path):
    # Elsewhere, so that no settings but its own are found.
    shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=TRACES)
    succeed("-m", "ruff", "check", "--no-cache", ".", cwd=tmp_path / name)
    succeed("-m", "ruff", "format", "--no-cache", "--check", ".", cwd=tmp_path / name)


@each_example
def test_it_conforms(installed, name):
    succeed(*HARNESS, "check", name, path=[installed])


def test_an_editor_and_a_task_of_strangers_meet_in_one_run(installed, loaded, tmp_path):
    pair = ("edit-harness-tpatcher", "edit-harness-reversal")
    versions = {name: loaded[name]["version"] for name in pair}
    flags = ["--editor=tpatcher", "--task=reversal", "--limit=5", "--output-path", tmp_path]
    table = succeed("-c", BATCHED_ONLY, *flags, path=[installed])
    assert {"ES", "NS", "Rev", "RevM"} <= {line.partition(" ")[0] for line in table.splitlines()}
    (folder,) = tmp_path.iterdir()
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert results["failed"] == {}
    assert results["noop"] == 0
    numbers = results["results"]
    assert numbers["post_Rev_n,single"] == numbers["post_ES_n,single"] == 5
    assert numbers["post_ES,single"] > numbers["pre_ES,single"] == 0
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    recorded = {each["name"]: each["version"] for each in manifest["distributions"]}
    assert {name: recorded[name] for name in pair} == versions
