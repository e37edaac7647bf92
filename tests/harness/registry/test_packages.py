"""What brings plugins: installed, in a folder, in a file; and the digest that identifies it."""

import importlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from support.builders import ROOT, distribution, in_memory

from edit_harness import PluginError, UsageError
from edit_harness.registry import packages
from edit_harness.registry.packages import file_of, of_class
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.commands.catalog import list as inventory

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
    for name in (packages.ONLY, packages.BLOCK, packages.FILES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith(
            ("quiz_", "edit_harness_nothing", "edit_harness_file_", "constants", "lab")
        ):
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
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))
    found = Plugins.installed()
    assert found.find("editor", "mine.py/nothing").origin == "mine.py"
    assert (
        found.find("editor", "nothing").load()
        is Plugins.installed().find("editor", "nothing").load()
    )
    assert found.find("editor", "rome").distribution == "edit-harness"


def test_two_files_may_have_one_name(here, monkeypatch):
    files = [here / "a" / "mine.py", here / "b" / "mine.py"]
    for file, name in zip(files, ("one", "two"), strict=True):
        file.parent.mkdir()
        file.write_text(EDITOR.replace('"nothing"', f'"{name}"'))
    monkeypatch.setenv(packages.FILES, os.pathsep.join(map(str, files)))
    assert editors("mine.py") == ["one", "two"]


@pytest.mark.parametrize("pair", [("my-ed.py", "my_ed.py"), ("编辑.py", "任务.py")])
def test_files_of_names_alike_both_run(here, monkeypatch, pair):
    for file, name in zip(pair, ("one", "two"), strict=True):
        (here / file).write_text(EDITOR.replace('"nothing"', f'"{name}"'))
    monkeypatch.setenv(packages.FILES, os.pathsep.join(str(here / file) for file in pair))
    found = Plugins.installed()
    assert {c.name for c in found.of_kind("editor") if c.distribution in pair} == {"one", "two"}
    assert not found.failures


def test_a_file_that_is_named_twice_counts_once(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR)
    (here / "link.py").symlink_to(here / "mine.py")
    files = [here / "mine.py", here / "link.py", here / "." / "mine.py"]
    monkeypatch.setenv(packages.FILES, os.pathsep.join(map(str, files)))
    found = Plugins.installed()
    assert [p.source for p in found.packages if p.named] == [str(here / "mine.py")]
    assert not found.failures


def test_a_file_counts_with_what_it_imports_from_beside_it(here, monkeypatch):
    """Item 9 of issue I: each change of one of them is another digest."""
    monkeypatch.syspath_prepend(here)
    (here / "constants.py").write_text("from lab.deep import RATE\nSIZE = 1\n")
    (here / "lab").mkdir()
    (here / "lab" / "__init__.py").write_text("")
    (here / "lab" / "deep.py").write_text("RATE = 1\n")
    (here / "unused.py").write_text("RATE = 1\n")
    mine = "import constants\nimport numpy\n" + EDITOR
    (here / "mine.py").write_text(mine.replace("...", "return constants.RATE"))
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))

    def now():
        importlib.invalidate_caches()
        return Plugins.installed().find("editor", "nothing").package.digest

    first = now()
    assert now() == first
    (here / "unused.py").write_text("RATE = 20\n")
    assert now() == first
    (here / "lab" / "deep.py").write_text("RATE = 20\n")
    assert now() != first
    names = {name for name, _ in of("mine.py").contents()}
    assert names == {"mine.py", "constants.py", "lab/__init__.py", "lab/deep.py"}


def test_failures_of_files_of_one_name_are_kept_apart(here, monkeypatch):
    files = [here / "a" / "mine.py", here / "b" / "mine.py"]
    for file, text in zip(files, (EDITOR, "1 / 0"), strict=True):
        file.parent.mkdir()
        file.write_text(text)
    monkeypatch.setenv(packages.FILES, os.pathsep.join(map(str, files)))
    found = Plugins.installed()
    (failure,) = found.failures
    assert failure.package.source == str(files[1])
    states = {row["from"]: row["state"] for row in inventory.packages(found)}
    assert (states[str(files[0])], states[str(files[1])]) == ("loaded", "broken")


@pytest.mark.parametrize("name", ["absent.py", "notes.txt", "folder.py"])
def test_what_is_no_file_of_python_is_an_error(here, monkeypatch, name):
    (here / "notes.txt").write_text("")
    (here / "folder.py").mkdir()
    monkeypatch.setenv(packages.FILES, str(here / name))
    with pytest.raises(UsageError) as caught:
        Plugins.installed()
    assert caught.value.cause == f"{here / name} is no plugin: there is no such Python file"
    assert caught.value.remedy == "name a file: --plugin mine.py"


def test_a_broken_file_is_reported_and_can_be_mended_in_one_process(here, monkeypatch):
    (here / "mine.py").write_text("1 / 0")
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))
    (failure,) = Plugins.installed().failures
    assert str(failure).startswith("mine.py could not be loaded: ZeroDivisionError")
    assert failure.reason == "ZeroDivisionError: division by zero"
    (here / "mine.py").write_text(EDITOR + "\n")
    assert editors("mine.py") == ["nothing"]


def test_a_module_that_registers_nothing_is_broken(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR.replace("@hookimpl", ""))
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))
    (failure,) = Plugins.installed().failures
    assert failure.reason.endswith("it registers nothing; hooks are functions marked @hookimpl")


def test_a_plugin_of_another_interface_is_left_out_and_told_what_has_moved(here, monkeypatch):
    (here / "mine.py").write_text(f"{EDITOR}\nedit_harness_api = 1\n")
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))
    (failure,) = Plugins.installed().failures
    assert failure.reason.endswith("; CHANGELOG.md, What has moved, says what is where")


@pytest.mark.parametrize(
    ("variable", "names", "reason"),
    [
        (packages.BLOCK, "Quiz_Good", "EDIT_HARNESS_BLOCK names it"),
        (packages.BLOCK, "other, quiz-good", "EDIT_HARNESS_BLOCK names it"),
        (packages.ONLY, "edit-harness", "EDIT_HARNESS_PLUGINS does not name it"),
        (packages.ONLY, "", "EDIT_HARNESS_PLUGINS does not name it"),
    ],
)
def test_lists_leave_out_what_is_installed_and_say_so(here, monkeypatch, variable, names, reason):
    distribution(here, "quiz-good", EDITOR)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv(variable, names)
    found = Plugins.installed()
    assert reason in [why for package, why in found.left_out.items() if package.name == "quiz-good"]
    with pytest.raises(PluginError) as caught:
        found.find("editor", "nothing")
    assert f"quiz-good 1.0 is left out: {reason}" in caught.value.remedy


def test_lists_are_of_what_is_installed_not_of_what_is_named(here, monkeypatch):
    (here / "mine.py").write_text(EDITOR)
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))
    monkeypatch.setenv(packages.ONLY, "edit-harness")
    assert editors("mine.py") == ["nothing"]
    assert editors("edit-harness")


def of(name):
    (package,) = (p for p in packages.found() if p.name == name)
    return package


def test_a_digest_is_of_names_and_bytes(laboratory):
    first = of("lab-a").digest
    assert of("lab-a").digest == first
    data = laboratory / "lab_a" / "data.json"
    data.write_text("[1]")
    second = of("lab-a").digest
    data.rename(data.with_name("other.json"))
    assert len({first, second, of("lab-a").digest}) == 3


def test_compiled_and_hidden_files_are_no_part_of_a_digest(laboratory):
    digest = of("lab-a").digest
    (laboratory / "lab_a" / "__pycache__").mkdir(exist_ok=True)
    (laboratory / "lab_a" / "__pycache__" / "x.pyc").write_bytes(b"1")
    (laboratory / "lab_a" / ".core.py.swp").write_text("")
    assert of("lab-a").digest == digest


@pytest.fixture
def laboratory(here, monkeypatch):
    """Two packages, each with an editor in a module of its own."""
    for name in "ab":
        lazy = EDITOR.replace("Nothing,", f'"lab_{name}.core:Nothing",')
        site = here / f"lab_{name}"
        site.mkdir()
        (site / "__init__.py").write_text(lazy.replace('"nothing"', f'"nothing-{name}"'))
        (site / "core.py").write_text(EDITOR)
        info = here / f"lab_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: lab-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[edit_harness]\nx = lab_{name}\n")
    monkeypatch.syspath_prepend(here)
    importlib.invalidate_caches()
    return here


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_class_is_of_the_package_that_has_its_file(laboratory, name):
    found = Plugins.installed()
    component = found.find("editor", f"nothing-{name}")
    kind = component.load()
    names = [f"lab-{name}", "edit-harness"]
    assert [p.name for p in found.packages_of(kind)] == names
    assert [p.name for p in found.packages_of(kind, component.package)] == names
    first = component.package.digest
    (laboratory / f"lab_{name}" / "core.py").write_text("changed")
    assert of(f"lab-{name}").digest != first


def test_a_class_counts_with_the_packages_of_its_bases_and_of_who_registered_it(laboratory):
    found = Plugins.installed()
    a, b = (found.find("editor", f"nothing-{name}") for name in "ab")
    mine = type("Mine", (a.load(),), {"__module__": __name__})
    names = [p.name for p in found.packages_of(mine, b.package)]
    assert names == ["lab-b", "test_packages.py", "lab-a", "edit-harness"]


@pytest.mark.parametrize("value", ["__main__", "not a module!", ".relative", ":Nothing"])
def test_an_installed_entry_point_that_names_no_module_is_broken(here, monkeypatch, value):
    module = distribution(here, "quiz-bad", EDITOR)
    info = here / f"{module}-1.0.dist-info" / "entry_points.txt"
    info.write_text(f"[edit_harness]\nx = {value}\n")
    monkeypatch.syspath_prepend(here)
    found = Plugins.installed()
    assert [f.package.name for f in found.failures] == ["quiz-bad"]
    assert of("quiz-bad").digest
    assert found.find("editor", "rome")


def test_a_wheel_and_an_editable_install_have_one_digest(sources, here, monkeypatch):
    """What is recorded of a run says the same of the same code."""
    copy = here / "copy"
    shutil.copytree(sources, copy)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--target"]
    for target, what in (("wheel", [str(copy)]), ("editable", ["-e", str(sources)])):
        command = [sys.executable, "-m", "pip", "install", *options, str(here / target), *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    digests = {}
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
    assert {"edit_harness/cli.py", "edit_harness_plugins/editors/locate/rome.py"} <= names
    assert package.version
    assert (ROOT / "harness" / "cli.py").read_bytes() == dict(package.contents())[
        "edit_harness/cli.py"
    ].read_bytes()


def test_a_file_imports_what_lies_beside_it(here, monkeypatch):
    """A stranger's review of issue 18: without PYTHONPATH, behind what is installed, and later too."""
    (here / "helper9.py").write_text("RATE = 7\n")
    (here / "json.py").write_text("1 / 0")
    mine = "import helper9\nimport json\n" + EDITOR
    (here / "mine.py").write_text(mine.replace("...", "return helper9.RATE"))
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))
    found = Plugins.installed()
    assert not found.failures
    assert found.find("editor", "nothing").load().edit(None, None, None) == 7
    assert sys.path[-1] == str(here)


@pytest.mark.parametrize("wanted", ["from . import helper9", "from .helper9 import RATE"])
def test_a_file_is_in_no_package(here, monkeypatch, wanted):
    """A stranger's review of issue 18: the import is the plugin's own error, or its own to mend."""
    (here / "helper9.py").write_text("RATE = 7\n")
    (here / "mine.py").write_text(f"{wanted}\n{EDITOR}")
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))
    (failure,) = Plugins.installed().failures
    assert "attempted relative import with no known parent package" in failure.reason
    mended = f"try:\n    {wanted}\nexcept ImportError:\n    import helper9\n{EDITOR}"
    (here / "mine.py").write_text(mended)
    assert not Plugins.installed().failures


CLASS = "class Mine:\n    pass\n"


def test_a_class_without_a_file_is_a_package_in_memory():
    kind = in_memory(CLASS).Mine
    package = of_class(kind)
    assert file_of(kind) is None
    assert (package.name, package.version, package.source) == ("Mine", "", "in memory")
    assert package.digest == package.identity["digest"]
    assert package.digest.startswith("unversioned ")


def test_it_is_another_each_time():
    """Nobody can tell whether it still does the same: reading its old numbers back would be a guess."""
    kind = in_memory(CLASS).Mine
    assert of_class(kind).digest != of_class(kind).digest
