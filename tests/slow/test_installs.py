"""A package of a plugin, installed by pip in two ways."""

import importlib
import shutil
import subprocess
import sys

import pytest
from support.builders import EDITOR

from edit_harness.registry import packages

PYPROJECT = """
[project]
name = "edit-harness-nothing"
version = "0.7"

[project.entry-points.edit_harness]
nothing = "edit_harness_nothing"

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[tool.setuptools.package-data]
edit_harness_nothing = ["*.json"]
"""


@pytest.fixture
def sources(tmp_path):
    """The sources of a package, with a module and a file of data."""
    package = tmp_path / "sources" / "src" / "edit_harness_nothing"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(EDITOR)
    (package / "data.json").write_text("[]")
    (tmp_path / "sources" / "pyproject.toml").write_text(PYPROJECT)
    return tmp_path / "sources"


def test_a_wheel_and_an_editable_install_have_one_digest(sources, tmp_path, monkeypatch):
    """What is recorded of a run says the same of the same code."""
    copy = tmp_path / "copy"
    shutil.copytree(sources, copy)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--target"]
    for target, what in (("wheel", [str(copy)]), ("editable", ["-e", str(sources)])):
        command = [sys.executable, "-m", "pip", "install", *options, str(tmp_path / target), *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    digests = {}
    for target in ("wheel", "editable"):
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / target)
            importlib.invalidate_caches()
            (package,) = (p for p in packages.found() if p.name == "edit-harness-nothing")
            patch.syspath_prepend(sources / "src")  # where the .pth of a site folder would lead
            digests[target] = package.digest
            assert package.source.startswith(f"file://{tmp_path}")
            assert package.source.endswith("(editable)") == (target == "editable")
    assert len(set(digests.values())) == 1, digests
