"""The papers' tables: what they are of, what is unedited, best and second, and what is missing."""

from dataclasses import replace

import pytest
import torch
from support.loops import Push
from support.made_runs import made

import edit_harness as eh
from edit_harness.registry.registry import Plugins
from edit_harness.stats import Estimate
from edit_harness.testing import tiny_model
from edit_harness_plugins.command_line import chosen
from edit_harness_plugins.commands.report.formats import Cell
from edit_harness_plugins.commands.report.papers import PRINTED, Part, Subsets, named
from edit_harness_plugins.commands.report.typesetting import Number, Row, estimate, marked, printed
from edit_harness_plugins.commands.studies.reproduce import packs
from edit_harness_plugins.significance import TTest
from tests.contracts.folders import JUDGE


@pytest.fixture(scope="module")
def runs(folder):
    return [made(folder, editor) for editor in ("none", Push(), "prompt")]


@pytest.fixture(scope="module")
def seesaw(folder):
    """A run of the bundled sample: four edits of each of ten sets."""
    with chosen(plugin=[JUDGE]):
        return eh.evaluate(
            "ft-l", "seesaw-cf", "pocket", limit=40, task_args={"samples": 1}, judge="length",
            editor_args={"steps": 2}, output=folder,
        )  # fmt: skip


def row(text, better="higher", cases=frozenset()):
    value = float(text or 0)
    number = Number(Cell(text), Estimate(value, value, value, 5), better)
    return Row((text,), [replace(number, cases=cases) if text else None])


def marks(rows):
    return [row.numbers[0].cell.mark if row.numbers[0] else None for row in marked(rows)]


def test_the_best_is_marked_and_the_second():
    for texts, better, expected in (
        (("1", "3", "2"), "higher", ["", "best", "second"]),
        (("1", "3", "2"), "lower", ["best", "", "second"]),
        (("3", "3", "2", "2", "1"), "higher", ["best", "best", "second", "second", ""]),
        (("-1", "", "-2"), "higher", ["best", None, "second"]),
        (("1", "2"), "", ["", ""]),
        (("0", "0", "0"), "lower", ["", "", ""]),
    ):
        assert marks([row(text, better) for text in texts]) == expected
    # Only numbers of the same cases are ranked.
    some, more = frozenset("ab"), frozenset("abc")
    rows = [row(text, cases=cases) for text, cases in zip("192", (some, more, some), strict=True)]
    assert marks(rows) == ["second", "", "best"]


def test_measures_tasks_and_names_of_the_papers_are_there():
    plugins = Plugins.installed()
    measures = {
        name for c in plugins.of_kind("metric") for name in getattr(c.load(), "measures", {})
    }
    for table in PRINTED:
        assert set(table.measures.values()) <= measures, table.name
        for task in table.tasks:
            plugins.find("task", task.partition("[")[0])


def test_counterfact_stands_beside_counterfact_plus(runs):
    grids, missing = printed(runs)
    titles = [grid.title.rpartition("(as in ")[2][:-1] for grid in grids]
    assert titles == [f"CounterFact+, Table {n}" for n in (1, 2, 3)]
    first = grids[0]
    assert [*first.heads, *first.columns] == ["Model", "Editor", "CounterFact", "CounterFact+", "n"]
    assert [names[1] for names, _ in first.rows] == ["unedited", "push", "prompt"]
    plus = {run.label: run for run in runs}
    for names, cells in first.rows[1:]:
        run = plus[names[1]]
        shown = [f"{100 * run.estimates[f'post_{m}'].value:.1f}" for m in ("NS", "NS+")]
        assert [cell.text for cell in cells] == [*shown, "10"]
    assert len(missing) == len(PRINTED) - 3
    assert "RULE-EDIT, Table 3: no run of rule-edit-hierarchy has Rel, HG" in missing
    # The unedited row is what was before.
    without = [run for run in runs if run.label != "none"]
    before = without[-1].estimates["pre_NS+"]
    for some in (runs, without):
        grids, _ = printed(some)
        names, cells = grids[0].rows[0]
        assert names[1] == "unedited"
        assert cells[1].text == f"{100 * before.value:.1f}"
    assert [cell.text for cell in printed(runs)[0][2].rows[0][1][:2]] == ["0", "0"]
    assert [cell.text for cell in printed(without)[0][2].rows[0][1][:2]] == ["–", "–"]


def test_the_run_with_more_cases_counts(folder, runs):
    short = made(folder, "prompt", limit=3)
    row = next(row for row in printed([short, *runs])[0][0].rows if row[0][1] == "prompt")
    assert row[1][-1].text == "10"


def test_other_data_regimes_and_precisions_have_tables_of_their_own(folder, runs):
    """Ten cases of other data would be the larger run, and are no better known than three of these."""
    few = made(folder, "prompt", count=3)
    batch = made(folder, Push(), regime=eh.Regime("batch", 5))
    half = made(folder, "prompt", model=tiny_model(dtype=torch.bfloat16))
    grids = [g for g in printed([*runs, few, batch, half])[0] if "Table 1)" in g.title]
    assert [[names[1] for names, _ in grid.rows] for grid in grids] == [
        ["unedited", "push", "prompt"], ["unedited", "prompt"], ["unedited", "push"], ["unedited", "prompt"],
    ]  # fmt: skip
    data = [run.manifest.identity.task.data[:8] for run in (runs[-1], few)]
    captions = [grid.notes[0] for grid in grids]
    assert [text in caption for text, caption in zip(data, captions, strict=False)] == [True] * 2
    numbers = [caption.rpartition(", ")[2] for caption in captions[:3]]
    assert numbers == ["n = 10", "n = 3", "n = 10"]
    assert "batch, 5 at once" in captions[2]
    assert ["bfloat16" in caption for caption in captions] == [False, False, False, True]


def test_models_of_one_name_are_told_apart(folder, runs):
    other = made(folder, "prompt", model=tiny_model(n_embd=16, n_head=2))
    grids, _ = printed([*runs, other])
    models, editors = zip(*(names[:2] for names, _ in grids[0].rows), strict=True)
    assert len(set(models)) == 2
    assert editors == ("unedited", "push", "prompt", "unedited", "prompt")


@pytest.fixture(scope="module")
def tables(seesaw):
    """The paper's tables, by their names."""
    return {grid.title.rpartition("(as in ")[2][:-1]: grid for grid in printed([seesaw])[0]}


def test_groups_are_as_the_metric_s_own_tables_have_them(seesaw):
    part = Subsets(seesaw)
    tables = seesaw.tables["confidence"]
    for set_ in ("P101", "P21_P101"):
        tests = {row["group"]: row for row in tables[f"tests of D_d by group, {set_}"]}
        for row in tables[f"D by group, {set_}"]:
            group = "" if row["group"] == "all" else row["group"]
            found = Part("set", set_, group)
            assert part.estimate("change", "D", found).value == pytest.approx(row["D_d"])
            assert part.estimate("change", "D", found).n == row["cases"]
            p = tests[row["group"]]["p"]
            assert part.test("D", found).p == (None if p is None else pytest.approx(p))
    # Packs find their columns in a run: of the sample's groups, those that the paper has too.
    plugins = Plugins.installed()
    for number, least in ((8, 6), (9, 7), (19, 7)):
        contents = packs.read(plugins, f"seesaw-table{number}")
        columns = {cell.column for cell in contents.cells}
        found = [c for c in columns if estimate(contents.table, part, "", c)]
        assert len(found) >= least, (number, columns)


def test_falls_are_counted_as_the_metric_counts_them(seesaw, tables):
    by_set, by_group = tables["Seesaw-CF, Table 8"], tables["Seesaw-CF, Table 9"]
    tests = [
        (named(title.rpartition(", ")[2].partition("_")[0]), named(row["group"]), bool(row["falls"]))
        for title, rows in seesaw.tables["confidence"].items() if title.startswith("tests of D_d")
        for row in rows if row["group"] != "all" and row["p"] is not None
    ]  # fmt: skip
    for grid, place in ((by_set, 0), (by_group, 1)):
        for head, cell in list(zip(grid.columns, grid.rows[0][1], strict=True))[:-1]:
            own = [test[2] for test in tests if head in ("all", test[place])]
            assert (cell.text, cell.detail) == (str(sum(own)), f"of {len(own)}")


def test_a_count_of_falls_is_as_wide_as_its_tests_are_unsure(seesaw, monkeypatch):
    """Far from the edge there is no doubt; at the edge each is one or none."""
    for t, p, expected in (
        (-50, 0.0, (3, 3, 3)),
        (50, 0.0, (0, 0, 0)),
        (-1.96, 0.0499, (3, 0.77, 3)),
    ):
        test = TTest(t, None, None, t, p, 9)
        monkeypatch.setattr(Subsets, "test", lambda self, measure, part, test=test: test)
        found = Subsets(seesaw).falls("D", [Part()] * 3)
        assert (found.value, found.low, found.high) == pytest.approx(expected, abs=0.01)
        assert found.n == 3


def test_what_keeps_a_table_from_being_printed_is_said(seesaw, monkeypatch):
    untested = TTest(None, None, None, None, None, 1)
    monkeypatch.setattr(Subsets, "test", lambda self, measure, part: untested)
    missing = dict(line.split(": ", 1) for line in printed([seesaw])[1])
    assert missing["Seesaw-CF, Tables 10 and 11"] == "nobody in the prompts has the tag race"
    assert missing["Seesaw-CF, Table 8"].startswith("too few cases: a test takes 2 at least")


def test_flaws_are_means_over_pairs_as_the_metric_has_them(seesaw, tables):
    own = seesaw.tables["flaws"]
    (row,) = tables["Seesaw-CF, Table 19"].data[:1]
    assert row["estimate"] == pytest.approx(own["flaws"][0]["mean"])
    by_case = seesaw.estimates["post_Anglo-centrism"].value
    assert row["estimate"] != pytest.approx(by_case), "sets have unlike numbers of texts"
    work = next(row for row in tables["Seesaw-CF, Table 6"].data if row["row"].startswith("work"))
    assert work["estimate"] == pytest.approx(own["flaws, P101"][0]["mean"])
    # Figures are by the continent of the new value.
    changes = {}
    for record in seesaw.records:
        tags, own = seesaw.by_id[record.case].tags, record.values["confidence"]
        if "continent" in tags and "post_D" in own:
            place = f"{named(tags['edited'])}, {tags['continent']}"
            changes.setdefault(place, []).append(own["post_D"] - own["pre_D"])
    whole = [d for d in tables["Seesaw-CF, Figs 3 and 4"].data if d["column"] == "all"]
    found = {d["row"].rsplit(", ", 2)[0]: (d["estimate"], d["n"]) for d in whole}
    assert found == {p: (pytest.approx(sum(c) / len(c)), len(c)) for p, c in changes.items()}
    assert len(found) > 1
