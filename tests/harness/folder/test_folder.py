"""The run folder: what is in it, who may write, what is said of damage, and of a folder somebody sent."""

import copy
import json
import os
import shutil
from functools import reduce

import pytest
from click.testing import CliRunner
from support.builders import IDENTITY, MANIFEST, ROOT

from edit_harness import ResourceError, RunFolderError, files
from edit_harness.cli import main
from edit_harness.folder.folder import RunFolder, check_regular
from edit_harness.folder.manifest import Identity, decoded, fingerprint
from edit_harness.folder.record import Record


def record(case: str, value: float = 1.0) -> Record:
    return Record(case, "ok", {"success": {"post_ES": value}})


def opened(tmp_path) -> RunFolder:
    folder = RunFolder.open(tmp_path, "run", IDENTITY, new=False)
    folder.write_manifest(MANIFEST)
    return folder


def write(folder, *records):
    with folder.writing() as writer:
        for each in records:
            writer(each)


def test_records_come_back_in_order(tmp_path):
    """Each is on the disk once it is written."""
    folder = opened(tmp_path)
    with folder.writing() as writer:
        for i, name in enumerate(("b", "a")):
            writer(record(name, float(i)))
            assert folder.samples.read_text().count("\n") == i + 1
    assert [r.case for r in opened(tmp_path).records()] == ["b", "a"]
    assert opened(tmp_path).records()[1].values == {"success": {"post_ES": 1.0}}
    # A manifest that is none is damage.
    (folder.path / "manifest.json").write_text("[]")
    with pytest.raises(RunFolderError, match=r"manifest\.json is damaged"):
        folder.manifest()


def test_new_makes_a_sibling_unless_the_place_cannot_be_written(tmp_path):
    first = opened(tmp_path)
    second = RunFolder.open(tmp_path, "run", IDENTITY, new=True)
    third = RunFolder.open(tmp_path, "run", IDENTITY, new=True)
    other = RunFolder.open(tmp_path, "run", {"seed": 1}, new=False)
    assert len({folder.path for folder in (first, second, third, other)}) == 4
    assert second.path.name == f"{first.path.name}-2"
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written") as error:
        RunFolder.open(tmp_path / "file", "run", IDENTITY, new=False)
    assert error.value.code == 5
    assert "--output" in error.value.remedy


@pytest.fixture
def sent(tmp_path):
    run = tmp_path / "runs" / "run"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    return run


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("samples.jsonl", "../another"),
        (".results.json.1", "/nowhere/at/all"),
        ("annotations", ".."),
        ("annotations/0.json", "/etc/hostname"),
        ("cases.jsonl", "a pipe"),
    ],
)
def test_what_leads_elsewhere_is_refused(sent, name, target):
    check_regular(sent)
    sent.with_name("link").symlink_to(sent)
    check_regular(sent.with_name("link"))
    sent.with_name("link").unlink()
    place = sent / name
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place) if target == "a pipe" else place.symlink_to(target)
    with pytest.raises(RunFolderError, match="is a link or no file at all"):
        check_regular(sent)
    assert CliRunner().invoke(main, ["case", str(sent), "0"]).exit_code == 7
    told = CliRunner().invoke(main, ["ls", "runs", "-o", str(sent.parent)])
    assert told.exit_code == 0
    assert "BROKEN" in told.stdout


@pytest.fixture
def folder(tmp_path):
    """A run that is finished."""
    return RunFolder(
        shutil.copytree(ROOT / "tests" / "contracts" / "runs" / "single", tmp_path / "run")
    )


def test_identities_of_before_have_the_same_fingerprints():
    """Those of 252 runs, as they were written before identities had types."""
    runs = json.loads((ROOT / "tests" / "contracts" / "numbers.json").read_text())
    for run in runs.values():
        told = copy.deepcopy(run["identity"]) | {"code": [["edit-harness", "0" * 64]]}
        for part in ("editor", "task", "judge"):
            if told[part]:
                told[part].setdefault("version", "1")
        assert fingerprint(decoded(told, Identity)) == files.digest(told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("identity.seed", -1),
        ("cases", [1]),
        ("metrics", [None]),
        ("judged_by", {"name": "openai"}),
        ("identity.judge", {"name": 1, "version": "", "fields": {}, "provenance": {}}),
        ("identity.regime.unheard", 1),
        ("identity.regime", {"mode": "at leisure"}),
    ],
)
def test_a_command_says_so(folder, name, value):
    path = folder.path / "manifest.json"
    kept = path.read_bytes()
    data = json.loads(kept)
    *parents, last = name.split(".")
    reduce(dict.get, parents, data)[last] = value
    path.write_bytes(files.sealed(data | {"fingerprint": files.digest(data["identity"])}))
    told = CliRunner().invoke(main, ["score", str(folder.path)])
    path.write_bytes(kept)
    assert told.exit_code == 7, told.output
    assert len(told.stderr.splitlines()) == 2
