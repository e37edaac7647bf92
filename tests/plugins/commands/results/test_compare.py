"""The command ``compare`` as it is typed."""

import json

import pytest
import torch
from click.testing import CliRunner
from support.builders import replace, with_entries
from support.commands import failed
from support.loops import Push
from support.made_runs import made

from edit_harness import Regime
from edit_harness.cli import main
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.results import compare
from edit_harness_plugins.pairing import Pairing


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(folder):
    return [made(folder, editor).folder.path for editor in (Push(), "prompt")]


@pytest.fixture
def tell(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *args: CliRunner().invoke(main, ["compare", *map(str, args)])


def test_a_table_in_eighty_columns_says_what_differs(tell, runs):
    result = tell(*runs)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("A        push  counterfactplus 0.1  model float32  single")
    heads = "Metric A B B − A 99% CI p (BH) effect n"
    assert heads in [" ".join(line.split()) for line in lines]
    names = [line.split()[0] for line in lines if "↑" in line or "↓" in line]
    assert names == ["ES", "PS", "NS", "NS+", "S", "EM", "PM", "NM", "NM+", "NKL", "NKL+"]
    labels = {line[:9].strip() for line in lines}
    assert labels >= {"differs", "effect", "CI"}


def test_the_same_as_data(tell, runs):
    data = json.loads(tell(*runs, "--json").stdout)
    assert data["cases"] == 10
    assert data["A"]["Editor"] == "push"
    found = data["measures"]
    assert found["ES"]["test"] == "McNemar"
    assert found["NM"]["test"] == "paired t"
    assert found["S"]["test"] == "jackknife t"
    assert all(each["p"] is not None for each in found.values())
    for each in found.values():
        assert each["difference"] == pytest.approx(each["B"] - each["A"])
        assert each["low"] <= each["difference"] <= each["high"]
    assert "EA" in found  # details too


def test_the_metrics_may_be_named(tell, runs):
    data = json.loads(tell(*runs, "--metrics", "nkl", "--json").stdout)
    assert {name[:3] for name in data["measures"]} == {"NKL"}


def test_a_run_beside_itself(tell, runs):
    result = tell(runs[0], runs[0])
    assert result.exit_code == 0
    assert "differs  nothing, at 1%" in result.stdout


def test_other_seeds_and_regimes_are_noted(tell, runs, folder):
    other = made(folder, Push(), regime=Regime("batch", 3), seed=1).folder.path
    said = " ".join(tell(runs[0], other).stdout.split())
    assert "another mode: single in A, batch, 3 at once in B" in said
    assert "another seed: 0 in A, 1 in B" in said
    assert "tests and intervals are over 4 batches" in said


def test_units_are_counted_by_measure(runs, folder):
    """Half of the batches have no value of one of the measures."""
    run = made(folder, Push(), regime=Regime("batch", 3))
    rows = [
        replace(r, values={**r.values, "nkl": {}}) if r.state > 2 else r for r in run.everything
    ]
    pairing = Pairing(replace(run, everything=rows), made(folder, "prompt"))
    said = dict(compare.warnings(pairing, pairing.contrasts))
    assert said["note"].startswith("tests and intervals are over 2 to 4 batches")


def test_failures_are_told(tell, runs, folder):
    other = made(folder, Push(fails=("Ann",))).folder.path
    said = " ".join(tell(runs[0], other).stdout.split())
    assert "failed B: 1 of 10 cases failed and count as failures: 1 edit_failed" in said


def test_a_run_in_which_every_edit_failed_has_nothing_to_compare(tell, runs, folder):
    """Item 13 of issue I: no zeros that look measured."""
    names = tuple(case.requests[0].subject for case in made(folder, "prompt").cases)
    broken = made(folder, Push(fails=names)).folder.path
    failed(tell(broken, runs[1]), 2, "every case of", "failed, so that nothing was measured")


def test_precisions_are_not_compared(tell, runs, folder):
    half = made(folder, "prompt", model=tiny_model(dtype=torch.bfloat16)).folder.path
    failed(tell(runs[1], half), 2, "is in float32, and", "in bfloat16", "--dtype float32")


def test_runs_without_a_case_in_common(tell, runs, folder):
    other = made(folder, "prompt", task="counterfact").folder.path
    failed(tell(runs[0], other), 2, "have no case in common: 10 of another content", "one task")


def test_runs_without_a_metric_in_common(tell, runs, folder):
    other = made(folder, "prompt", metrics=["nkl"]).folder.path
    only = made(folder, "prompt", metrics=["success"]).folder.path
    failed(tell(other, only), 2, "have no metric in common", "--metrics NAME")


def test_metrics_that_fit_no_case(tell, runs):
    failed(tell(*runs, "--metrics", "ripple"), 2, "have no measure in common")


def test_a_run_that_is_not_finished(tell, runs, folder):
    run = made(folder, "prompt", count=3)
    run.folder.write_manifest(with_entries(run.folder.manifest(), visits=5))
    failed(tell(runs[0], run.folder.path), 7, "is not finished: 2 records missing")


def test_what_is_no_run(tell, runs, tmp_path):
    failed(tell(runs[0], tmp_path), 2, "is no run folder")
