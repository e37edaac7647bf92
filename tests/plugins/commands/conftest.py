"""What tests of commands share."""

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where `support.made_runs` makes its runs: one that is there already is not made again."""
    return tmp_path_factory.mktemp("runs")
