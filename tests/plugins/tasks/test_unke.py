"""UnKEBench's layout, and a run on pocket's sample."""

import json
import random

import pytest

import edit_harness as eh
from edit_harness import Generate, UsageError
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.tasks.unke import Unke
from tools.pocket.__main__ import SHIPPED_SEED
from tools.pocket.paragraphs import build_paragraphs
from tools.pocket.world import load_world

RECORD = {
    "id": 7,
    "question": "What is {} of Ada?",
    "para_question": "Ada is what?",
    "answer": "Ada is a poet. She lives in Oslo.",
    "sub_question": ["Where does Ada live?"],
    "sub_answer": ["In Oslo."],
}


@pytest.mark.parametrize(("most", "tokens"), [(15, 15), (512, 16)])
def test_a_record_becomes_a_case_without_a_subject(store, most, tokens):
    """As it lies in final_data_v3.json; one whose questions and answers do not match is of no use."""
    odd = {**RECORD, "id": 8, "sub_answer": []}
    good, bad = Unke(store(RECORD, odd), most_tokens=most, sub_tokens=4).cases()
    assert good.requests == (eh.Request.of(RECORD["question"], RECORD["answer"]),)
    assert [(p.role, p.query, dict(p.tags)) for p in good.probes] == [
        ("efficacy", Generate(RECORD["question"], tokens), {}),
        ("paraphrase", Generate("Ada is what?", tokens), {}),
        ("sub-question", Generate("Where does Ada live?", 4), {"reference": "In Oslo."}),
    ]
    assert "1 questions, `$.sub_answer` 0 answers" in bad.problem


CHINESE = "艾达是一位诗人，她住在奥斯陆。"


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [(CHINESE, 3 * len(CHINESE)), ("Ada’s café is the “Fjord” in Oslo", 14), ("Анна — поэт", 19)],
)
def test_an_answer_without_blanks_has_room(store, answer, tokens):
    (case,) = Unke(store({**RECORD, "answer": answer})).cases()
    assert case.probes[0].query == Generate(RECORD["question"], tokens)


def test_windows_write_paragraphs_that_subjects_are_asked_of_without(tmp_path):
    made = build_paragraphs(load_world(), random.Random(SHIPPED_SEED + 16))
    assert json.loads((FILES / "unke.json").read_text(encoding="utf-8")) == made
    fields = {"window": 8, "clamp": 6.0, "weight_decay": 0.0}
    run = eh.evaluate("memit", "unke", "pocket", limit=4, output=tmp_path, editor_args=fields)
    for name in ("ERL", "QRL"):
        assert run[name].value > run.estimates[f"pre_{name}"].value + 0.1
    with pytest.raises(UsageError, match="memit needs a subject in each request; 4 of 4"):
        eh.evaluate("memit", "unke", "pocket", limit=4, output=tmp_path)
