"""The bundled packs: complete, of what there is, and with the figures that were printed."""

import csv
import json
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.builders import DATA

import edit_harness_plugins.packs as bundled
from edit_harness.cli import main
from edit_harness.interfaces import Metric
from edit_harness.registry.registry import Plugins
from edit_harness.testing import PluginTests
from edit_harness_plugins.commands.studies.reproduce import packs

PRINTED = sorted(set(bundled.PACKS) - {"pocket-figures"})
FOLDER = Path(bundled.__file__).parent
accept = pytest.importorskip("benchmarks.accept", reason="it is not in a built package")


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
    """Every number is of a measure that its task has, and of an editor with a preset for the model."""
    pack = packs.read(plugins, name)
    assert pack.differs, "each pack says what it cannot match"
    measures = {
        measure
        for leg in pack.legs
        for metric in plugins.find("task", leg.task).load().metrics
        for measure in metric_of(plugins, metric).measures
    }
    assert set(pack.table.measures.values()) <= measures
    for label, leg in product(pack.models, pack.legs):
        assert pack.edited(leg, label)
    for cell in pack.cells:
        method = pack.editors.get(cell.editor)
        presets = plugins.find("editor", method.editor).load().presets if method else {}
        family = pack.models[cell.model].family or "qwen2.5-7b"
        assert not presets or family in presets, f"{cell.editor} on {family}"


def metric_of(plugins, name) -> type[Metric]:
    return plugins.find("metric", name).load()


@pytest.mark.parametrize("name", sorted(bundled.PACKS))
def test_no_number_is_there_twice(plugins, name):
    pack = packs.read(plugins, name)
    places = [(cell.model, cell.editor, cell.row, cell.column) for cell in pack.cells]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_counterfactplus_is_as_printed(plugins, tables, number):
    metric = {1: "NS", 2: "NM", 3: "NKL"}[number]
    pack = packs.read(plugins, f"counterfactplus-table{number}")
    printed = {
        (row["model"], row["method"], row["dataset"]): (row["mean"], *row["ci99"])
        for row in tables["counterfactplus"]["rows"]
        if row["metric"] == metric
    }
    ours = {(c.model, c.editor, c.column): (c.value, c.low, c.high) for c in pack.cells}
    assert ours == printed
    assert all(c.doubts == () for c in pack.cells if c.model != "GPT-J (6B)")
    assert all(c.doubts for c in pack.cells if c.model == "GPT-J (6B)"), (
        "of how many cases they are"
    )
    assert {c.rounding for c in pack.cells if metric != "NKL"} <= {0.005}


def test_seesaw_table_5_is_as_printed(plugins, tables):
    pack = packs.read(plugins, "seesaw-table5")
    printed = {
        (method, "all" if row["pair"] == "Average" else row["pair"]): row[method]
        for row in tables["seesaw_cf"]["table5"]["rows"]
        for method in ("Pre-Edit", "FT", "MEND", "MEMIT")
    }
    assert {(c.editor, c.column): c.value for c in pack.cells} == printed
    assert {c.column for c in pack.cells if c.apart} == {"all"}
    assert set(pack.table.measures.values()) == {"CP-published"}


@pytest.mark.parametrize("number", [10, 12, 14])
def test_seesaw_by_people_is_as_printed(plugins, tables, number):
    pack = packs.read(plugins, f"seesaw-table{number}")
    edited = {"P101": "work", "P103": "language", "P27": "citizenship", "P21": "gender",
              "P19": "birth"}  # fmt: skip
    for row in tables["seesaw_cf"][f"table{number}"]["rows"]:
        cells = row.get("by_group") or row["by_group_if_south_asian_is_the_blank"]
        printed = [value["value"] for value in cells.values() if value]
        own = [
            c for c in pack.cells if (edited[c.row], c.editor) == (row["property"], row["method"])
        ]
        assert [c.value for c in own] == printed
        aligned = row.get("aligned", True)
        assert all(bool(c.apart) != aligned for c in own), (
            "a cell of an unknown column is not compared"
        )


@pytest.mark.parametrize(("number", "column"), [(10, "Racial Group"), (12, "Geo Group")])
def test_groups_are_called_as_the_authors_tables_call_them(plugins, seesaw_files, number, column):
    """Tags of subjects are made of these tables."""
    with open(seesaw_files / "P101_ethnic_groups.csv", encoding="utf-8") as file:
        known = {name for row in csv.DictReader(file) for name in row[column].split("/")}
    pack = packs.read(plugins, f"seesaw-table{number}")
    assert {cell.column for cell in pack.cells} <= known


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
        for name in set(row) - {"task", "model", "method", "flags"}:
            cell = ours[model, row["task"], row["method"], name.replace("_", "-")]
            assert cell.value == row[name]
            assert bool(cell.doubts) == (f"{name}=" in flags)
            count += 1
    assert count == len(pack.cells)
    assert pack.compares == "orderings", "the data are ours"


PLUGIN = """
from edit_harness import hookimpl
from edit_harness_plugins.commands.studies.reproduce import Pack

class Part(Pack):
    file = "part.json"

@hookimpl
def edit_harness_register_packs(register):
    register("part", Part, "Some of the project's figures")
"""


@pytest.fixture
def part(tmp_path, monkeypatch):
    """The project's own figures of one editor and task; returns what reproduces them as they are in a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(tmp_path / "plugin.py"))
    (tmp_path / "plugin.py").write_text(PLUGIN)
    pack = json.loads((FOLDER / "pocket-figures.json").read_text())
    pack["runs"] = [{"task": "zsre", "editors": ["ft-l"], "limit": 60}]
    pack["cells"] = [c for c in pack["cells"] if (c["editor"], c["row"]) == ("ft-l", "zsre")]

    def reproduced(*args):
        (tmp_path / "part.json").write_text(json.dumps(pack))
        return CliRunner().invoke(main, ["reproduce", "part", "-q", *args])

    return pack, reproduced


def test_a_figure_that_drifts_is_seen(part):
    pack, reproduced = part
    shown = reproduced()
    assert shown.exit_code == 0, shown.stdout + shown.stderr
    assert "4 within, 0 outside" in shown.stdout
    pack["cells"][1]["value"] -= 0.001
    shown = reproduced("--json")
    assert shown.exit_code == 6
    accepted = accept.accepted(pack, json.loads(shown.stdout))
    changed = pack["cells"][1]
    told = " ".join(reproduced().stdout.split())
    assert f"outside ft-l on pocket, zsre, {changed['column']}: printed" in told
    pack["cells"] = accepted["cells"]
    assert reproduced().exit_code == 0


def test_figures_of_papers_are_never_taken_over():
    pack = json.loads((FOLDER / "seesaw-table5.json").read_text())
    with pytest.raises(ValueError, match="stays as it was printed"):
        accept.accepted(pack, {"numbers": []})


def test_a_figure_that_is_missing_is_not_accepted():
    pack = json.loads((FOLDER / "pocket-figures.json").read_text())
    with pytest.raises(ValueError, match="there is no new figure"):
        accept.accepted(pack, {"numbers": []})


@pytest.mark.parametrize("name", PRINTED)
def test_models_of_papers_have_to_be_there(plugins, name, tmp_path, monkeypatch):
    """Without a network nothing is run, and each model that is missing is named."""
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(main, ["reproduce", name, "-q"])
    told = " ".join(shown.stderr.split())
    assert shown.exit_code == 4, told
    for wanted in packs.read(plugins, name).models.values():
        assert f"error: {wanted.name} is not in the cache and HF_HUB_OFFLINE=1" in told
    assert shown.stdout == ""


def test_files_are_as_they_are_written_again():
    for path in FOLDER.glob("*.json"):
        found = path.read_text(encoding="utf-8")
        assert accept.text(json.loads(found)) == found
