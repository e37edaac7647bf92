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


def test_the_wheel_has_the_files_of_the_source_tree_and_nothing_else_and_says_what_it_is(
    wheel, settings
):
    packed = {name for name in wheel.namelist() if name.partition("/")[0] in PACKAGES}
    assert packed == sources().keys()
    for name, path in sources().items():
        assert wheel.read(name) == path.read_bytes(), name
    (other,) = {n.partition("/")[0] for n in wheel.namelist()} - PACKAGES.keys()
    assert other.endswith(".dist-info")
    data = message_from_bytes(metadata(wheel, "METADATA"))
    assert data["Version"] == settings["metadata"]["version"]
    assert data["License-Expression"] == "Apache-2.0"
    assert b"Apache License" in metadata(wheel, "licenses/LICENSE")


def test_what_the_sources_import_is_required(settings):
    """A dependency that only arrives with another one may go away with it."""
    texts = [path.read_text("utf-8") for name, path in sources().items() if name.endswith(".py")]
    imported = {n for t in texts for n in re.findall(r"^\s*(?:from|import) (\w+)", t, re.MULTILINE)}
    third = {"click", "jsonlines", "numpy", "packaging", "pluggy", "rich", "scipy"}
    third |= {"torch", "transformers"}
    required = set(re.findall(r"^(\w+)", settings["options"]["install_requires"], re.MULTILINE))
    assert third & imported <= required
    assert required <= third | imported
