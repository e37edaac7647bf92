"""The commands verify and leaderboard build, on bundles good and bad."""

import json
import os
import sys
import types
from dataclasses import dataclass, replace
from typing import Any

import pytest
from bundles import CASES, folder_of, honest, plugins
from click.testing import CliRunner

from edit_harness import Case, Choose, Probe, Regime, Request, plan
from edit_harness.cli import main
from edit_harness.leaderboard import bundle, replay
from edit_harness.leaderboard.building import badge, why
from edit_harness.leaderboard.checks import CHECKS
from edit_harness.leaderboard.findings import Finding, Report, shown


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """An honest bundle as an archive, and its baseline."""
    place = tmp_path_factory.mktemp("honest")
    forged, baseline, _ = honest(place)
    bundle.pack(forged.members(), place / "good.zip")
    return place / "good.zip", baseline, forged


def edit_harness(*args):
    """Run a command; returns its exit code, and what it printed."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def test_a_bad_bundle_does_not_stop_the_others(bundled, tmp_path):
    good, baseline, _ = bundled
    (tmp_path / "bad.zip").write_bytes(good.read_bytes()[:500])
    code, printed = edit_harness("verify", tmp_path / "bad.zip", good, "--baseline", baseline)
    assert code == 6
    assert "rejected by check 0.1, container" in printed
    assert "level 3 is passed\n" in printed


def test_a_good_bundle_is_passed_and_told_as_json(bundled):
    good, baseline, _ = bundled
    code, printed = edit_harness("verify", good, "--baseline", baseline, "--json", "--level", "2")
    (found,) = json.loads(printed)
    assert code == 0
    assert (found["good"], found["reached"], found["level"]) == (True, 2, 2)
    numbers = [check.number for check in CHECKS if check.level <= 2]
    assert list(dict.fromkeys(each["check"] for each in found["findings"])) == numbers


def test_what_cannot_be_checked_is_not_passed(bundled):
    code, printed = edit_harness("verify", bundled[0])
    assert code == 6
    # Pocket's own sample is published, and these are twelve of its cases.
    assert "is not the one published" in printed


def test_a_replay_needs_a_beacon(bundled):
    code, printed = edit_harness("verify", bundled[0], "--level", "4")
    assert code == 2
    assert printed.startswith("error: --level 4 draws cases by a beacon\n       --beacon TEXT")


def test_a_replay_says_what_it_is_worth(bundled):
    good, baseline, _ = bundled
    flags = ("--level", "4", "--beacon", "lottery", "-k", "3", "--baseline", baseline)
    code, printed = edit_harness("verify", good, *flags)
    assert code == 0
    assert f"replay   3 of 3 cases come out as submitted, of {CASES} in all" in printed
    assert "1 % altered cases are met with a probability of 3.0 %" in printed
    assert "5 % altered cases are met with a probability of 14.3 %" in printed
    assert "drawn by the beacon 'lottery', 3 asked for; --json names the cases" in printed


def test_a_file_that_is_no_baseline(bundled, tmp_path):
    (tmp_path / "b.jsonl").write_text('{"baseline": 2}\n')
    code, printed = edit_harness("verify", bundled[0], "--baseline", tmp_path / "b.jsonl")
    assert code == 4
    assert "is no baseline: format 2, not 1\n       make one: edit-harness leaderboard" in printed


def test_cases_are_drawn_by_beacon_and_bundle():
    ids = [str(i) for i in range(100)]
    drawn = replay.drawn("beacon", "ab" * 32, ids, 10)
    assert drawn == replay.drawn("beacon", "ab" * 32, ids[::-1], 10)
    assert len(set(drawn)) == 10
    assert drawn != replay.drawn("another", "ab" * 32, ids, 10)
    assert drawn != replay.drawn("beacon", "cd" * 32, ids, 10)
    assert set(replay.drawn("beacon", "ab" * 32, ids, 300)) == set(ids)
    counts = [replay.drawn(str(i), "", ids, 10).count("7") for i in range(1000)]
    assert 60 < sum(counts) < 140


def cases(count):
    request = Request("{} is", "Rome", "old")
    probe = Probe("efficacy", Choose("Rome is", ("old", "new")))
    return [Case(str(i), (request,), (probe,)) for i in range(count)]


@pytest.mark.parametrize(
    ("regime", "edited", "measured"),
    [
        (Regime(), [["2"], ["5"]], [("2", 0), ("5", 0)]),
        (Regime("batch", 2), [["2", "3"], ["4", "5"]], [("2", 2), ("5", 3)]),
        (Regime("batch", 0), [["0", "1", "2", "3", "4", "5", "6"]], [("2", 1), ("5", 1)]),
        (Regime("sequential", 3), [["0", "1", "2"], ["3", "4", "5"], ["6"]], [("2", 7), ("5", 7)]),
        (
            Regime("sequential", 3, immediate=True),
            [["0", "1", "2"], ["3", "4", "5"], ["6"]],
            [("2", 3), ("5", 6), ("2", 7), ("5", 7)],
        ),
    ],
)
def test_a_replay_edits_all_that_its_cases_depend_on(regime, edited, measured):
    steps = replay.thinned(list(plan.steps(cases(7), regime)), {"2", "5"}, regime.mode)
    assert [[case.id for case in step.edit] for step in steps] == edited
    assert [visit for step in steps for visit in step.visits] == measured


def test_requests_in_turn_are_all_replayed():
    both = [replace(case, requests=case.requests * 2) for case in cases(3)]
    steps = replay.thinned(list(plan.steps(both, Regime(in_turn=True))), {"1"}, "single")
    assert [(step.fresh, len(step.measure)) for step in steps] == [(True, 0), (False, 1)]


@pytest.mark.parametrize(
    ("tally", "name"),
    [
        (None, "recomputed"),
        ({"agree": 299, "of": 500}, "replayed 299/500"),
        ({"agree": 500, "of": 500}, "reproduced"),
    ],
)
def test_badges(tally, name):
    assert badge(tally) == name


def test_a_level_is_reached_when_all_below_are():
    unchecked = Finding("2.1", "metrics", "unchecked", "not bundled")
    assert Report("b", 3, [Finding("1.1", "identity", "passed"), unchecked]).reached == 1
    assert Report("b", 3, [Finding("3.6", "times", "flag", "odd")]).good
    assert why(Report("b", 3, [unchecked])) == "check 2.1, metrics: not bundled"


def test_what_bundles_say_is_shown_in_printable_ascii():
    assert shown("\x1b[31m\u202e" + "x" * 500) == "\\x1b[31m\\u202e" + "x" * 146 + "..."


@dataclass(frozen=True)
class Entry:
    """Stands in for that of the site."""

    run: Any
    submission: Any
    badge: str
    notes: Any
    bundle: str


@pytest.fixture
def site(monkeypatch):
    """A module that keeps what it is given in the place of the one that writes pages."""
    written = types.SimpleNamespace(odd=False)

    def write(entries, rejected, out, title):
        estimates = [entry.run.estimates["post_ES"].n for entry in entries]
        vars(written).update(entries=entries, rejected=rejected, title=title, n=estimates)
        return [("odd.zip", "it cannot be shown")] if written.odd else []

    package, module = (
        types.ModuleType("edit_harness.pages"),
        types.ModuleType("edit_harness.pages.site"),
    )
    module.Entry, module.write, package.site = Entry, write, module
    monkeypatch.setitem(sys.modules, "edit_harness.pages", package)
    monkeypatch.setitem(sys.modules, "edit_harness.pages.site", module)
    return written


def test_the_site_has_what_passes_and_says_what_does_not(bundled, tmp_path, site):
    good, baseline, _ = bundled
    place = tmp_path / "bundles"
    place.mkdir()
    (place / "a.zip").write_bytes(good.read_bytes())
    (place / "b.zip").write_bytes(b"no")
    folder_of(place / "c", {"manifest.json": b"{}"})
    reports = tmp_path / "reports"
    reports.mkdir()
    flags = ("--level", "4", "--beacon", "x", "-k", "2", "--json", "--baseline", baseline)
    (reports / "a.json").write_text(edit_harness("verify", good, *flags)[1])
    code, printed = edit_harness(
        "leaderboard", "build", place, "--out", tmp_path / "site", "--baseline", baseline,
        "--reports", reports,
    )  # fmt: skip
    assert code == 6
    assert "left out b.zip: check 0.1, container: no .zip that can be read" in printed
    assert [name for name, _ in site.rejected] == ["b.zip", "c"]
    (entry,) = site.entries
    assert (entry.badge, entry.run.label, site.n) == (f"replayed 2/{CASES}", "rome", [CASES])
    assert "editor" not in entry.submission  # it was submitted under its own name
    assert entry.notes == []
    (told,) = json.loads((reports / "a.json").read_text())
    assert (told["replay"]["beacon"], told["replay"]["asked"]) == ("x", 2)
    assert len(told["replay"]["drawn"]) == 2


def test_a_board_shows_names_that_are_vouched_for(bundled, tmp_path, site):
    _, baseline, forged = bundled
    other = forged.copy()
    other.manifest |= {"label": "my-new-sota", "preset": "of the paper"}
    other.manifest["model"] |= {"name": "meta-llama/Llama-3-70B", "note": "the best of all"}
    other.manifest["task"]["notes"] = ["checked by the authors"]
    other.submission |= {"editor": "my-new-sota", "model": "Llama"}
    other.recompute()
    (tmp_path / "in").mkdir()
    bundle.pack(other.members(), tmp_path / "in" / "B.ZIP")
    bundle.pack(other.members(), tmp_path / "in" / "c.zip")
    (tmp_path / "in" / "notes.txt").touch()
    code, printed = edit_harness(
        "leaderboard", "build", tmp_path / "in", "--out", tmp_path / "site", "--baseline", baseline
    )
    assert code == 6
    assert "left out c.zip: the same bundle as B.ZIP" in printed
    assert "skipped  1 files that are no .zip, such as notes.txt" in printed
    assert "(1 runs, 1 left out)" in " ".join(printed.split())
    (entry,) = site.entries
    model = entry.run.manifest["model"]
    assert (entry.run.label, model["name"], model["note"]) == ("rome", "pocket", "")
    assert not entry.run.manifest["task"]
    said = {name: text for name, text in entry.submission.items() if "submitted" in name}
    assert said == {
        "editor, as submitted": "my-new-sota",
        "model, as submitted": "meta-llama/Llama-3-70B",
        "preset, as submitted": "of the paper",
    }
    assert len(entry.notes) == 4
    site.odd = True
    _, printed = edit_harness(
        "leaderboard", "build", tmp_path / "in", "--out", tmp_path / "site", "--baseline", baseline
    )
    assert "left out odd.zip: it cannot be shown" in printed
    assert "(0 runs, 2 left out)" in " ".join(printed.split())


def test_a_bundle_that_is_not_there():
    code, printed = edit_harness("verify", "none.zip")
    assert (code, printed) == (
        2,
        "error: there is no bundle none.zip\n       name a .zip, or a folder of its files\n",
    )


def test_a_replay_has_its_time(bundled):
    good, baseline, _ = bundled
    flags = ("--level", "4", "--beacon", "x", "--baseline", baseline, "--seconds", "0.05")
    code, printed = edit_harness("verify", good, *flags)
    assert code == 6
    assert "unchecked: it took longer than 0.05 s: fewer cases (-k), or --seconds N" in printed


def test_a_replay_opens_no_path_of_a_bundle(bundled, tmp_path):
    _, baseline, forged = bundled
    other = forged.copy()
    other.manifest["identity"]["editor"] |= {
        "name": "mend", "fields": {"network": str(tmp_path / "pipe")},
    }  # fmt: skip
    other.manifest["label"] = other.submission["editor"] = "mend"
    other.identify()
    other.recompute()
    os.mkfifo(tmp_path / "pipe")
    path = other.folder(tmp_path / "bundle")
    flags = ("--level", "4", "--beacon", "x", "--baseline", baseline, "--seconds", "120")
    code, printed = edit_harness("verify", path, *flags)
    assert code == 6
    assert "editor mend is not made here: its network is" in " ".join(printed.split())


def test_checksums_with_the_ends_of_lines_of_windows(bundled, tmp_path):
    members = bundled[2].members()
    sums = bundle.sums(members).replace(b"\n", b"\r\n")
    path = folder_of(tmp_path / "bundle", {**members, "SHA256SUMS": sums})
    code, printed = edit_harness("verify", path)
    assert code == 6
    assert "SHA256SUMS has the line ends of Windows, CRLF" in printed


@pytest.mark.parametrize(
    ("folder", "words"),
    [("none", "there is no folder"), ("", "has no bundles\n       edit-harness submit")],
)
def test_a_folder_without_bundles(folder, words, tmp_path, site):
    code, printed = edit_harness(
        "leaderboard", "build", tmp_path / folder, "--out", tmp_path / "site"
    )
    assert code == 2
    assert words in printed


def test_checks_have_numbers_names_and_meanings():
    numbers = [check.number for check in CHECKS]
    assert len(set(numbers)) == len(numbers)
    assert numbers == sorted(numbers, key=lambda n: tuple(map(int, n.split("."))))
    assert all(check.meaning.endswith(".") and check.name for check in CHECKS)
    assert plugins().of_kind("metric")
