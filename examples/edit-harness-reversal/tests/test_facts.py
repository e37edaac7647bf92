"""What is asked about a fact, and what is said of a file that is not right."""

import json

import pytest
from edit_harness import Choose, DataError, Probe, Request

from edit_harness_reversal.task import Reversal

FACT = {
    "id": "France - Rome",
    "prompt": "The capital of {} is",
    "subject": "France",
    "target_new": "Rome",
    "target_true": "Paris",
    "inverse": "The city of {} is the capital of",
    "former": "Italy",
    "paraphrases": ["In {}, the capital is"],
    "neighbors": {"Spain": "Madrid"},
}


def task(folder, *lines):
    path = folder / "own.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Reversal(data=str(path))


def test_a_fact_is_asked_for_in_both_directions(tmp_path):
    (case,) = task(tmp_path, json.dumps(FACT)).cases()
    assert case.requests == (Request("The capital of {} is", "France", "Rome", "Paris"),)
    assert case.probes == (
        Probe("efficacy", Choose("The capital of France is", ("Rome", "Paris"))),
        Probe("paraphrase", Choose("In France, the capital is", ("Rome", "Paris"))),
        Probe("neighborhood", Choose("The capital of Spain is", ("Rome", "Madrid"))),
        Probe("reversed", Choose("The city of Rome is the capital of", ("France", "Italy"))),
    )


def test_paraphrases_and_neighbors_may_be_left_out(tmp_path):
    fact = {name: FACT[name] for name in FACT if name not in ("paraphrases", "neighbors")}
    (case,) = task(tmp_path, json.dumps(fact)).cases()
    assert [probe.role for probe in case.probes] == ["efficacy", "reversed"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"subject": 3}, "subject is not a text"),
        ({"former": " "}, "former is not a text"),
        ({"inverse": "The capital of"}, "'The capital of' has not exactly one place {}"),
        ({"paraphrases": ["{} and {}"]}, "'{} and {}' has not exactly one place {}"),
        ({"paraphrases": "In {}"}, "paraphrases is not a list of texts"),
        ({"neighbors": ["Spain"]}, "neighbors is not an object of texts"),
        ({"neighbor": {}}, "there is no field 'neighbor'"),
        (
            {"target_new": "Paris"},
            "target_new and target_true are both 'Paris', so there is nothing to compare",
        ),
        (
            {"former": "France"},
            "subject and former are both 'France', so there is nothing to compare",
        ),
        ({"id": "first"}, "the id 'first' is in use already"),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(tmp_path, change, problem):
    bad = task(tmp_path, json.dumps({**FACT, "id": "first"}), "", json.dumps({**FACT, **change}))
    with pytest.raises(DataError) as error:
        list(bad.cases())
    assert error.value.cause == f"{bad.data}:3: {problem}"
    assert error.value.remedy == "the format is described in the README of edit-harness-reversal"


@pytest.mark.parametrize("line", ["{", "[1]", '"text"'])
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    bad = task(tmp_path, line)
    with pytest.raises(DataError) as error:
        list(bad.cases())
    assert error.value.cause == f"{bad.data}:1: the line is no JSON object"


def test_a_file_without_facts_is_named(tmp_path):
    with pytest.raises(DataError, match=r"own\.jsonl has no facts"):
        list(task(tmp_path).cases())


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.jsonl cannot be read: .*No such file"):
        list(Reversal(data=str(tmp_path / "nowhere.jsonl")).cases())


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "own.jsonl").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"own\.jsonl cannot be read: .*utf-8"):
        list(Reversal(data=str(tmp_path / "own.jsonl")).cases())
