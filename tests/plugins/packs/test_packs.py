"""The bundled packs: complete, of what there is, and with the figures that were printed."""

import csv
import json
import shlex
from itertools import product
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.builders import DATA

import edit_harness_plugins.packs as bundled
from edit_harness.cli import main
from edit_harness.registry.registry import Plugins
from edit_harness.testing import PluginTests
from edit_harness_plugins.commands.report import formats
from edit_harness_plugins.commands.studies.reproduce import packs
from edit_harness_plugins.commands.studies.reproduce.listing import listed

FOLDER = Path(bundled.__file__).parent


class TestPacks(PluginTests):
    plugin = bundled


@pytest.fixture(scope="module")
def plugins():
    return Plugins.installed()


@pytest.fixture(scope="module")
def tables():
    path = DATA / "paper_tables.json"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return json.loads(path.read_text())


def test_every_file_is_registered():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(bundled.PACKS)


@pytest.mark.parametrize("name", sorted(bundled.PACKS))
def test_cells_are_of_what_there_is(plugins, name):
    """Every number is there once, of a measure of its task, and of an editor with a preset for the model."""
    pack = packs.read(plugins, name)
    assert pack.differs, "each pack says what it cannot match"
    tasks = [plugins.find("task", leg.task).load() for leg in pack.legs]
    metrics = [plugins.find("metric", metric).load() for task in tasks for metric in task.metrics]
    more = [plugins.find("metric", name).load() for name in ("fluency", "consistency")]
    measures = {measure for metric in (*metrics, *more) for measure in metric.measures}
    assert set(pack.table.measures.values()) <= measures
    for label, leg in product(pack.models, pack.legs):
        assert pack.edited(leg, label)
    for cell in pack.cells:
        method = pack.editors.get(cell.editor)
        presets = plugins.find("editor", method.editor).load().presets if method else {}
        family = pack.models[cell.model].family or "qwen2.5-7b"
        assert not presets or family in presets, f"{cell.editor} on {family}"
    places = [(cell.model, cell.editor, cell.row, cell.column) for cell in pack.cells]
    assert len(places) == len(set(places))


@pytest.mark.parametrize(("number", "metric"), [(1, "NS"), (2, "NM"), (3, "NKL")])
def test_counterfactplus_is_as_printed(plugins, tables, number, metric):
    pack = packs.read(plugins, f"counterfactplus-table{number}")
    printed = {
        (row["model"], row["method"], row["dataset"]): (row["mean"], *row["ci99"])
        for row in tables["counterfactplus"]["rows"]
        if row["metric"] == metric
    }
    ours = {(c.model, c.editor, c.column): (c.value, c.low, c.high) for c in pack.cells}
    assert ours == printed
    for cell in pack.cells:
        # Of GPT-J's numbers it is not known of how many cases they are.
        assert bool(cell.doubts) == (cell.model == "GPT-J (6B)")
        assert metric == "NKL" or cell.rounding == 0.005


def test_seesaw_tables_4_and_5_are_as_printed(plugins, tables):
    pack = packs.read(plugins, "seesaw-table4")
    printed = {
        "all" if row["pair"] == "mean" else row["pair"]: row["GPT-J"]
        for row in tables["seesaw_cf"]["table4"]["rows"]
    }
    assert {c.column: c.value for c in pack.cells} == printed
    assert {c.column for c in pack.cells if c.apart} == {"all", "citizenship/birth"}
    pack = packs.read(plugins, "seesaw-table5")
    printed = {
        (method, "all" if row["pair"] == "Average" else row["pair"]): row[method]
        for row in tables["seesaw_cf"]["table5"]["rows"]
        for method in ("Pre-Edit", "FT", "MEND", "MEMIT")
    }
    assert {(c.editor, c.column): c.value for c in pack.cells} == printed
    assert {c.column for c in pack.cells if c.apart} == {"all"}
    assert set(pack.table.measures.values()) == {"CP-published"}


@pytest.mark.parametrize("number", [8, 9, 19])
def test_other_seesaw_tables_are_as_printed(plugins, tables, number):
    """Of GPT-J; counts add up to the printed totals."""
    pack = packs.read(plugins, f"seesaw-table{number}")
    rows = tables["seesaw_cf"][f"table{number}"]["rows"]
    called = {"Total": "all", "White": "white", "men": "male", "women": "female"}
    if number == 19:
        own = {(c.editor, c.column): c.value for c in pack.cells}
        names = rows[0].keys() - {"method"}
        assert own == {(row["method"], name): row[name] for row in rows for name in names}
        return
    printed = {row.get("group") or row["property"]: row["GPT-J"] for row in rows}
    own = {c.column: c.value for c in pack.cells}
    assert own == {called.get(name, name): value for name, value in printed.items()}
    assert sum(own.values()) == 2 * own["all"]
    assert len(pack.table.groups) == 15


def test_the_list_names_every_pack_once_and_says_why_there_is_none(plugins):
    data, grids = listed(plugins)
    named = [name for row in data for name in row["packs"]]
    assert set(named) == set(bundled.PACKS)
    twice = {name for name in named if named.count(name) > 1}
    assert all("CounterFact+" in row["paper"] for row in data if twice & {*row["packs"]})
    assert all(row["packs"] or row["command"] or row["why"] for row in data)
    places = [(row["paper"], row["what"]) for row in data if row["what"]]
    assert len(places) == len(set(places))
    assert {len(row) for row in data} == {6}, "a key that nobody reads"
    assert [grid.title.partition(":")[0] for grid in grids] == [
        "ROME", "CounterFact+", "Seesaw-CF", "RULE-EDIT", "Of none of these papers",
    ]  # fmt: skip
    assert max(map(len, formats.table(grids).splitlines())) <= formats.WIDE
    # Each command is one of ours, with flags that it knows.
    for row in data:
        if row["command"]:
            name, *words = shlex.split(row["command"])
            params = main.get_command(click.Context(main), name).params
            known = {option for param in params for option in param.opts}
            assert {word for word in words if word.startswith("-")} <= known, row


EDITED = {"P101": "work", "P103": "language", "P27": "citizenship", "P21": "gender", "P19": "birth"}


@pytest.mark.parametrize(("number", "groups"), [(10, "Racial Group"), (12, "Geo Group"), (14, "")])
def test_seesaw_by_people_is_as_printed(plugins, tables, seesaw_files, number, groups):
    """Groups are called as in the authors' tables, of which tags of subjects are made."""
    pack = packs.read(plugins, f"seesaw-table{number}")
    for row in tables["seesaw_cf"][f"table{number}"]["rows"]:
        cells = row.get("by_group") or row["by_group_if_south_asian_is_the_blank"]
        printed = [value["value"] for value in cells.values() if value]
        edit = (row["property"], row["method"])
        own = [c for c in pack.cells if (EDITED[c.row], c.editor) == edit]
        assert [c.value for c in own] == printed
        aligned = row.get("aligned", True)
        assert all(bool(c.apart) != aligned for c in own), "an unknown column is not compared"
    with open(seesaw_files / "P101_ethnic_groups.csv", encoding="utf-8") as file:
        people = list(csv.DictReader(file))
    known = {name for person in people if groups for name in person[groups].split("/")}
    assert not groups or {cell.column for cell in pack.cells} <= known


@pytest.mark.parametrize("number", [1, 2, 3])
def test_rule_edit_is_as_printed(plugins, tables, number):
    pack = packs.read(plugins, f"rule-edit-table{number}")
    tasks = {"rule-edit": "formula", "rule-edit-description": "description",
             "rule-edit-instance": "instance", "rule-edit-hierarchy": "hierarchical"}  # fmt: skip
    ours = {(c.model, tasks[c.row], c.editor, c.column): c for c in pack.cells}
    model, count = "", 0
    for row in tables["rule_edit"][f"table{number}"]:
        model = row["model"] or model
        flags = " ".join(row["flags"])
        for name in row.keys() - {"task", "model", "method", "flags"}:
            cell = ours[model, row["task"], row["method"], name.replace("_", "-")]
            assert cell.value == row[name]
            assert bool(cell.doubts) == (f"{name}=" in flags)
            count += 1
    assert count == len(pack.cells)
    assert pack.compares == "orderings", "the data are ours"


def test_models_of_papers_have_to_be_there(plugins, tmp_path, monkeypatch):
    """Without a network nothing is run, and each model that is missing is named."""
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, ["reproduce", "counterfactplus-table1", "-q"])
    told = " ".join(shown.stderr.split())
    assert shown.exit_code == 4, told
    for wanted in packs.read(plugins, "counterfactplus-table1").models.values():
        assert f"error: {wanted.name} is not in the cache and HF_HUB_OFFLINE=1" in told
    assert shown.stdout == ""
