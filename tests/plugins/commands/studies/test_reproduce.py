"""``reproduce`` on a tiny model, with made-up numbers: within, outside, failed, not there."""

import json

import pytest
from click.testing import CliRunner
from support.builders import record
from support.commands import stored

from edit_harness.cli import main

PLUGIN = """
from edit_harness import Editor, hookimpl
from edit_harness_plugins.commands.studies.reproduce import Pack
from edit_harness.edits import Edit

class Never(Editor):
    def edit(self, model, requests):
        raise ValueError("no")

class Mine(Pack):
    file = "pack.json"

@hookimpl
def edit_harness_register_editors(register):
    register("never", Never, "Fails")

@hookimpl
def edit_harness_register_packs(register):
    register("mine", Mine, "Made up")
"""
TWICE = {"FT": {"editor": "ft-l"}, "F": {"editor": "ft-l"}}
TABLE = {
    "name": "Made up, Table 1", "shows": "a score", "tasks": {"counterfact": "Facts"},
    "measures": {"NS": "NS", "EM": "EM"},
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a tiny model, records and the runs that tests make."""
    path = tmp_path_factory.mktemp("reproducing")
    (path / "odd.py").write_text(PLUGIN)
    stored(path)
    (path / "tiny2").symlink_to(path / "tiny")
    facts = [record(i, subject=f"Ada {i}") for i in range(24)]
    (path / "facts.json").write_text(json.dumps(facts))
    return path


def shown(folder, said, *args, command="reproduce"):
    """Write a pack down, and run a command, which reproduces it, in the folder with its plugins."""
    (folder / "pack.json").write_text(said if isinstance(said, str) else json.dumps(said))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(folder / "odd.py"))
        return CliRunner().invoke(main, [command, *(args or ("mine", "-q"))])


@pytest.fixture(scope="module")
def made(folder):
    """What came of a pack whose two numbers are nothing like ours."""
    said = pack(cell("FT", "NS", 9.0), cell("unedited", "NS", -9.0))
    return json.loads(shown(folder, said, "mine", "-q", "--json").stdout)


@pytest.fixture(scope="module")
def ours(made):
    """Our own number, of FT."""
    return made["numbers"][0]["ours"]


@pytest.fixture
def tell(folder):
    """Reproduce a pack; returns what was said, in one line, and the exit code."""

    def tell(said, *args):
        found = shown(folder, said, *args)
        return " ".join((found.stdout + found.stderr).split()), found.exit_code

    return tell


def pack(*cells, **more):
    args = {"data": "facts.json"}
    return {
        "paper": "Nobody (2026)",
        "table": TABLE,
        "digits": 2,
        "models": {"Tiny": {"name": "tiny"}},
        "editors": {"FT": {"editor": "ft-l", "args": {"steps": 2}}, "Never": {"editor": "never"}},
        "runs": [{"task": "counterfact", "args": args, "metrics": ["success", "magnitude"]}],
        "differs": ["All of it is made up."],
        "cells": list(cells),
        **more,
    }


def cell(editor, column, value, **more):
    return {"model": "Tiny", "editor": editor, "column": column, "value": value, **more}


SPREAD = [cell("unedited", "NS", value, apart="to have a spread") for value in (-9.0, 9.0)]
"""Two printed numbers that are far from each other, so that a wide tolerance still tells something."""


def test_within_and_outside(tell, ours):
    here, there = round(ours, 2), round(ours + 0.3, 2)
    told, code = tell(pack(cell("FT", "NS", here), *SPREAD))
    assert (code, "1 within, 0 outside" in told) == (0, True), told
    told, code = tell(pack(cell("FT", "NS", here), cell("FT", "NS", there + 1), *SPREAD))
    assert code == 6
    assert "1 within, 1 outside" in told
    assert f"outside FT on Tiny, NS: printed {there + 1:.2f}, ours {ours:.3f}" in told
    assert "2 not comparable: to have a spread" in told


def test_what_would_let_anything_pass_is_no_pass(tell, ours):
    """The one printed number has no spread, or few cases make our interval wider than what can tell."""
    told, code = tell(pack(cell("FT", "NS", round(ours, 2))), "mine")
    assert (code, "1 too few cases to tell" in told) == (1, True), told
    assert "nothing is told of mine: too few cases to tell" in told
    assert "nothing is run" in told, "it was there already"
    told, code = tell(pack(cell("FT", "NS", round(ours, 2)), *SPREAD), "mine", "--limit", "5")
    assert (code, "too few cases to tell" in told) == (1, True)


def test_fewer_edits_in_one_model_are_another_experiment(tell):
    run = {"task": "counterfact", "args": {"data": "facts.json"}, "mode": "batch", "batch": "all"}
    said = pack(cell("FT", "NS", 0.5), cell("unedited", "NS", 0.5), runs=[run])
    told, _ = tell(said, "mine", "-q", "--limit", "22")
    assert "1 not comparable: with --limit fewer edits share the model" in told
    assert "not comparable" not in tell(said)[0].replace("0 not comparable", "")


def test_the_unedited_model_is_what_runs_measured_before(folder, made):
    after, before = made["numbers"]
    (run,) = made["runs"]
    stored = json.loads((folder / run / "results.json").read_text())["results"]
    assert (before["ours"], before["n"]) == (stored["pre_NS,single"], 24)
    assert [after[key] for key in ("ours", "low", "high")] == [
        stored[f"post_NS{end},single"] for end in ("", "_low", "_high")
    ]


def test_failed_cases_have_a_code_of_their_own(tell):
    told, code = tell(pack(cell("Never", "NS", 0.0), *SPREAD))
    assert (code, "0 within" in told) == (1, True), told
    assert "the run has no such number" in told, "no case was measured after an edit"


def test_the_rest_of_the_table_is_run_without_it(tell, ours):
    more = {"Tiny": {"name": "tiny"}, "Gone": {"name": "./nowhere"}}
    gone = {**cell("FT", "NS", 0.5), "model": "Gone"}
    said = pack(cell("FT", "NS", round(ours, 2)), gone, *SPREAD, models=more)
    told, code = tell(said)
    assert code == 4
    assert "1 within" in told
    assert "1 not comparable: not run" in told
    assert "error: the model folder ./nowhere does not exist" in told
    assert "a copy: -m 'Gone=FOLDER'" in told
    told, code = tell(said, "mine", "-q", "-m", "tiny")
    assert (code, "not run" in told) == (0, False), "-m leaves the others out"
    said["cells"] = [*said["cells"][:2], {**gone, "editor": "unedited", "value": -9.0}]
    _, code = tell(said, "mine", "-q", "-m", "tiny")
    assert code == 0, "what a column spreads over is told by the whole table"


def test_a_copy_of_a_model_can_be_named_by_its_row(tell, ours):
    said = pack(cell("FT", "NS", round(ours, 2)), *SPREAD)
    told, code = tell(said, "mine", "-q", "-m", "Tiny=tiny2")
    assert (code, "1 within" in told) == (0, True), told
    for name in ("tiny2", "Huge=tiny2"):
        told, code = tell(said, "mine", "-q", "-m", name)
        assert (code, f"error: {name} is no model of mine" in told) == (2, True), told


def test_orderings(tell):
    """FT changes probabilities and no edit does not, so that one is above the other for sure."""
    editors = {
        "FT": {"editor": "ft-l", "args": {"steps": 2}},
        "none": {"editor": "none"},
        "r": {"editor": "ft", "args": {"steps": 1}},
    }
    values = {"FT": 0.9, "none": 0.1, "r": 0.88}
    cells = [cell(name, "EM", value, n=500) for name, value in values.items()]
    said = pack(*cells, compares="orderings", editors=editors)
    told, code = tell(said)
    assert "as printed they differ by no more than chance (n = 500)" in told
    assert (code, ", 0 reversed" in told) == (0, True), told
    said["cells"][0]["value"], said["cells"][1]["value"] = 0.1, 0.9
    told, code = tell(said)
    assert code == 6
    assert "none on Tiny, EM: printed above FT (0.9 and 0.1), and is below" in told


def test_figures_are_of_the_same_cases(tell, ours):
    exact = cell("FT", "NS", ours, n=24)
    said = pack(exact, compares="figures", within=1e-6)
    assert tell(said)[1] == 0
    said["cells"][0] = {**exact, "value": ours + 1e-5}
    told, code = tell(said)
    assert (code, "outside FT on Tiny, NS" in told) == (6, True), told
    told, code = tell(said, "mine", "-q", "--limit", "20")
    assert code == 1
    assert "the figure is of 24 cases, and here are 20" in told


ONE = cell("FT", "NS", 1)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("{", "pack 'mine' of odd.py cannot be read: Input data was truncated"),
        (pack({**ONE, "colour": "red"}), "unknown field `colour` - at `cells[0]`"),
        (pack(ONE, table="Table 99"), "no table is called 'Table 99'"),
        (pack(ONE, editors={"FT": {"editor": "lost"}}), "there is no editor 'lost'"),
        (pack(ONE, level=99), "- at `level`"),
        (pack(ONE, cell("F", "NS", 1), editors=TWICE), "FT and F of the pack are both editor ft-l"),
    ],
)
def test_a_pack_that_says_what_it_cannot_mean(tell, said, cause):
    told, code = tell(said)
    assert (code, cause in told) == (3, True), told


def test_packs_are_found_by_their_names_and_have_cards(tell, folder):
    told, code = tell(pack(ONE), "-q")
    assert (code, "edit-harness reproduce PACK; see: edit-harness reproduce --list" in told) == (
        2,
        True,
    )
    assert "All of it is made up." in shown(folder, pack(ONE), "mine", command="show").stdout
    assert "mine" in shown(folder, pack(ONE), "packs", command="ls").stdout
    assert "pack mine" in shown(folder, pack(ONE), "--list").stdout, "it is of none of the papers"
