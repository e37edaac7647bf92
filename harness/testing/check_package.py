"""What a distribution has to say of itself so that others can install and cite it."""

from __future__ import annotations

from importlib.metadata import Distribution

import pytest
from packaging.requirements import Requirement

from edit_harness.plugins import normal

HARNESS = "edit-harness"


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
        summary = installed.metadata.get("Summary", "UNKNOWN")
        assert summary.strip() not in ("", "UNKNOWN"), "pyproject.toml has no description"

    def test_says_its_licence(self, installed: Distribution) -> None:
        """Nobody may use what has no licence."""
        fields = ("License-Expression", "License-File", "License")
        classified = any(
            said.startswith("License ::") for said in installed.metadata.get_all("Classifier") or ()
        )
        named = any(installed.metadata.get(field, "").strip() for field in fields)
        assert named or classified, 'pyproject.toml has no licence: license = "Apache-2.0"'

    def test_requires_the_harness(self, installed: Distribution) -> None:
        """It is of no use without, and installers know no other way."""
        required = {normal(Requirement(text).name) for text in installed.requires or ()}
        assert HARNESS in required | {normal(installed.name)}, (
            f'pyproject.toml does not require it: dependencies = ["{HARNESS}"]'
        )

    def test_says_which_python_it_needs(self, installed: Distribution) -> None:
        """Installers refuse an older one, rather than that it fails at import."""
        assert installed.metadata.get("Requires-Python", "").strip(), (
            'pyproject.toml has no requires-python: ">=3.11"'
        )
