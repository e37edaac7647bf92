"""The command submit: what it refuses, what it packs, and what it tells its user."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders import ROOT, with_entries
from support.bundles import honest
from support.commands import edit_harness

from edit_harness import UsageError
from edit_harness.folder.folder import RunFolder
from edit_harness_plugins.commands.leaderboard import submit

SAID = ("--contact", "a@example.org", "--tuned-on", "pocket")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run of all cases of its data, and the baseline for it."""
    _, baseline, run = honest(tmp_path_factory.mktemp("honest"))
    return run, baseline


def changed(run, tmp_path, **fields):
    """Return a copy of a run's folder with another manifest."""
    folder = RunFolder(Path(shutil.copytree(run.folder.path, tmp_path / "run")))
    folder.write_manifest(with_entries(folder.manifest(), **fields))
    return folder.path


def test_a_finished_run_is_packed_and_passes(made, tmp_path):
    run, baseline = made
    out = tmp_path / "b.zip"
    flags = (*SAID, "--output", out, "--baseline", baseline)
    code, printed = edit_harness("leaderboard", "submit", run.folder.path, *flags)
    assert code == 0
    command = f"edit-harness leaderboard verify {out} --baseline {baseline}"
    assert command in printed.replace("\n", " ")
    with zipfile.ZipFile(out) as archive:
        assert {"SHA256SUMS", "submission.json", "samples.jsonl"} < set(archive.namelist())
        submission = json.loads(archive.read("submission.json"))
        results = json.loads(archive.read("results.json"))
    said = [submission[name] for name in ("editor", "model", "licence")]
    assert said == ["rome", "pocket", "CC-BY-4.0"]
    assert results["results"]["post_ES,single"] == run.estimates["post_ES"].value
    first = out.read_bytes()
    out.unlink()
    edit_harness("leaderboard", "submit", run.folder.path, *flags)
    assert out.read_bytes() == first
    code, _ = edit_harness("leaderboard", "verify", out, "--baseline", baseline)
    assert code == 0


def test_home_folders_stay_at_home(made, tmp_path, monkeypatch):
    run, _ = made
    monkeypatch.setenv("HOME", "/home/ada")
    path = changed(run, tmp_path, model={"path": "/home/ada/models/x"})
    edit_harness("leaderboard", "submit", path, *SAID, "--output", tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert b"/home/ada" not in b"".join(archive.read(name) for name in archive.namelist())
        assert json.loads(archive.read("results.json"))["model"] == "~/models/x"


def test_a_run_that_is_not_finished(made, tmp_path):
    run, _ = made
    code, printed = edit_harness("leaderboard", "submit", changed(run, tmp_path, visits=99), *SAID)
    assert code == 7
    assert "is not finished: 87 records missing" in printed


def test_what_no_file_has_cannot_be_run_again(made):
    manifest = with_entries(made[0].manifest, identity={"code": [["Mine", "unversioned 1f"]]})
    with pytest.raises(UsageError, match="is of Mine, a class that no file has") as error:
        submit.check(replace(made[0], manifest=manifest))
    assert "--plugin FILE" in error.value.remedy


def test_a_tuned_preset_was_not_tuned_on_nothing(made, tmp_path):
    """Item 25 of issue I: by the preset of an editor, or by one that a sweep has found."""
    run, baseline = made
    said = ("--contact", "a@example.org", "--tuned-on", "None", "--output", tmp_path / "b.zip")
    code, printed = edit_harness("leaderboard", "submit", run.folder.path, *said)
    assert code == 2
    assert printed == (
        "error: --tuned-on none is not what the run says of its settings: tuned (this project, by "
        "experiments on pocket)\n       say on which data they were chosen: --tuned-on TEXT\n"
    )
    assert not (tmp_path / "b.zip").exists()
    paper = changed(run, tmp_path, preset="paper (kmeng01/rome)")
    assert edit_harness("leaderboard", "submit", paper, *said, "--baseline", baseline)[0] == 0
    code, printed = edit_harness("leaderboard", "submit", paper, *said)
    assert (code, "delete it, or name another: --output FILE" in printed) == (2, True)
    assert "--tuned-on pocket" in (ROOT / "docs/how-to/submit.md").read_text()


def test_a_key_is_never_packed(made, tmp_path):
    run, _ = made
    path = changed(run, tmp_path, label="sk-" + "a1" * 20)
    code, printed = edit_harness(
        "leaderboard", "submit", path, *SAID, "--output", tmp_path / "b.zip"
    )
    assert code == 2
    assert printed.startswith("error: manifest.json has what looks like a key (sk-a1a...)\n")
    assert not (tmp_path / "b.zip").exists()
    for text in (b"sk-" + b"x" * 30, b"hf_" + b"y" * 34, b"ghp_" + b"z" * 36, b"AKIA" + b"A" * 16):
        assert submit.KEYS.search(b'{"a": "' + text + b'"}')
        assert not submit.KEYS.search(text[:12])
