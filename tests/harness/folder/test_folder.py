"""The run folder: what is in it, who may write, what is said of damage, and of a folder somebody sent."""

import json
import math
import os

import numpy as np
import pytest
from click.testing import CliRunner
from support.builders import IDENTITY, MANIFEST

from edit_harness import Distribution, Divergence, ResourceError, RunFolderError, Scores, Text
from edit_harness.cli import main
from edit_harness.files import finite
from edit_harness.folder.encoding import decode_answer, encode_answer
from edit_harness.folder.folder import RunFolder, check_regular
from edit_harness.folder.log import encoded
from edit_harness.folder.manifest import fingerprint
from edit_harness.folder.record import Record
from edit_harness.folder.table import RunTable


def record(case: str, value: float = 1.0) -> Record:
    return Record(case, "ok", {"success": {"post_ES": value}})


def opened(tmp_path) -> RunFolder:
    folder = RunFolder.open(tmp_path, "run", IDENTITY, new=False)
    folder.write_manifest(MANIFEST)
    return folder


@pytest.mark.parametrize(
    "answer",
    [
        Scores(((1, 2), (3,)), ((-0.5, -1.0), (-2.0,)), ((1, 9), (3,))),
        Divergence(0.25, 0.5, 1000),
        Text("in Paris {} \u2028 \ud800"),
    ],
)
def test_answers_survive_the_file(answer):
    assert decode_answer(json.loads(json.dumps(encode_answer(answer)))) == answer


def test_whole_distributions_are_not_stored():
    assert encode_answer(Distribution(np.zeros(3), 0.0)) is None
    assert decode_answer(None) is None


def test_json_has_no_nan():
    assert finite({"a": [math.nan, math.inf, 1.5], "b": (math.nan,)}) == {
        "a": [None, None, 1.5],
        "b": [None],
    }


def write(folder, *records):
    with folder.writing() as writer:
        for each in records:
            writer(each)


def test_records_come_back_in_order(tmp_path):
    folder = opened(tmp_path)
    write(folder, record("b"), record("a", 0.0))
    assert [r.case for r in opened(tmp_path).records()] == ["b", "a"]
    assert opened(tmp_path).records()[1].values == {"success": {"post_ES": 0.0}}


def test_a_line_is_on_disk_once_it_is_written(tmp_path):
    folder = opened(tmp_path)
    with folder.writing() as writer:
        for i in range(3):
            writer(record(str(i)))
            assert folder.samples.read_text().count("\n") == i + 1


def test_an_unfinished_last_line_is_cut_off(tmp_path):
    folder = opened(tmp_path)
    write(folder, record("a"), record("b"))
    whole = folder.samples.read_bytes()
    for size in range(len(whole) - 1, whole.index(b"\n"), -1):
        folder.samples.write_bytes(whole[:size])
        again = opened(tmp_path)
        assert [r.case for r in again.records()] == ["a"]
        assert folder.samples.read_bytes() == whole[:size], "who only reads cuts nothing"
        write(again, record("b"))
        assert len(again.notes) == (size > whole.index(b"\n") + 1)
        assert again.samples.read_bytes() == whole


def test_a_damaged_line_in_the_middle_is_an_error_and_stays(tmp_path):
    folder = opened(tmp_path)
    write(folder, record("a"), record("b"), record("c"))
    lines = folder.samples.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + b"{" + lines[1] + lines[2]
    folder.samples.write_bytes(damaged)
    with pytest.raises(
        RunFolderError, match=r"row 1 of .*samples.jsonl is damaged \(byte 236\)"
    ) as error:
        folder.records()
    assert error.value.code == 7
    assert error.value.remedy.endswith(f"edit-harness repair {folder.path}")
    assert folder.samples.read_bytes() == damaged


def test_two_processes_do_not_write_to_one_run(tmp_path):
    first, second = opened(tmp_path), opened(tmp_path)
    with first.writing() as writer:
        writer(record("a"))
        with pytest.raises(RunFolderError, match=f"in use by pid {os.getpid()} on host "):
            write(second, record("a"))
    write(second, record("c"))
    assert [r.case for r in second.records()] == ["a", "c"]


@pytest.mark.parametrize("row", [{}, {"case": "a"}, {"case": 1, "state": 0, "try": 1}])
def test_rows_that_are_no_records_are_damage(tmp_path, row):
    folder = opened(tmp_path)
    folder.samples.write_bytes(encoded(0, fingerprint(IDENTITY)[:12], row))
    with pytest.raises(RunFolderError, match=r"row 0 of .* is damaged"):
        folder.records()


def test_a_manifest_that_is_none_is_damage(tmp_path):
    folder = opened(tmp_path)
    (folder.path / "manifest.json").write_text("[]")
    with pytest.raises(RunFolderError, match=r"manifest\.json is damaged"):
        folder.manifest()


def test_new_makes_a_sibling(tmp_path):
    first = opened(tmp_path)
    second = RunFolder.open(tmp_path, "run", IDENTITY, new=True)
    third = RunFolder.open(tmp_path, "run", IDENTITY, new=True)
    assert len({first.path, second.path, third.path}) == 3
    assert second.path.name == f"{first.path.name}-2"


def test_other_settings_get_another_folder(tmp_path):
    assert opened(tmp_path).path != RunFolder.open(tmp_path, "run", {"seed": 1}, new=False).path


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written") as error:
        RunFolder.open(tmp_path / "file", "run", IDENTITY, new=False)
    assert error.value.code == 5
    assert "--output-path" in error.value.remedy


def test_columns_have_nan_where_a_case_has_no_value():
    records = [
        Record("a", "ok", {"m": {"x": 1.0}}),
        Record("b", "ok", {"m": {"y": 2.0}}),
        Record("c", "edit_failed", {}),
    ]
    found = RunTable.of(records).columns("m")
    np.testing.assert_array_equal(found["x"], [1.0, np.nan, np.nan])
    np.testing.assert_array_equal(found["y"], [np.nan, 2.0, np.nan])


@pytest.fixture
def sent(tmp_path):
    run = tmp_path / "runs" / "run"
    (run / "annotations").mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    return run


def link(folder):
    (folder / "samples.jsonl").symlink_to(folder.parent / "another")


def nowhere(folder):
    (folder / ".results.json.1").symlink_to("/nowhere/at/all")


def out_of_it(folder):
    (folder / "annotations").rmdir()
    (folder / "annotations").symlink_to(folder.parent)


def inner(folder):
    (folder / "annotations" / "0.json").symlink_to("/etc/hostname")


def pipe(folder):
    os.mkfifo(folder / "cases.jsonl")


def test_files_and_folders_are_what_a_run_has(sent, tmp_path):
    check_regular(sent)
    (tmp_path / "by-a-link").symlink_to(sent)
    check_regular(tmp_path / "by-a-link")


@pytest.mark.parametrize("change", [link, nowhere, out_of_it, inner, pipe])
def test_what_leads_elsewhere_is_refused(sent, change):
    change(sent)
    with pytest.raises(RunFolderError, match="is a link or no file at all"):
        check_regular(sent)
    for command in (["score"], ["case", "0"], ["annotate", "export", "--out", str(sent / "x")]):
        name, *rest = command
        args = (
            [name, *rest[:1], str(sent), *rest[1:]]
            if name == "annotate"
            else [name, str(sent), *rest]
        )
        told = CliRunner().invoke(main, args)
        assert told.exit_code == 7, told.output
    told = CliRunner().invoke(main, ["ls", "runs", "-o", str(sent.parent)])
    assert told.exit_code == 0
    assert "BROKEN" in told.stdout
