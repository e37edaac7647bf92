"""The command ``compare`` as it is typed."""

import json
from functools import partial

import pytest
import torch
from support.builders import with_entries
from support.commands import failed, invoked
from support.loops import Push
from support.made_runs import NAMES, made

from edit_harness import Regime
from edit_harness.testing import tiny_model

tell = partial(invoked, "compare")


@pytest.fixture(scope="module")
def runs(folder):
    return [made(folder, editor).folder.path for editor in (Push(), "prompt")]


def test_the_same_as_data(runs):
    data = json.loads(tell(*runs, "--json").stdout)
    assert data["cases"] == 10
    assert data["A"]["Editor"] == "push"
    found = data["measures"]
    tests = {"ES": "McNemar", "NM": "paired t", "S": "jackknife t"}
    assert {name: found[name]["test"] for name in tests} == tests
    for each in found.values():
        assert each["p"] is not None
        assert each["difference"] == pytest.approx(each["B"] - each["A"])
        assert each["low"] <= each["difference"] <= each["high"]
    assert "EA" in found  # details too
    data = json.loads(tell(*runs, "--metrics", "nkl", "--json").stdout)
    assert all(name.startswith("NKL") for name in data["measures"])


def test_other_seeds_and_regimes_are_noted(runs, folder):
    how = Regime("batch", 3)
    other = made(folder, Push(fails=("Ann",)), regime=how, seed=1).folder.path
    result = tell(runs[0], other)
    assert max(map(len, result.stdout.splitlines())) <= 80
    said = " ".join(result.stdout.split())
    assert "another mode: single in A, batch, 3 at once in B" in said
    assert "another seed: 0 in A, 1 in B" in said
    assert "tests and intervals are over 3 to 4 batches" in said  # which NM, and ES, have values of
    assert "failed B: 3 of 10 cases failed and count as failures: 3 edit_failed" in said


def test_runs_that_have_nothing_to_compare_are_told(runs, folder, tmp_path):
    def other(**settings):
        return made(folder, "prompt", **settings).folder.path

    half = other(model=tiny_model(dtype=torch.bfloat16))
    failed(tell(runs[1], half), 2, "is in float32, and", "in bfloat16", "--dtype float32")
    told = ("have no case in common: 10 of another content", "one task")
    failed(tell(runs[0], other(task="counterfact")), 2, *told)
    apart = other(metrics=["nkl"]), other(metrics=["success"])
    failed(tell(*apart), 2, "have no metric in common", "--metrics NAME")
    failed(tell(*runs, "--metrics", "ripple"), 2, "have no measure in common")
    failed(tell(runs[0], tmp_path), 2, "is no run folder")
    run = made(tmp_path, "none", count=3)
    run.folder.write_manifest(with_entries(run.folder.manifest(), visits=5))
    failed(tell(runs[0], run.folder.path), 7, "is not finished: 2 records missing")
    # Item 13 of issue I: no zeros that look measured.
    broken = made(folder, Push(fails=NAMES)).folder.path
    failed(tell(broken, runs[1]), 2, "every case of", "failed, so that nothing was measured")
