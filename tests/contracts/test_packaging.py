"""What gets into the wheel: all of the sources, and nothing else."""

import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email import message_from_bytes

import pytest
from support.builders import ROOT

PACKAGES = {"edit_harness": "harness", "edit_harness_plugins": "plugins"}
"""Import name and folder."""
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


@pytest.fixture(scope="module")
def settings():
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy, so that neither an old build nor the copy's leave traces."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in PACKAGES.values():
        shutil.copytree(ROOT / folder, source / folder, ignore=IGNORED)
    for name in ("setup.cfg", "pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source / name)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", target]
    command = [sys.executable, "-m", "pip", "wheel", *options, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def metadata(archive, name):
    (path,) = (n for n in archive.namelist() if n.endswith(f".dist-info/{name}"))
    return archive.read(path)


def sources():
    """Return the files of the packages by their names in a wheel."""
    return {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}": path
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_every_folder_with_a_module_is_listed(settings):
    """An unlisted one would work where the project is installed editable, and nowhere else."""
    listed = settings["options"]["packages"].split()
    found = {
        name.rpartition("/")[0].replace("/", ".") for name in sources() if name.endswith(".py")
    }
    assert listed == sorted(found)
    missing = [n for n in found if f"{n.replace('.', '/')}/__init__.py" not in sources()]
    assert not missing, "folders with modules need an __init__.py"


def test_the_wheel_has_the_files_of_the_source_tree(wheel):
    packed = {name for name in wheel.namelist() if name.partition("/")[0] in PACKAGES}
    assert packed == sources().keys()
    for name, path in sources().items():
        assert wheel.read(name) == path.read_bytes(), name


def test_the_wheel_has_nothing_else(wheel):
    others = {n.partition("/")[0] for n in wheel.namelist()} - PACKAGES.keys()
    assert len(others) == 1
    assert others.pop().endswith(".dist-info")
    assert max(info.file_size for info in wheel.infolist()) < 50_000_000


@pytest.mark.parametrize(
    "name",
    [
        "edit_harness/py.typed",
        "edit_harness_plugins/py.typed",
        "edit_harness_plugins/commands/authoring/scaffold/every/.gitignore.tmpl",
        "edit_harness_plugins/commands/authoring/scaffold/every/pyproject.toml.tmpl",
        "edit_harness/testing/editors.py",
        "edit_harness_plugins/models/pocket/files/model.safetensors",
        "edit_harness_plugins/models/pocket/files/tokenizer.json",
        "edit_harness_plugins/models/pocket/files/counterfact.json",
        "edit_harness_plugins/models/pocket/files/seesaw/subjects.json",
        "edit_harness_plugins/models/pocket/files/mquake.json",
        "edit_harness_plugins/models/pocket/files/rippleedits.json",
        "edit_harness_plugins/models/pocket/files/zsre.json",
        "edit_harness_plugins/models/pocket/world/facts.json",
    ],
)
def test_what_a_run_needs_is_in_the_wheel(wheel, name):
    assert wheel.getinfo(name).file_size > 0 or name.endswith("py.typed")


def test_the_wheel_says_what_it_is(wheel, settings):
    data = message_from_bytes(metadata(wheel, "METADATA"))
    assert data["Name"] == "edit-harness"
    assert data["Version"] == settings["metadata"]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", data["Version"])
    assert data["License-Expression"] == "Apache-2.0"
    assert b"Apache License" in metadata(wheel, "licenses/LICENSE")
    assert "Evaluate" in data["Summary"]


def test_the_entry_points_are_those_of_the_settings(wheel, settings):
    parser = ConfigParser()
    parser.read_string(metadata(wheel, "entry_points.txt").decode())
    assert parser["console_scripts"]["edit-harness"] == "edit_harness.cli:main"
    for kind, module in parser["edit_harness"].items():
        assert module == f"edit_harness_plugins.{kind}"
        assert f"{module.replace('.', '/')}/__init__.py" in wheel.namelist()
    assert parser["edit_harness"].keys() >= {"editors", "metrics", "models", "tasks"}


def test_what_the_sources_import_is_required(settings):
    """A dependency that only arrives with another one may go away with it."""
    imported = set()
    for name, path in sources().items():
        if name.endswith(".py"):
            text = path.read_text(encoding="utf-8")
            imported |= set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE))
    third = {"click", "jsonlines", "numpy", "packaging", "pluggy", "rich", "scipy"}
    third |= {"torch", "transformers"}
    required = set(re.findall(r"^(\w+)", settings["options"]["install_requires"], re.MULTILINE))
    assert third & imported <= required
    assert required <= third | imported
