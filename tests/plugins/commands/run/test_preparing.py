import pytest

from edit_harness import DataError
from edit_harness_plugins.commands.run.preparing import texts


@pytest.mark.parametrize(
    ("name", "text", "documents"),
    [
        ("a.txt", "One.\nStill one.\n\n\nTwo.\n", ["One.\nStill one.", "Two."]),
        ("a.txt", "One.\nTwo.\nThree.", ["One.", "Two.", "Three."]),
        ("a.jsonl", '{"text": "One.", "id": 1}\n{"text": "Two."}\n', ["One.", "Two."]),
    ],
    ids=["blank-lines", "lines", "json-lines"],
)
def test_a_corpus_is_of_documents(tmp_path, name, text, documents):
    (tmp_path / name).write_text(text)
    assert list(texts(str(tmp_path / name))) == documents


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
