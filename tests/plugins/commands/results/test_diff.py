"""Why two runs are different ones: the command ``diff``, and what it counts."""

import json
from functools import partial

import pytest
from support.builders import IDENTITY, replace, with_entries
from support.commands import failed, invoked
from support.loops import Push
from support.made_runs import made

from edit_harness import Regime
from edit_harness.folder.manifest import as_json
from edit_harness_plugins.commands.results import compare
from edit_harness_plugins.commands.results.compare import Change

tell = partial(invoked, "compare", "--why")


@pytest.fixture(scope="module")
def runs(folder):
    return [made(folder, editor) for editor in (Push(), Push(fails=("Ann",)))]


def test_the_fields_that_differ_and_the_cases(runs):
    result = tell(*(run.folder.path for run in runs))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert 'editor.fields.fails [] ["Ann"]' in said
    assert "cases that came out otherwise: 1 of 10, worst first" in said
    assert "2 ok edit_failed" in said


def test_the_same_run_though_it_was_made_twice(tmp_path):
    paths = [made(tmp_path, "none", count=1, new=True).folder.path for _ in range(2)]
    assert paths[0] != paths[1]
    result = tell(*paths)
    assert result.exit_code == 0
    assert result.stdout == "the same run: equal fingerprints and equal rows\n"
    assert json.loads(tell(*paths, "--json").stdout)["same"] is True
    failed(tell(paths[0], tmp_path), 2, "is no run folder")


def answered(run, case, *logprobs):
    """A run in which the first answer after a case's edit has other log-probabilities."""
    rows = []
    for r in run.everything:
        first = {**r.after[0], "logprobs": [[p] for p in logprobs]}
        rows.append(replace(r, after=[first, *r.after[1:]]) if r.case == case else r)
    return replace(run, everything=rows)


def test_larger_changes_stand_first_and_another_row_is_one_with_equal_fingerprints(runs):
    one = answered(answered(runs[0], "3", -1.0, -2.0), "5", -1.0, -9.0)
    two = answered(answered(one, "3", -2.0, -1.0), "5", -1.0, -2.0)
    found = compare.difference(one, two)
    assert [a.case for a, _ in found.cases] == ["3", "5"]
    (*_, grid) = compare.grids(found)
    assert [(names[0], cells[0].text) for names, cells in grid.rows] == [("5", "7"), ("3", "1")]
    assert compare.difference(one, replace(one)).cases == []
    rows = [replace(r, status="nonfinite") if r.case == "1" else r for r in runs[0].everything]
    found = compare.difference(runs[0], replace(runs[0], everything=rows))
    assert not found.same
    assert not found.identity
    assert [(a.case, a.status, b.status) for a, b in found.cases] == [("1", "ok", "nonfinite")]


def test_environments_are_told_apart_and_more_cases_are_no_other_run(folder, runs):
    fewer = made(folder, Push(), limit=4)
    (segment,) = fewer.manifest.segments
    older = as_json(with_entries(segment, environment={"torch": "1.0"}))
    fewer = replace(fewer, manifest=with_entries(fewer.manifest, segments=[older]))
    found = compare.difference(fewer, runs[0])
    assert [c.field for c in found.environment] == ["environment.torch", "cases"]
    assert found.environment[-1] == Change("cases", 4, 10)
    assert (found.identity, len(found.shared), found.apart) == ([], 4, 6)


def test_cases_of_a_sequence_are_counted_once(folder):
    """Each is measured right after its edit and at the end, which is what is compared."""
    how = Regime("sequential", immediate=True)
    long, short = (made(folder, Push(), regime=how, count=count) for count in (10, 4))
    found = compare.difference(short, long)
    assert len(short.everything) > 4
    assert (len(found.shared), found.apart) == (4, 6)
    assert {(one.state, two.state) for one, two in found.shared} == {(4, 10)}
    said = " ".join(tell(short.folder.path, long.folder.path).stdout.split())
    assert "6 cases are in one run alone" in said


def test_code_is_compared_package_by_package_and_fields_stand_last():
    one, two = (
        with_entries(IDENTITY, editor={"fields": {"lr": lr}}, code=code)
        for lr, code in ((1, [["mine", "a"], ["ours", "b"]]), (2, [["ours", "c"], ["mine", "a"]]))
    )
    assert compare.identities(one, two) == [
        Change("code.ours", "b", "c"),
        Change("editor.fields.lr", 1, 2),
    ]
