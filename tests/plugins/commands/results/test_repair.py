"""``score --repair``: what is damaged is moved aside and said; what was there stays as it was."""

import json
from functools import partial

import pytest
from support.builders import MANIFEST, with_entries
from support.commands import failed, invoked
from support.folders import made

from edit_harness.folder.folder import RunFolder
from edit_harness.folder.log import encoded
from edit_harness.folder.record import Record


@pytest.fixture
def run(tmp_path):
    return made(tmp_path, 0)


repaired = partial(invoked, "score", "--repair")


def lines(path):
    return (path / "samples.jsonl").read_bytes().splitlines(keepends=True)


def test_a_damaged_row_is_moved_aside_and_its_case_runs_again(run):
    rows = lines(run)
    (run / "samples.jsonl").write_bytes(b"".join(rows).replace(b'"case 0"', b'"case 7"', 1))
    done = repaired(run)
    failed(done, 7, "1 record missing", "finish it with the command that began it")
    assert done.stdout == "kept 6 rows; 1 damaged line in samples.bad.jsonl\n"
    folder = RunFolder(run)
    assert {r.case for r in folder.records()} == {f"case {n}" for n in range(1, 6)}
    assert b"withdraws" not in b"".join(lines(run))
    assert [json.loads(line)["seq"] for line in lines(run)] == list(range(6))
    with folder.writing() as writer:
        assert writer(Record("case 0", "ok", {})) == 6
    assert repaired(run).stdout.startswith(f"no line of {run} is damaged\n")


def test_what_was_withdrawn_stays_so_though_its_row_is_damaged(run):
    changed = b"".join(lines(run)).replace(b'"withdraws"', b'"withdrews"')
    (run / "samples.jsonl").write_bytes(changed)
    assert repaired(run).exit_code == 0
    (found,) = (r for r in RunFolder(run).records() if r.case == "case 2")
    assert found.values == {"m": {"x": 9.5}}


def test_line_ends_are_put_right_and_nothing_is_lost(run):
    whole = [record.row for record in RunFolder(run).records()]
    path = run / "samples.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    done = repaired(run)
    assert "kept 7 rows; 0 damaged lines" in done.output
    assert [r.row for r in RunFolder(run).records()] == whole


def test_two_answers_of_one_try_are_both_moved_aside(run):
    mark = json.loads(lines(run)[0])["fp"]
    other = Record("case 3", "ok", {"m": {"x": 5.0}}, after=[{"text": "b"}]).row
    with open(run / "samples.jsonl", "ab") as file:
        file.write(encoded(len(lines(run)), mark, other))
    with pytest.raises(Exception, match="rows 5 and 9 say different things of case case 3"):
        RunFolder(run).records()
    assert "2 damaged lines" in repaired(run).output
    assert "case 3" not in {r.case for r in RunFolder(run).records()}


def test_what_cannot_be_repaired_is_said(run, tmp_path):
    path, elsewhere = run / "manifest.json", tmp_path / "elsewhere.jsonl"
    whole = path.read_text()
    path.write_text(whole.replace('"visits": 6', '"visits": 5'))
    changed = "its content was changed after it was written"
    failed(repaired(run), 7, changed, "the command that made the run writes it again")
    path.write_text(whole)
    with RunFolder(run).writing():
        failed(repaired(run), 7, "in use by pid")
    failed(repaired(tmp_path), 2, "is no run folder")
    (run / "samples.jsonl").rename(elsewhere)
    (run / "samples.jsonl").symlink_to(elsewhere)
    failed(repaired(run), 7, "is a link")


def test_the_documents_of_another_run_are_said_and_no_row_moved(run, tmp_path):
    manifest = with_entries(MANIFEST, identity={"seed": 4})
    other = RunFolder.open(tmp_path, "other", manifest.identity, new=False)
    other.write_cases([])
    other.write_manifest(manifest)
    before = (run / "samples.jsonl").read_bytes()
    for name in ("manifest.json", "cases.jsonl"):
        (run / name).write_bytes((other.path / name).read_bytes())
    failed(repaired(run), 7, "manifest.json is of another run than all rows are")
    assert (run / "samples.jsonl").read_bytes() == before


def test_without_a_manifest_the_rows_say_which_run_it_is(run):
    (run / "manifest.json").unlink()
    rows = lines(run)
    (run / "samples.jsonl").write_bytes(b"".join(rows).replace(b'"case 0"', b'"case 7"', 1))
    assert "kept 6 rows; 1 damaged line" in repaired(run).output
