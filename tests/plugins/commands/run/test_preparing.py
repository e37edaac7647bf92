import json

import pytest

from edit_harness import DataError
from edit_harness_plugins.commands.run.preparing import texts


def test_plain_text_has_blank_lines_between_documents(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("One.\nStill one.\n\n\nTwo.\n")
    assert list(texts(str(path))) == ["One.\nStill one.", "Two."]


def test_plain_text_without_blank_lines_has_a_document_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\nThree.")
    assert list(texts(str(path))) == ["One.", "Two.", "Three."]


def test_json_lines_have_a_field_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": t, "id": 1}) + "\n" for t in ("One.", "Two.")))
    assert list(texts(str(path))) == ["One.", "Two."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"txt": 1}\n', r"a\.jsonl:2: there is no field text"),
        ("a.jsonl", b"{\n", r"a\.jsonl:1: not JSON"),
        ("a.txt", b"\xff\xfe\n", "is not UTF-8 text"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(texts(str(tmp_path / name)))


def test_a_corpus_that_is_not_there():
    with pytest.raises(DataError, match="there is no corpus 'nowhere'") as error:
        texts("nowhere")
    assert "wikipedia" in error.value.remedy
