"""The commands verify and leaderboard build, on bundles good and bad."""

import json
import os
import types
from dataclasses import replace
from importlib.metadata import version

import pytest
from support.bundles import CASES, archive_of, honest, plugins
from support.commands import edit_harness

from edit_harness import Case, Choose, Probe, Regime, Request
from edit_harness.folder.encoding import decode_answer, unchanged
from edit_harness.folder.manifest import TaskInfo
from edit_harness.folder.record import Record
from edit_harness.registry.settings import defaults
from edit_harness.run import plan
from edit_harness_plugins.commands.leaderboard import build as pages
from edit_harness_plugins.commands.leaderboard import replay
from edit_harness_plugins.commands.leaderboard.bundle import Finding, Report, shown
from edit_harness_plugins.commands.leaderboard.checks import CHECKS, flags


class Bundled:
    """An honest bundle as an archive, and its baseline."""

    def __init__(self, place):
        self.forged, self.baseline, _ = honest(place)
        self.good = self.forged.archive(place / "good.zip")

    def verify(self, path, *flags):
        return edit_harness("leaderboard", "verify", path, "--baseline", self.baseline, *flags)

    def build(self, folder, *flags):
        given = ("--output", folder.parent / "site", "--baseline", self.baseline, *flags)
        return edit_harness("leaderboard", "build", folder, *given)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    return Bundled(tmp_path_factory.mktemp("honest"))


def replaying(*flags):
    return ("--level", "4", "--beacon", "lottery", *flags)


@pytest.mark.parametrize("apart", [1e-6, 1e-2])
def test_the_verifier_and_the_writer_agree_on_what_changes_no_answer(apart):
    """Item 10 of issue I: an honest zsRE bundle was rejected at check 3.5."""

    def row(value):
        return [{"tokens": [[5]], "logprobs": [[value]], "argmax": [[3]]}]

    case = Case("0", (), (Probe("efficacy", Choose("Ada lives in", ("Rome",))),))
    for noop in (True, False):
        made = Record("0", "ok", {}, before=row(-1.0), after=row(-1.0 - apart), noop=noop)
        evidence = types.SimpleNamespace(everything=[made], case=lambda _: case)
        right = noop == unchanged(*([decode_answer(row(v)[0])] for v in (-1.0, -1.0 - apart)))
        assert not list(flags(evidence)) if right else list(flags(evidence))


def test_a_good_bundle_is_passed_and_told_as_json(bundled):
    code, printed = bundled.verify(bundled.good, "--json", "--level", "2")
    (found,) = json.loads(printed)
    assert code == 0
    assert (found["good"], found["reached"], found["level"]) == (True, 2, 2)
    numbers = {number for number in CHECKS if int(number[0]) <= 2}
    assert {each["check"] for each in found["findings"]} == numbers
    unchecked = Finding("2.1", "metrics", "unchecked", "not bundled")
    assert Report("b", 3, [Finding("1.1", "identity", "passed"), unchecked]).reached == 1


def test_what_cannot_be_checked_is_not_passed(bundled, tmp_path):
    """Pocket's own sample is published, and these are twelve of its cases."""
    none = tmp_path / "b.jsonl"
    none.write_text('{"baseline": 2}\n')
    for more, code, told in (
        ([], 6, "no baseline of this model, dtype and task's data is known here"),
        (["--level", "4"], 2, "error: --level 4 draws cases by a beacon\n       --beacon TEXT"),
        (["--baseline", none], 4, "\n       make one: edit-harness leaderboard"),
    ):
        found, printed = edit_harness("leaderboard", "verify", bundled.good, *more)
        assert (found, told in printed) == (code, True)


def test_what_is_not_there_is_an_error_of_use(tmp_path):
    for command, path, words in (
        ("verify", "none.zip", "there is no bundle"),
        ("build", "none", "there is no folder"),
        ("build", "", "has no bundles\n       edit-harness leaderboard submit"),
    ):
        flags = () if command == "verify" else ("--output", tmp_path / "site")
        code, printed = edit_harness("leaderboard", command, tmp_path / path, *flags)
        assert (code, words in printed) == (2, True)


def test_a_replay_says_what_it_is_worth_and_has_its_time(bundled):
    flags = replaying("-k", "3")
    code, printed = bundled.verify(bundled.good, *flags)
    assert code == 0
    assert f"replay   3 of 3 cases come out as submitted, of {CASES} in all" in printed
    assert "drawn by the beacon 'lottery', 3 asked for; --json names the cases" in printed
    code, printed = bundled.verify(bundled.good, *flags, "--seconds", "0.05")
    assert code == 6
    assert "unchecked: it took longer than 0.05 s: fewer cases (-k), or --seconds N" in printed


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


IN_THREES = [["0", "1", "2"], ["3", "4", "5"], ["6"]]
IN_TWOS = [["0", "1"], ["2", "3"], ["4", "5"], ["6"]]


@pytest.mark.parametrize(
    ("regime", "wanted", "edited", "measured"),
    [
        (Regime(), {"2", "5"}, [["2"], ["5"]], [("2", 0), ("5", 0)]),
        (Regime("batch", 2), {"2", "5"}, [["2", "3"], ["4", "5"]], [("2", 2), ("5", 3)]),
        (Regime("batch", 0), {"2", "5"}, [list("0123456")], [("2", 1), ("5", 1)]),
        (Regime("sequential", 3), {"2", "5"}, IN_THREES, [("2", 7), ("5", 7)]),
        (Regime("sequential", 3, immediate=True), {"5"}, IN_THREES, [("5", 6), ("5", 7)]),
        (Regime(), {"1", ("text", 5)}, [["1"], ["4"]], [("1", 0), ("text", 5)]),
        (Regime("batch", 2), {"0", ("text", 3)}, [["0", "1"], ["4", "5"]], [("0", 1), ("text", 3)]),
        (Regime("sequential", 2), {("text", 7)}, IN_TWOS, [("text", 7)]),
        (Regime(in_turn=True), {"1"}, [["1"], ["1"]], [("1", 0)]),
    ],
    ids=lambda value: str(value) if isinstance(value, Regime) else "",
)
def test_a_replay_edits_all_that_its_cases_and_controls_depend_on(regime, wanted, edited, measured):
    text = Case("text", (), (Probe("control", Choose("a", ("b",))),))
    every = [replace(case, requests=case.requests * 2) for case in cases(7)]
    steps = plan.steps(every if regime.in_turn else cases(7), regime, [text], [3, 5])
    thinned = replay.thinned(list(steps), wanted, regime.mode)
    assert [[case.id for case in step.edit] for step in thinned] == edited
    assert [visit for step in thinned for visit in step.visits] == measured


@pytest.mark.parametrize(("agree", "name"), [(299, "replayed 299/500"), (500, "reproduced")])
def test_badges(agree, name, tmp_path):
    found = {"good": True, "digest": "1f", "replay": {"agree": agree, "of": 500}}
    (tmp_path / "a.json").write_text(json.dumps([found, {**found, "good": False, "digest": "2f"}]))
    assert pages._badges(tmp_path) == {"1f": name}


@pytest.fixture
def site(monkeypatch):
    """What would have been written, in the place of the pages."""
    written = types.SimpleNamespace()

    def write(entries, rejected, out, title):
        estimates = [entry.run.estimates["post_ES"].n for entry in entries]
        vars(written).update(entries=entries, rejected=rejected, title=title, n=estimates)

    monkeypatch.setattr(pages, "write", write)
    return written


def board(tmp_path, bundled, **bundles):
    """Build a board of bundles by their names; returns its folder, and what was printed."""
    (tmp_path / "in").mkdir()
    for name, forged in bundles.items():
        forged.archive(tmp_path / "in" / f"{name}.zip")
    code, printed = bundled.build(tmp_path / "in")
    assert code == 0
    return tmp_path / "site", printed


def test_a_line_break_in_a_name_feigns_no_line(bundled, tmp_path):
    """Item 26 of issue I."""
    (tmp_path / "in").mkdir()
    bad = tmp_path / "in" / "x\nlevel 3 is passed\n.zip"
    bad.write_bytes(b"no")
    bundled.forged.archive(tmp_path / "in" / "good.zip")
    code, printed = edit_harness("leaderboard", "verify", bad)
    assert code == 6
    assert "level 3 is passed" not in printed.splitlines()
    assert "x\\nlevel 3 is passed\\n.zip" in printed
    assert shown("\x1b[31m\u202e" + "x" * 500) == "\\x1b[31m\\u202e" + "x" * 146 + "..."
    _, printed = bundled.build(tmp_path / "in")
    lines = printed.splitlines()
    assert "saved" not in lines
    assert [line.split()[0] for line in lines[:2]] == ["left", "saved"]


def test_the_site_has_what_passes_and_says_what_does_not(bundled, tmp_path, site):
    place, reports = tmp_path / "bundles", tmp_path / "reports"
    place.mkdir()
    reports.mkdir()
    bundled.forged.archive(place / "a.zip")
    (place / "b.zip").write_bytes(b"no")
    archive_of(place / "c.zip", {"manifest.json": b"{}"})
    told = bundled.verify(bundled.good, *replaying("-k", "2", "--json"))[1]
    (reports / "a.json").write_text(told)
    code, printed = bundled.build(place, "--reports", reports)
    assert code == 6
    assert "left out b.zip: check 0.1, container: no .zip that can be read" in printed
    assert [name for name, _ in site.rejected] == ["b.zip", "c.zip"]
    (entry,) = site.entries
    assert (entry.badge, entry.run.label, site.n) == (f"replayed 2/{CASES}", "rome", [CASES])
    assert "editor" not in entry.submission  # it was submitted under its own name
    replayed = json.loads(told)[0]["replay"]
    assert (replayed["beacon"], replayed["asked"], len(replayed["drawn"])) == ("lottery", 2, 2)


def test_a_board_shows_names_that_are_vouched_for(bundled, tmp_path, site):
    other = bundled.forged.copy()
    other.manifest |= {"label": "my-new-sota", "preset": "of the paper"}
    other.manifest["model"] |= {"name": "meta-llama/Llama-3-70B", "note": "the best of all"}
    other.manifest["task"]["notes"] = ["checked by the authors"]
    other.submission |= {"editor": "my-new-sota", "model": "Llama"}
    other.recompute()
    (tmp_path / "in").mkdir()
    other.archive(tmp_path / "in" / "B.ZIP")
    (tmp_path / "in" / "notes.txt").touch()
    code, printed = bundled.build(tmp_path / "in")
    assert code == 0
    assert "(1 runs, 0 left out)" in " ".join(printed.split())
    (entry,) = site.entries
    model = entry.run.manifest.model
    assert (entry.run.label, model.name, model.note) == ("rome", "pocket", "")
    assert entry.run.manifest.task == TaskInfo()
    said = {name: text for name, text in entry.submission.items() if "submitted" in name}
    assert said == {"editor, as submitted": "my-new-sota", "model, as submitted": "Llama"}


def replayed(bundled, tmp_path, editor):
    """Return what a replay says of a bundle whose manifest names another editor, or other fields."""
    other = bundled.forged.copy()
    claimed = other.manifest["identity"]["editor"]
    claimed |= editor
    other.manifest["label"] = other.submission["editor"] = claimed["name"]
    other.identify()
    other.recompute()
    code, printed = bundled.verify(other.archive(tmp_path / "b.zip"), *replaying("-k", "1"))
    assert code == 6
    return " ".join(printed.split())


def test_a_replay_opens_no_path_of_a_bundle(bundled, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    usual = defaults(plugins().find("editor", "mend").load())
    fields = {**usual, "network": str(tmp_path / "pipe")}
    told = replayed(bundled, tmp_path, {"name": "mend", "fields": fields})
    assert "editor mend is not made here: its network is" in told


@pytest.mark.parametrize("kept", [True, False])
def test_an_editor_under_the_name_of_another_is_rejected(bundled, tmp_path, kept):
    """A stranger's review: ROME's rows as MEMIT's, with ROME's fields, were unchecked at level 4."""
    fields = dict(bundled.forged.manifest["identity"]["editor"]["fields"])
    why = f"memit of edit-harness {version('edit-harness')} has"
    if not kept:
        del fields["context_count"]
        why = "has field context_count, not stated"
    told = replayed(bundled, tmp_path, {"name": "memit"} if kept else {"fields": fields})
    assert "rejected by check 4.1, replay" in told
    assert why in told


def test_rivals_are_of_one_claim_and_replace_nobody(bundled, tmp_path):
    """Item 22 of issue I: a vandal's copy took an honest one's place. Equal answers are rivals, too.

    A stranger's review: one altered digest hid a rival.
    """
    copied, worse, other = (bundled.forged.copy() for _ in range(3))
    copied.submission["contact"] = "b@example.org"
    for row in worse.rows:
        for one in (one for a in row["after"] if isinstance(a, dict) for one in a["logprobs"]):
            one[0] -= 5.0
    worse.manifest["identity"]["editor"]["provenance"]["statistics"] = "0" * 64
    worse.manifest["identity"]["code"] = [["edit-harness", "0" * 64]]
    worse.manifest["identity"]["together"] = "0" * 64
    other.manifest["identity"]["seed"] = 7
    for forged in (copied, worse, other):
        forged.identify()
        forged.recompute()
    again, alone = other.copy(), other.copy()
    again.submission["contact"] = "b@example.org"
    alone.manifest["identity"]["seed"] = 8
    alone.identify()
    made = {"a": bundled.forged, "b": copied, "c": worse, "d": other, "e": again, "f": alone}
    place, printed = board(tmp_path, bundled, **made)
    assert "rivals   a.zip, b.zip, c.zip: the same run, all are shown\n" in printed
    assert "rivals   d.zip, e.zip: the same run, all are shown\n" in printed
    assert len(list((place / "runs").iterdir())) == 6
    shown = (place / "index.html").read_text()
    entries = json.loads((place / "results.json").read_text())["entries"]
    for rivals in (2, 3):
        said = f"one of {rivals} of the same run"
        assert shown.count(f"<small>{said}</small>") == rivals
        assert [entry["rival"] for entry in entries].count(said) == rivals
    assert [entry["rival"] for entry in entries].count("") == 1
    assert len({entry["page"] for entry in entries}) == 6
