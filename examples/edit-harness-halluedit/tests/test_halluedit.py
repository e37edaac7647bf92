"""A row as it lies in the authors' files, what is said of others, and shares by hand."""

from dataclasses import replace

import pytest
from edit_harness import DataError, Request, Text, Verdict

from edit_harness_halluedit.metric import Corrected
from edit_harness_halluedit.task import HalluEdit

HEADER = (
    "topic,subject,relation,object,question,output_m,eval_m,multiple_choices,"
    "paraphrased_question,multiple_choice_with_letters,multiple_choice_labels,yes_question,"
    "no_question,locality_question,reversed_relation_question,question_2hop,answer_2hop,"
    "question_3hop,answer_3hop"
)
ROW = (
    "art,The Ant,maker,\"Ada, the Elder\",Who made The Ant?,Bob,0.0,\"['Bob', 'Ada']\",The Ant is"
    " by?,A. Bob  B. Ada,B,Did Ada make The Ant?,Did Bob make The Ant?,Where is The Ant?,What did"
    " Ada make?,Where was the maker of The Ant born?,Oslo,,"
)
ELSE = "art,Bee,maker,Ada,Who made it?" + "," * 14


def task(folder, *lines):
    path = folder / "art.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return HalluEdit(data=str(path))


def test_a_row_becomes_a_case(tmp_path):
    case, other = task(tmp_path, HEADER, ROW, ELSE).cases()
    assert case.requests == (Request("Who made {}?", "The Ant", "Ada, the Elder"),)
    assert [(p.role, p.query.prompt, p.key.right, p.key.about["how"]) for p in case.probes] == [
        ("efficacy", "Who made The Ant?", "Ada, the Elder", "within"),
        ("paraphrase", "The Ant is by?", "Ada, the Elder", "within"),
        ("yes", "Did Ada make The Ant?", "Yes", "within"),
        ("no", "Did Bob make The Ant?", "No", "within"),
        ("reversed", "What did Ada make?", "The Ant", "within"),
        ("hop-2", "Where was the maker of The Ant born?", "Oslo", "within"),
        ("choice", "Who made The Ant? A. Bob  B. Ada", "B", "sentence"),
        ("locality", "Where is The Ant?", "", "equal"),
    ]
    assert other.problem == "row 1: 'Who made it?' does not name 'Bee'"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [(["a,b", "1,2"], "no rows with topic, subject, object, question"), ([HEADER], "no rows with")],
)
def test_other_files_are_refused(tmp_path, lines, cause):
    with pytest.raises(DataError, match=cause):
        list(task(tmp_path, *lines).cases())


def test_shares_are_over_what_was_judged(tmp_path):
    case, _ = task(tmp_path, HEADER, ROW, ELSE).cases()
    scores = [1, 1, 1, 0, 0, 1, None, 1]
    told = [
        Text("?", Verdict("pending") if score is None else Verdict("decided", float(score)))
        for score in scores
    ]
    before = [*told[:-1], replace(told[-1], verdict=None)]
    values = Corrected().measure(case, before, told)
    assert {name: values[f"post_{name}"] for name in ("Eff", "Gen", "Port", "Loc")} == {
        "Eff": 1.0, "Gen": 0.5, "Port": 1.0, "Loc": 1.0,
    }  # fmt: skip
    assert values["post_Gen-no"] == 0
    assert "post_Gen-choice" not in values
    assert "pre_Loc" not in values
    assert set(Corrected().failed(case, []).values()) == {0.0}
