"""Example edits: two layouts, what is left out, and what is wrong."""

import json

import pytest
from support.builders import DATA

from edit_harness import DataError, ModelSource
from edit_harness_plugins.editors.in_context import lessons
from edit_harness_plugins.editors.in_context.lessons import Lesson

ZSRE = {
    "subject": "Ann", "src": "Where does Ann live?", "alt": "Oslo", "answers": ["Rome"],
    "rephrase": "Ann lives where?", "loc": "nq question: who wrote faust", "loc_ans": "Goethe",
}  # fmt: skip
COUNTERFACT = {
    "requested_rewrite": {"prompt": "{} lives in", "subject": "Ann",
                          "target_new": {"str": "Oslo"}, "target_true": {"str": "Rome"}},
    "paraphrase_prompts": ["The home of Ann is"],
    "neighborhood_prompts": ["Bob lives in"],
}  # fmt: skip


def written(tmp_path, *records, name="lessons.json"):
    path = tmp_path / name
    text = "\n".join(map(json.dumps, records)) if name.endswith("l") else json.dumps(records)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["lessons.json", "lessons.jsonl"])
def test_both_layouts_are_read(tmp_path, name):
    read = lessons.read(written(tmp_path, ZSRE, COUNTERFACT, name=name))
    assert read == [
        Lesson("Where does Ann live?", "Oslo", ("Ann lives where?",), "who wrote faust?", "Goethe"),
        Lesson("Ann lives in", "Oslo", ("The home of Ann is",), "Bob lives in", "Rome"),
    ]


def test_edits_without_a_new_object_are_left_out(tmp_path):
    assert lessons.read(written(tmp_path, {**ZSRE, "alt": ""}, ZSRE)) == lessons.read(
        written(tmp_path, ZSRE)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[]", "is no list of records"), ('[{"src": "a"}]', "record 0 is in the layout"),
     ('[{"a": 1}]', "neither zsRE nor CounterFact"), ('[3]', "record 0")],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        lessons.read(path)


def test_a_missing_file_is_an_error_with_a_way_out(tmp_path):
    with pytest.raises(DataError, match=r"no file 'nowhere\.json'"):
        lessons.find("nowhere.json", ModelSource(""))
    with pytest.raises(DataError, match="example edits are missing") as caught:
        lessons.find("", ModelSource(""))
    assert "zsre" in caught.value.remedy


def test_genuine_files():
    zsre = DATA / "zsre" / "zsre_mend_600.json"
    if not zsre.exists():
        pytest.skip(f"{zsre} is not here")
    read = lessons.read(zsre)
    assert len(read) == 599  # one has no alternative
    assert all(lesson.prompt and lesson.other_answer for lesson in read)
