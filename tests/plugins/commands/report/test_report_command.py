"""The command ``report`` as it is typed: formats, files, and what every number carries."""

import csv
import io
from functools import partial

import pytest
from support.builders import with_entries
from support.commands import failed
from support.loops import Push
from support.made_runs import made

from edit_harness import Regime
from edit_harness.run.results import Results
from edit_harness_plugins.commands.report import facts, layouts


@pytest.fixture(scope="module")
def runs(folder) -> list[Results]:
    return [made(folder, editor) for editor in (Push(fails=("Ann",)), "prompt")]


@pytest.fixture(scope="module")
def sequence(folder) -> Results:
    regime = Regime("sequential", 2, immediate=True, checkpoints=(2, 6), sample=3)
    return made(folder, Push(), regime=regime)


@pytest.fixture
def tell(tell):
    return partial(tell, "report")


def paths(runs):
    return [run.folder.path for run in runs]


def test_papers_intervals_are_there_for_the_asking(tell, runs):
    """Item 2 of issue 18: by default our rule, which the caption has no need to name."""
    path = runs[1].folder.path
    ours, drawn, published = (
        tell(path, "--format", "csv", *more).stdout
        for more in ((), ("--interval", "percentile"), ("--interval", "published"))
    )
    assert len({ours, drawn, published}) == 3
    said = " ".join(tell(path, "--interval", "published", "--layout", "paper").stdout.split())
    assert "99% published intervals" in said
    assert "99% intervals" in " ".join(tell(path).stdout.split())


@pytest.mark.parametrize("form", ["table", "csv"])
def test_every_format_says_what_failed_and_what_it_is_of(tell, runs, form):
    said = " ".join(tell(*paths(runs), "--format", form).stdout.replace("\\", "").split())
    failures = "10,1" if form == "csv" else "1 of 10 cases failed"
    wanted = (failures, "push", "counterfactplus", "float32", "single", "wording=instruction")
    for text in (*wanted, runs[0].manifest.fingerprint[:8]):
        assert text in said, text


def test_csv_has_a_row_for_each_number(tell, runs):
    rows = list(csv.DictReader(io.StringIO(tell(*paths(runs), "--format", "csv").stdout)))
    key = ("prompt", "NS+", "after")
    (row,) = [r for r in rows if (r["editor"], r["measure"], r["when"]) == key]
    found = runs[1].estimates["post_NS+"]
    numbers = [float(row[name]) for name in ("estimate", "low", "high", "n")]
    assert numbers == [found.value, found.low, found.high, found.n]
    assert {r["when"] for r in rows} == {"before", "after"}


def test_csv_of_a_sequence_has_its_checkpoints_and_what_later_edits_changed(tell, sequence):
    told = tell(sequence.folder.path, "--format", "csv").stdout
    rows = {(r["measure"], r["when"]): r for r in csv.DictReader(io.StringIO(told))}
    points = {f"after {point.state}": point.estimates for point in sequence.curve[:-1]}
    wanted = {"immediate": sequence.immediate, "change": sequence.retention, **points}
    assert {when for _, when in rows} == {"before", "after", *wanted}
    for when, estimates in wanted.items():
        row, found = rows["NS", when], estimates["post_NS"]
        assert (float(row["estimate"]), int(row["n"])) == (found.value, found.n), when


def test_a_sequence_s_checkpoints_say_how_many_cases_they_are_of(sequence):
    names = [names for names, _ in layouts.curve(sequence).rows]
    assert names == [["2"], ["6 (3 of them)"], ["10"]], "as many as were edited, or fewer"


def test_a_link_is_written_through_and_what_cannot_be_written_told(tell, runs, tmp_path):
    target, link = tmp_path / "target.md", tmp_path / "link.md"
    link.symlink_to(target)
    assert tell(*paths(runs[1:]), "--output", link.name).exit_code == 0
    assert (link.is_symlink(), target.read_bytes()[:2]) == (True, b"**")
    failed(tell(*paths(runs), "--output", "a.docx"), 2, "a.docx tells no format", "--format")
    failed(tell(*paths(runs), "--output", "no/such/a.md"), 5, "cannot be written", "--output FILE")


def test_the_layout_and_the_metrics_may_be_asked(tell, runs):
    said = tell(*paths(runs), "--layout", "paper", "--format", "html")
    title = "Neighborhood score (as in CounterFact+, Table 1)"
    assert said.stdout.startswith(f"<table>\n<caption>{title}</caption>")
    assert "missing Seesaw-CF, Table 4: no run of seesaw-cf" in " ".join(said.stderr.split())
    said = tell(*paths(runs), "--metrics", "nkl", "--format", "markdown").stdout
    assert "| NKL ↓ | NKL+ ↓ | n |" in said


@pytest.mark.parametrize(
    ("name", "start"), [("a.md", "**"), ("a.txt", "Aft"), ("a.csv", "measure,")]
)
def test_a_file_s_name_tells_its_format(tell, runs, tmp_path, name, start):
    result = tell(*paths(runs), "--output", name)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert (tmp_path / name).read_text().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing partial is left


def test_before_and_after_over_other_cases_say_so(folder):
    """A failed edit has no magnitude after it, and one before."""
    (grid, *_) = layouts.of_runs([made(folder, Push(fails=("Ann",)))])
    counts = {names[0]: cells[-1].text for names, cells in grid.rows}
    assert counts["NS ↑"] == "10"
    assert counts["EM ↑"] == "10 → 9"


def test_runs_of_one_editor_are_told_apart_by_what_differs(folder, runs):
    other = made(folder, Push(), count=3)
    heads, names = facts.labels([*runs, other])
    assert heads == ["Editor", "Fields", "Data"], "whatever editors they are of"
    assert [own[:2] for own in names] == [["push", "fails=Ann"], ["prompt", ""], ["push", ""]]
    assert names[0][2] == names[1][2] != names[2][2]
    heads, names = facts.labels([runs[1], runs[1]])
    assert heads == ["Editor", "Run"]


def test_a_run_that_is_not_finished_has_no_report(tell, tmp_path):
    failed(tell(tmp_path), 2, "is no run folder")
    run = made(tmp_path, "none", count=1)
    run.folder.write_manifest(with_entries(run.folder.manifest(), visits=5))
    failed(tell(run.folder.path), 7, "is not finished: 4 records missing")
