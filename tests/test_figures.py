"""The figures: what is drawn, that it is the same every time, and what is missing."""

import re
from dataclasses import replace

import pytest
from builders import with_entries
from made_runs import made
from test_runner import Push

import edit_harness as eh
from edit_harness import ResourceError
from edit_harness_plugins.commands.report import figures
from edit_harness_plugins.commands.report.figures import draw
from edit_harness_plugins.commands.report.papers import PRINTED
from edit_harness_plugins.commands.report.subsets import Subsets
from edit_harness_plugins.commands.report.typesetting import filled

pytest.importorskip("matplotlib")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(folder):
    return [made(folder, editor, count=4) for editor in (Push(), "prompt")]


@pytest.fixture
def seesaw(runs):
    """A run whose cases have sets and whose values have groups, as of Seesaw-CF."""
    run = replace(runs[0])
    task = {"name": "seesaw-cf", "version": "1", "data": ""}
    from edit_harness_plugins.metrics.people.confidence import Confidence

    rows = []
    for i, r in enumerate(run.everything):
        values = {"post_D_d": 0.1}
        for group in ("", " gender=male", " gender=female"):
            values |= {f"pre_D{group}": 0.5, f"post_D{group}": 0.5 - 0.1 * i}
        rows.append(replace(r, values={"confidence": values}))
    made_up = replace(
        run, manifest=with_entries(run.manifest, identity={"task": task}), everything=rows,
        metrics={"confidence": Confidence()},
    )  # fmt: skip
    cases = [replace(case, tags={"edited": "P21", "set": "P21_P101"}) for case in run.cases]
    made_up.__dict__.update(cases=cases, by_id={case.id: case for case in cases})
    return made_up


def texts(path):
    """The texts of an SVG, which matplotlib writes into comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def test_both_sets_stand_beside_each_other_for_each_editor(runs, tmp_path):
    paths, missing = draw(runs, tmp_path)
    assert [path.name for path in paths] == ["counterfact.svg", "counterfact.png"]
    found = texts(paths[0])
    assert {"CounterFact", "CounterFact+", "unedited", "push", "prompt", "NS ↑, %"} <= set(found)
    assert paths[1].read_bytes().startswith(PNG)
    assert "figure seesaw-gender: no run has D by gender" in missing


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    first, second = (draw(runs, tmp_path / name)[0] for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_bars_by_group(seesaw, tmp_path):
    paths, missing = draw([seesaw], tmp_path)
    assert [path.name for path in paths] == ["seesaw-gender.svg", "seesaw-gender.png"]
    assert {"gender edited", "male", "female", "all", "push"} <= set(texts(paths[0]))
    assert "figure seesaw-race: no run has D by race" in missing


def test_regimes_have_figures_of_their_own(runs, folder, tmp_path):
    other = made(folder, Push(), regime=eh.Regime("batch", 2), count=4)
    paths, _ = draw([*runs, other], tmp_path)
    assert [path.name for path in paths if path.suffix == ".svg"] == [
        "counterfact.svg", "counterfact-2.svg",
    ]  # fmt: skip
    titles = [" ".join(texts(path)) for path in paths if path.suffix == ".svg"]
    assert ["batch, 2 at once" in title for title in titles] == [False, True]


def test_panels_under_each_other_have_one_axis(seesaw, monkeypatch):
    """Only the lowest is labelled: empty groups at the ends must not move the bars of another."""
    found = [each for table in PRINTED if table.groups == ("gender",)
             for each in filled(table, [Subsets(seesaw)])]  # fmt: skip
    (each,) = found
    rows = [r._replace(numbers=[None, *r.numbers[1:]]) for _, block in each.blocks for r in block]
    uneven = replace(each, blocks=[*each.blocks, ("P101", rows)])
    monkeypatch.setattr(figures, "filled", lambda table, every: [uneven])
    (figure,) = figures._groups([each.table], [])
    one, two = (ax.get_xlim() for ax in figure.axes)
    assert one == two == (-0.5, len(each.columns) - 0.5)


def test_a_dollar_is_no_formula(runs, tmp_path):
    named = replace(runs[0], manifest=with_entries(runs[0].manifest, label="a$b$"))
    paths, _ = draw([named], tmp_path)
    assert "a$b$" in texts(paths[0])


def test_a_folder_that_cannot_be_made(runs, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot be written"):
        draw(runs, tmp_path / "file" / "figures")
