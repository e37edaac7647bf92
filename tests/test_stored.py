"""What is read when it is looked at is what was written, or an error."""

import pytest
from builders import IDENTITY, MANIFEST, REQUEST, with_entries

from edit_harness import Case
from edit_harness.errors import RunFolderError
from edit_harness.folder.records import Record, RunFolder
from edit_harness.folder.stored import Answers, Chosen

BEFORE = [{"tokens": [[1], [2]]}, [0.5, None, 3]]
NAMES = ["a", 'q"\\', "ü"]


@pytest.fixture
def folder(tmp_path):
    made = RunFolder.open(tmp_path, "run", IDENTITY, new=False)
    made.write_cases([Case(name, (REQUEST,), ()) for name in NAMES])
    made.write_manifest(with_entries(MANIFEST, cases=NAMES))
    with made.writing() as writer:
        for name in NAMES:
            writer(Record(name, "ok", {"m": {"x": 1.0}}, before=BEFORE, after=[{"text": name}]))
    return made


def test_answers_are_those_that_were_written(folder):
    for record, name in zip(folder.records(), NAMES, strict=True):
        assert isinstance(record.before, Answers)
        assert record.before == BEFORE
        assert (len(record.before), record.before[-1], record.before[:1]) == (
            2,
            BEFORE[1],
            BEFORE[:1],
        )
        assert record.after == [{"text": name}]
        assert record.values == {"m": {"x": 1.0}}


@pytest.mark.parametrize(
    "trap",
    ['], "edit": {', ', "after": [', {"after": [1], "edit": {}}, {"x": [1], "edit": {"y": 1}}],
)
def test_no_answer_and_no_diagnostic_is_taken_for_the_frame(folder, trap):
    record = Record("t", "ok", {"m": {"x": 2.0}}, before=[trap], after=[trap], edit={"t": trap})
    with folder.writing() as writer:
        writer(record)
    found = folder.records()[-1]
    assert found.row == record.row


def test_a_row_with_verdicts_is_kept(folder):
    answers = [{"text": "x", "verdict": {"status": "decided", "score": 1.0}}]
    with folder.writing() as writer:
        writer(Record("t", "ok", {}, after=answers))
    found = folder.records()[-1]
    assert (found.after, found.verdicts) == (answers, {"decided": 1})


def test_answers_of_a_file_that_was_changed_are_an_error(folder):
    record = folder.records()[0]
    data = folder.samples.read_bytes()
    folder.samples.write_bytes(data[:40] + b"7" + data[41:])
    with pytest.raises(RunFolderError, match="was changed while it was read"):
        list(record.after)


def test_cases_are_those_that_were_written(folder):
    cases = folder.cases()
    assert cases.ids == NAMES == [case.id for case in cases]
    assert cases[1] == Case(NAMES[1], (REQUEST,), ())
    assert [case.id for case in cases[1:]] == NAMES[1:]
    chosen = Chosen({"a": 1, "b": 2}, ["b", "a", "b"])
    assert (list(chosen), chosen[-1]) == ([2, 1, 2], 2)


def test_a_line_that_is_no_case_is_said(folder):
    path = folder.path / "cases.jsonl"
    folder.write_cases([])
    folder._cases_digest = ""
    path.write_bytes(b'{"id": 1}\n')
    with pytest.raises(RunFolderError, match="was changed after it was written"):
        folder.cases()
