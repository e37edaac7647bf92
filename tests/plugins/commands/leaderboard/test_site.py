"""The leaderboard's site: what stands in which table, what may be best, and what a browser does with it."""

import json
from pathlib import Path

import pytest
from support.builders import replace
from support.page_runs import altered, of_editor, small

from edit_harness.errors import ResourceError, UsageError
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.leaderboard.build import Entry, write
from edit_harness_plugins.commands.report.page import Entrant, boards_of

SUBMISSION = {"contact": "ada@example.org", "licence": "CC-BY-4.0", "tuned_on": "none"}
LEVELS = {"weak": (0.2, 0.3), "bold": (0.9, 0.4), "mild": (0.5, 0.8), "tied": (0.5, 0.8)}
"""Efficacy and specificity by editor."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return small(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def editors(base):
    return {name: of_editor(base, name, *levels) for name, levels in LEVELS.items()}


def entry(run, badge="replayed 300/300"):
    return Entry.of(run, SUBMISSION, badge)


def entries(editors, *badges):
    return [entry(run, badge) for run, badge in zip(editors.values(), badges, strict=False)]


def files(folder: Path):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_what_another_protocol_measured_stands_in_another_table(base, editors):
    others = [
        of_editor(base, "half", 1, 1, model={"dtype": "float16"}),
        of_editor(base, "newer", 1, 1, task={"version": "0.2"}),
        of_editor(base, "batch", 1, 1, regime={"mode": "batch", "size": 2}),
        of_editor(base, "elsewhere", 1, 1, task={"data": "another"}),
    ]
    found = boards_of([Entrant(run, "") for run in [*editors.values(), *others]])
    assert sorted(len(board.rows) for board in found) == [1, 1, 1, 1, 4]
    # Models are told apart by their weights.
    model = {"digest": "0" * 64}
    runs = [of_editor(base, "one", 0.5, 0.5), of_editor(base, "two", 0.9, 0.9, model=model)]
    (board,) = boards_of([Entrant(run, "") for run in runs])
    assert len({row.model for row in board.rows}) == 1
    assert not any(board.is_best(row, name) for row in board.rows for name in row.lines)


def test_the_best_is_marked_where_a_test_finds_another_worse_that_competes_and_was_checked(base):
    badges = ("reproduced", "recomputed", "replayed 300/300", "replayed 300/300")
    cases = [replace(base.cases[0], id=f"c{i}") for i in range(40)]
    many = altered(base, cases, [replace(base.records[0], case=case.id) for case in cases])
    runs = [of_editor(many, name, *levels) for name, levels in LEVELS.items()]
    by_badge = list(map(Entrant, runs, [""] * 4, badges))
    board, alike = boards_of(by_badge)[0], boards_of(by_badge[2:])[0]
    best = {row.run.label: board.is_best(row, "ES") for row in board.rows}
    assert best == {"weak": False, "bold": False, "mild": True, "tied": True}
    assert not any(alike.is_best(row, name) for row in alike.rows for name in row.lines)


def test_rows_stand_by_their_score_none_by_chance_the_best_and_the_bytes_are_the_same_in_any_order(
    editors, tmp_path
):
    (board,) = boards_of([Entrant(run, "") for run in editors.values()])
    scores = [row.run.estimates["post_S"].value for row in board.rows]
    assert scores == sorted(scores, reverse=True)
    assert len({*scores}) > 2
    found = [board.is_best(row, name) for row in board.rows for name in row.lines]
    assert not any(found), "of four cases"
    some = entries(editors, "recomputed", "reproduced", "replayed 1/2", "recomputed")
    write(some, [("b.zip", "y"), ("a.zip", "x")], tmp_path / "one", "Title")
    write(some[::-1], [("a.zip", "x"), ("b.zip", "y")], tmp_path / "two", "Title")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "two"]


def test_a_site_is_replaced_as_a_whole_and_other_folders_are_not(editors, tmp_path, monkeypatch):
    site = tmp_path / "site"
    write(entries(editors, "recomputed", "recomputed"), [], site, "Old")
    write(entries(editors, "recomputed"), [], site, "New")
    assert len(list((site / "runs").iterdir())) == 1
    before = files(site)

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ResourceError) as caught:
        write(entries(editors, "recomputed"), [], site, "Newer")
    assert caught.value.cause == f"the site {site} cannot be written: No space left on device"
    monkeypatch.undo()
    assert files(site) == before
    assert [p.name for p in tmp_path.iterdir()] == ["site"]
    (site / "thesis.tex").touch()
    for place, why in ((site, r"such as thesis\.tex"), (site / "thesis.tex", "is a file")):
        with pytest.raises(UsageError, match=why):
            write([], [], place, "Newest")


def test_the_export_has_every_number_and_the_site_what_was_left_out(base, tmp_path):
    run = of_editor(base, "rome", 0.25, 0.75)
    write([entry(run)], [("bad.zip", "row 3 is damaged")], tmp_path / "site", "x")
    assert "row 3 is damaged" in (tmp_path / "site" / "index.html").read_text()
    (told,) = json.loads((tmp_path / "site" / "results.json").read_text())["entries"]
    assert Estimate(**told["results"]["post_ES"]) == run.estimates["post_ES"]
    assert (tmp_path / "site" / told["page"]).is_file()
