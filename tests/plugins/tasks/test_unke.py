"""UnKEBench's layout, and a run on pocket's sample: who may edit, and what is asked for how long."""

import json
import random

import pytest

import edit_harness as eh
from edit_harness import Generate, UsageError
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.models.pocket.build.__main__ import SHIPPED_SEED
from edit_harness_plugins.models.pocket.build.paragraphs import build_paragraphs
from edit_harness_plugins.models.pocket.build.world import load_world
from edit_harness_plugins.tasks.unke import Unke

RECORD = {
    "id": 7,
    "question": "What is {} of Ada?",
    "para_question": "Ada is what?",
    "answer": "Ada is a poet. She lives in Oslo.",
    "sub_question": ["Where does Ada live?"],
    "sub_answer": ["In Oslo."],
}


def test_a_record_becomes_a_case_without_a_subject(store):
    """As it lies in final_data_v3.json; a record whose answers are not those of its questions is no use."""
    odd = {**RECORD, "id": 8, "sub_answer": []}
    good, bad = Unke(store(RECORD, odd), most_tokens=15, sub_tokens=4).cases()
    (request,) = good.requests
    assert (good.id, request.subject, request.text) == ("7", "", RECORD["question"])
    assert request.target_new == RECORD["answer"]
    assert [(p.role, p.query, dict(p.tags)) for p in good.probes] == [
        ("efficacy", Generate(RECORD["question"], 15), {}),
        ("paraphrase", Generate("Ada is what?", 15), {}),
        ("sub-question", Generate("Where does Ada live?", 4), {"reference": "In Oslo."}),
    ]
    assert "1 questions, `$.sub_answer` 0 answers" in bad.problem
    (short, *_), *_ = (each.probes for each in Unke(store(RECORD)).cases())
    assert short.query.max_new_tokens == 16


def test_the_sample_is_what_its_build_makes():
    made = build_paragraphs(load_world(), random.Random(SHIPPED_SEED + 16))
    text = (FILES / "unke.json").read_text(encoding="utf-8")
    assert json.dumps(made, ensure_ascii=False, separators=(",", ":")) == text


def test_windows_write_paragraphs_that_other_editors_refuse(tmp_path):
    fields = {"window": 8, "clamp": 6.0, "weight_decay": 0.0}
    run = eh.evaluate("memit", "unke", "pocket", limit=4, output=tmp_path, editor_args=fields)
    for name in ("ERL", "QRL"):
        assert run[name].value > run.estimates[f"pre_{name}"].value + 0.1
    with pytest.raises(UsageError, match="memit needs a subject in each request; 4 of 4"):
        eh.evaluate("memit", "unke", "pocket", limit=4, output=tmp_path)
