"""The figures: what is drawn, that it is the same every time, and what is missing."""

import re
from dataclasses import replace

import pytest
from builders import with_entries
from made_runs import made
from test_runner import Push

import edit_harness as eh
from edit_harness import ResourceError
from edit_harness_plugins.commands.report.figures import draw

pytest.importorskip("matplotlib")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(folder):
    return [made(folder, editor, count=4) for editor in (Push(), "prompt")]


def texts(path):
    """The texts of an SVG, which matplotlib writes into comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def test_both_sets_stand_beside_each_other_for_each_editor(runs, tmp_path):
    paths, _ = draw(runs, tmp_path)
    assert [path.name for path in paths] == ["counterfact.svg", "counterfact.png"]
    found = texts(paths[0])
    assert {"CounterFact", "CounterFact+", "unedited", "push", "prompt", "NS ↑, %"} <= set(found)
    assert paths[1].read_bytes().startswith(PNG)
    assert draw([], tmp_path) == (
        [],
        ["figure counterfact: no run of counterfact or counterfactplus"],
    )


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    first, second = (draw(runs, tmp_path / name)[0] for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_regimes_have_figures_of_their_own(runs, folder, tmp_path):
    other = made(folder, Push(), regime=eh.Regime("batch", 2), count=4)
    paths, _ = draw([*runs, other], tmp_path)
    assert [path.name for path in paths if path.suffix == ".svg"] == [
        "counterfact.svg", "counterfact-2.svg",
    ]  # fmt: skip
    titles = [" ".join(texts(path)) for path in paths if path.suffix == ".svg"]
    assert ["batch, 2 at once" in title for title in titles] == [False, True]


def test_a_dollar_is_no_formula(runs, tmp_path):
    named = replace(runs[0], manifest=with_entries(runs[0].manifest, label="a$b$"))
    paths, _ = draw([named], tmp_path)
    assert "a$b$" in texts(paths[0])


def test_a_folder_that_cannot_be_made(runs, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot be written"):
        draw(runs, tmp_path / "file" / "figures")
