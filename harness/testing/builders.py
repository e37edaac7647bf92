"""The suite for builders; see `edit_harness.testing` for how to use it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from edit_harness.errors import HarnessError
from edit_harness.fields import build, settings
from edit_harness.interfaces import Builder, Material


class BuilderTests:
    """What every builder must do."""

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
        assert made
        inside = "made" if self.builder.makes == "file" else "made/"
        assert all(name.startswith(inside) for name in made)
        assert (tmp_path / "out" / "made").is_dir() == (self.builder.makes == "folder")

    def test_makes_the_same_bytes_again(self, tmp_path: Path) -> None:
        """Whatever the global random state, which it leaves alone."""
        first = self.built(self.material, tmp_path / "first")
        state = random.getstate()
        try:
            random.seed(1)
            seeded = random.getstate()
            assert self.built(self.material, tmp_path / "second") == first
            assert random.getstate() == seeded
        finally:
            random.setstate(state)

    def test_asks_a_model_if_there_is_one(self, tmp_path: Path) -> None:
        """Nothing can be made of facts that a model does not know, and that is an error for users."""
        with pytest.raises(HarnessError):
            self.built(
                replace(self.material, knows=lambda asked: [False] * len(asked)), tmp_path / "a"
            )

    def test_refuses_what_is_no_file_of_facts(self, tmp_path: Path) -> None:
        """The error is one for users, and nothing is left."""
        bad = tmp_path / f"bad{self.material.triples.suffix}"
        bad.write_bytes(b"\xff\xfe{")
        with pytest.raises(HarnessError):
            self.built(replace(self.material, triples=bad), tmp_path / "out")
        assert not list((tmp_path / "out").iterdir())

    def test_is_built_from_its_fields(self) -> None:
        """The command sets fields by name."""
        fields = settings(self.builder)
        json.dumps(fields, allow_nan=False)
        assert build(type(self.builder), fields, "builder") == self.builder
