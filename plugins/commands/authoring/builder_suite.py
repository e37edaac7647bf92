"""The conformance suite for builders; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edit_harness.errors import HarnessError
from edit_harness.registry.settings import build, settings
from edit_harness.testing.suite import Suite, left_alone

from . import Builder, Material


class BuilderTests(Suite):
    """What every builder must do: make a file or a folder, the same bytes again, and errors for users."""

    builder: Builder
    material: Material
    """Files that it can make something of."""

    def built(self, material: Material, folder: Path) -> dict[str, bytes]:
        """Return what it makes: the content of each file by its path."""
        folder.mkdir()
        self.builder.build(material, folder / "made", lambda line: None)
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}

    def test_makes_what_it_says(self, tmp_path: Path) -> None:
        """A file or a folder, where it was told to, and nothing beside it."""
        made = self.built(self.material, tmp_path / "out")
        assert made, "it wrote nothing to `out`"
        inside = "made" if self.builder.makes == "file" else "made/"
        beside = [name for name in made if not name.startswith(inside)]
        assert not beside, f"it wrote {beside} beside `out`"
        folder = (tmp_path / "out" / "made").is_dir()
        assert folder == (self.builder.makes == "folder"), "`makes` says file or folder"

    def test_makes_the_same_bytes_again(self, tmp_path: Path) -> None:
        """Whatever the global random states."""
        first = self.built(self.material, tmp_path / "first")
        random.seed(1)
        np.random.seed(1)
        again = self.built(self.material, tmp_path / "second")
        assert again == first, "a second time it made other bytes: seed what is drawn, sort sets"

    def test_leaves_the_process_as_it_was(self, tmp_path: Path) -> None:
        """Building changes no random state, no directory, no environment."""
        with left_alone():
            self.built(self.material, tmp_path / "out")

    def test_asks_a_model_if_there_is_one(self, tmp_path: Path) -> None:
        """Nothing can be made of facts that a model does not know, and that is an error for users."""
        unknown = replace(self.material, knows=lambda asked: [False] * len(asked))
        assert_refused(lambda: self.built(unknown, tmp_path / "out"), "facts that no model knows")

    def test_refuses_what_is_no_file_of_facts(self, tmp_path: Path) -> None:
        """The error is one for users, and nothing is left."""
        bad = tmp_path / f"bad{self.material.triples.suffix}"
        bad.write_bytes(b"\xff\xfe{")
        material = replace(self.material, triples=bad)
        assert_refused(lambda: self.built(material, tmp_path / "out"), "a file that is no text")
        left = [path.name for path in (tmp_path / "out").iterdir()]
        assert not left, f"it left {left}: write when all is known"

    def test_is_built_from_its_fields(self) -> None:
        """The command sets fields by name."""
        fields = settings(self.builder)
        json.dumps(fields, allow_nan=False)
        assert build(type(self.builder), fields, "builder") == self.builder


def assert_refused(make: Callable[[], object], what: str) -> None:
    """Fail unless an error for users is raised."""
    try:
        make()
    except HarnessError:
        return
    except Exception as error:
        pytest.fail(f"{what}: {type(error).__name__}: {error}; raise a DataError with a remedy")
    pytest.fail(f"{what} made data: raise a DataError")
