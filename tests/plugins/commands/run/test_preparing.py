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


def test_damaged_files_and_what_is_not_there_are_named(tmp_path):
    for name, content, message in (
        ("a.jsonl", b'{"text": "x"}\n{"txt": 1}\n', r"a\.jsonl:2: there is no field text"),
        ("a.jsonl", b"{\n", r"a\.jsonl:1: not JSON"),
        ("a.txt", b"\xff\xfe\n", "is not UTF-8 text"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            list(texts(str(tmp_path / name)))
    with pytest.raises(DataError, match=r"there is no file .nowhere.\n.*wikipedia"):
        texts("nowhere")
