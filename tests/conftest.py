"""What tests share. That this file exists also lets them import `support`."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.builders import DATA

# Read when transformers is first imported: no test reaches for the network by accident.
os.environ["HF_HUB_OFFLINE"] = "1"
CACHE = tempfile.TemporaryDirectory(prefix="edit-harness-tests-")
os.environ["EDIT_HARNESS_CACHE"] = CACHE.name

import torch
from hypothesis import settings
from support.commands import invoked

from edit_harness import hookimpl
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.testing.tiny import tiny_model

settings.register_profile("tests", max_examples=20, deadline=None, derandomize=True, database=None)
settings.load_profile("tests")
torch.set_num_threads(1)  # more only get in each other's way with models this small


@pytest.fixture
def model() -> Model:
    """A tiny random GPT-2, new for every test."""
    return tiny_model()


@pytest.fixture
def tell(tmp_path, monkeypatch):
    """Run a command in an empty folder, on a terminal of 80 columns; returns click's result."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    return invoked


@pytest.fixture
def also(monkeypatch):
    """Add a plugin of some hooks to those that are installed, and return it."""
    installed = Plugins.installed

    def also(**hooks):
        plugin = SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()})

        def more():
            found = installed()
            found.add(plugin, "mine")
            return found

        monkeypatch.setattr(Plugins, "installed", more)
        return plugin

    return also


@pytest.fixture
def counterfact_300() -> Path:
    """The genuine CounterFact records; they are not ours to put into the repository."""
    path = DATA / "counterfact" / "counterfact_300.json"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


@pytest.fixture
def zsre_600() -> Path:
    """The genuine zsRE records; they are not ours to put into the repository."""
    path = DATA / "zsre" / "zsre_mend_600.json"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


@pytest.fixture
def seesaw_files() -> Path:
    """The genuine files of Seesaw-CF, of three pairs; they are not ours to put into the repository."""
    path = DATA / "seesaw"
    if not path.is_dir():
        pytest.skip(f"{path} is not here")
    return path
