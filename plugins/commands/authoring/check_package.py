"""What a distribution has to say of itself so that others can install and cite it."""

from __future__ import annotations

from importlib.metadata import Distribution
from typing import Any

import pytest
from packaging.requirements import Requirement

from edit_harness.hookspecs import DISTRIBUTION
from edit_harness.registry.packages import normal
from edit_harness.testing.plugins import PluginTests


class PackageTests:
    """What the metadata of an installed package must have."""

    distribution: Distribution | None
    """The package; None if it is used without being installed."""

    @pytest.fixture
    def installed(self) -> Distribution:
        """Return the package; what is not installed has no metadata."""
        if self.distribution is None:
            pytest.skip("it is not installed")
        return self.distribution

    def test_says_what_it_is(self, installed: Distribution) -> None:
        """Indexes and lists show the summary."""
        assert said(installed, "Summary"), "pyproject.toml has no description"

    def test_says_its_licence(self, installed: Distribution) -> None:
        """Nobody may use what has no licence."""
        fields = ("License-Expression", "License-File", "License")
        classified = any(c.startswith("License ::") for c in said(installed, "Classifier"))
        named = any(said(installed, field) for field in fields)
        assert named or classified, 'pyproject.toml has no licence: license = "Apache-2.0"'

    def test_requires_the_harness(self, installed: Distribution) -> None:
        """It is of no use without, and installers know no other way."""
        required = {normal(Requirement(text).name) for text in installed.requires or ()}
        assert DISTRIBUTION in required | {normal(installed.name)}, (
            f'pyproject.toml does not require it: dependencies = ["{DISTRIBUTION}"]'
        )

    def test_says_which_python_it_needs(self, installed: Distribution) -> None:
        """Installers refuse an older one, rather than that it fails at import."""
        assert said(installed, "Requires-Python"), 'pyproject.toml has no requires-python: ">=3.11"'


class FileTests(PluginTests):
    """What a plugin in a file must do; what only a package can show is skipped."""

    @pytest.fixture
    def registered(self) -> dict[str, Any]:
        """Skip: no other process imports the file by a name."""
        pytest.skip("a file is not imported in a process of its own: make a package of it")

    def test_is_advertised(self) -> None:
        """An installed distribution names the module in its entry points."""
        pytest.skip("it is not installed")


def said(distribution: Distribution, field: str) -> list[str]:
    """Return what the metadata say under a name."""
    values = distribution.metadata.get_all(field) or []
    return [value for value in values if value.strip() not in ("", "UNKNOWN")]
