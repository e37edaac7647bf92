"""Packages as strangers ship them: those of ``examples/``, those that `new` writes, those of the tutorials.

They are built and installed without a network, and used in processes of their own.
"""

import json
import re
import shlex
import shutil
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.builders import ROOT
from support.commands import edit_harness, failed, invoked, python
from support.pages import TUTORIALS, blocks, files

from edit_harness.registry import packages
from edit_harness_plugins.commands.authoring.new import RUNS

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml"))
WRITTEN = {kind: f"edit-harness-my-{kind}" for kind in RUNS}
FOLLOWED = {kind: f"edit-harness-{name}" for kind, (_, name) in TUTORIALS.items()}
TRACES = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", "results", ".*_cache")
"""What an author's work leaves in a folder."""
OFFLINE = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
HARNESS = ("-m", "edit_harness")
UNFOLLOWED = """
[[tool.mypy.overrides]]
module = ["transformers.*"]
follow_imports = "skip"
"""
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

each_package = pytest.mark.parametrize("name", [*EXAMPLES, *WRITTEN.values(), *FOLLOWED.values()])


def follow(kind: str, folder: Path) -> None:
    """Follow a tutorial: have a package written, and put the page's files into it."""
    page, name = TUTORIALS[kind]
    root = folder / FOLLOWED[kind]
    assert edit_harness("plugins", "new", kind, name, "-o", folder)[0] == 0
    for path, source in files(page).items():
        if path.startswith("src/"):
            assert (root / path).exists(), "only what `new` has written is there to be changed"
            (root / path).write_text(source.partition("\n")[2], encoding="utf-8")
    for data in blocks(page, "json"):
        (root / "src" / f"edit_harness_{name}" / "facts.jsonl").write_text(data, "utf-8")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The folder with the sources of all packages, without what work on them has left."""
    folder = tmp_path_factory.mktemp("sources")
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, folder / name, ignore=TRACES)
    for kind in WRITTEN:
        assert edit_harness("plugins", "new", kind, f"my-{kind}", "-o", folder)[0] == 0
    for kind in FOLLOWED:
        follow(kind, folder)
    return folder


@pytest.fixture(scope="module")
def wheels(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    options = ("--no-build-isolation", *OFFLINE, "--wheel-dir", folder)
    python("-m", "pip", "wheel", *options, *sorted(sources.iterdir()))
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheels, tmp_path_factory):
    """The folder that all wheels are installed into."""
    folder = tmp_path_factory.mktemp("site")
    python("-m", "pip", "install", *OFFLINE, "--target", folder, *wheels)
    return folder


@pytest.fixture(scope="module")
def loaded(site):
    """What the command `plugins` says of each package."""
    said = json.loads(python(*HARNESS, "plugins", "--json", path=[site]))
    return {entry["name"]: entry for entry in said["plugins"]}


@pytest.fixture(scope="module")
def listed(site):
    return json.loads(python(*HARNESS, "ls", "--json", path=[site]))


@pytest.fixture
def installed(site, tmp_path, monkeypatch):
    """The packages are found in this process, and their modules forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(site)
    yield site
    for name in [name for name in sys.modules if name.startswith("edit_harness_my_")]:
        del sys.modules[name]


@each_package
def test_it_is_loaded_without_a_word_and_listed(loaded, listed, name):
    said = loaded[name]
    assert (said["state"], said["notes"]) == ("loaded", [])
    assert said["provides"]
    package = f"{name} {said['version']}"
    for kind in said["provides"].keys() & listed.keys():
        names = [row["name"] for row in listed[kind] if row["package"] == package]
        assert names == said["provides"][kind]


@each_package
def test_its_own_tests_pass_on_its_wheel(sources, site, name, tmp_path):
    shutil.copytree(sources / name, tmp_path / name, ignore=shutil.ignore_patterns("src"))
    options = ("-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error")
    said = python("-m", "pytest", *options, cwd=tmp_path / name, path=[site])
    assert " passed" in said
    prompts = {"a random model cannot show it"} if name == "edit-harness-mello" else set()
    assert set(re.findall(r"SKIPPED .*: (.*)", said)) <= {"it registers no adaptor"} | prompts


def test_they_pass_their_own_type_checks(sources, tmp_path):
    for name, folder in {"edit_harness": "harness", "edit_harness_plugins": "plugins"}.items():
        (tmp_path / name).symlink_to(ROOT / folder)
    # Following transformers would take most of the time, and is of no interest here.
    own = (sources / WRITTEN["editor"] / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(own + UNFOLLOWED, encoding="utf-8")
    options = ("--config-file", tmp_path / "pyproject.toml", "--follow-imports=silent")
    checked = [sources / name / "src" for name in (*WRITTEN.values(), *FOLLOWED.values())]
    assert "no issues" in python("-m", "mypy", *options, *checked, cwd=tmp_path, MYPYPATH=tmp_path)


def test_an_editor_and_a_task_of_strangers_meet_in_one_run(site, loaded, tmp_path):
    flags = ("--editor=tpatcher", "--task=reversal", "--limit=5", "--output", tmp_path)
    table = python("-c", BATCHED_ONLY, *flags, path=[site])
    assert {"ES", "NS", "Rev", "RevM"} <= {line.partition(" ")[0] for line in table.splitlines()}
    (folder,) = tmp_path.iterdir()
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert (results["failed"], results["noop"]) == ({}, 0)
    numbers = results["results"]
    assert numbers["post_Rev_n,single"] == numbers["post_ES_n,single"] == 5
    assert numbers["post_ES,single"] > numbers["pre_ES,single"] == 0
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    recorded = {each["name"]: each["version"] for each in manifest["distributions"]}
    for name in ("edit-harness-tpatcher", "edit-harness-reversal"):
        assert recorded[name] == loaded[name]["version"]


def test_a_wheel_and_an_editable_install_have_one_digest(sources, site, tmp_path, monkeypatch):
    """What is recorded of a run says the same of the same code."""
    own = shutil.copytree(sources / WRITTEN["task"], tmp_path / "own")
    options = ("--no-build-isolation", *OFFLINE, "--target", tmp_path / "editable")
    python("-m", "pip", "install", *options, "-e", own)
    digests = []
    for folder, code in ((site, site), (tmp_path / "editable", own / "src")):
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            (package,) = (p for p in packages.found() if p.name == WRITTEN["task"])
            patch.syspath_prepend(code)  # where the .pth of a site folder would lead
            digests.append(package.digest)
            assert package.source.endswith("(editable)") == (folder != site)
    assert len(set(digests)) == 1, digests


def test_a_written_package_asks_for_this_version(installed):
    said = metadata(WRITTEN["editor"])
    required = {each.name: each for each in map(Requirement, said.get_all("Requires-Dist"))}
    ours = version("edit-harness")
    assert required["edit-harness"].specifier.contains(ours)
    major, minor, _ = map(int, ours.split("."))
    assert not required["edit-harness"].specifier.contains(f"{major}.{minor + 1}.0")


@pytest.mark.parametrize(
    ("kind", "row"), [("editor", "ES"), ("task", "ES"), ("metric", "E-my-metric"), ("judge", "SA")]
)
def test_the_command_that_it_names_prints_a_table(installed, kind, row):
    _, *flags = shlex.split(RUNS[kind].format(f"my-{kind}"))
    result = invoked(*flags, "--limit", 5)
    assert result.exit_code == 0, result.stderr
    line = next(line.split() for line in result.stdout.splitlines() if line.startswith(row + " "))
    _, _, before, after, *_ = line
    assert float(after) > float(before)
    assert kind == "metric" or f"my-{kind}" in result.stderr


def test_a_command_is_listed_and_run_as_ours_are(installed):
    listed = " ".join(invoked("--help").stdout.split())
    assert "my-command Say how many of some edits took." in listed
    assert edit_harness("my-command", "--limit", 2) == (0, "rome: 100.0 % of 2 edits took\n")
    failed(invoked("my-command", "--editor", "rmoe"), 3, "there is no editor 'rmoe'; did you mean")
    failed(invoked("my-comand"), 2, "there is no command 'my-comand'; did you mean my-command?")
