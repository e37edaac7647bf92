"""What tests share. That this file exists also lets them import `builders`."""

from pathlib import Path

import pytest
from builders import DATA


@pytest.fixture
def counterfact_300() -> Path:
    """The genuine CounterFact records; they are not ours to put into the repository."""
    path = DATA / "counterfact" / "counterfact_300.json"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path
