"""The package's facts are what its script makes, and the model knows them in both directions."""

import runpy
from pathlib import Path

import pytest
from edit_harness import evaluate, load_model

from edit_harness_reversal.task import OWN

SCRIPT = Path(__file__).parents[1] / "make_data.py"


@pytest.fixture(scope="module")
def pocket():
    return load_model("pocket", device="cpu")


def test_the_script_makes_the_file_again(pocket):
    assert runpy.run_path(str(SCRIPT))["build"](pocket).encode() == OWN.read_bytes()


def test_the_model_knows_the_facts_in_both_directions(pocket, tmp_path):
    run = evaluate("none", "reversal", pocket, output=tmp_path)
    assert run["ES"].n == run["Rev"].n == 73
    for measure, value in (("ES", 0.0), ("Rev", 0.0), ("NS", 1.0)):
        assert run[measure].value == value
