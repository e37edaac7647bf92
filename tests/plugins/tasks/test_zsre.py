import json

import pytest
import torch
from support.builders import question
from support.complaints import complaint

import edit_harness as eh
from edit_harness import Case, Choose, ModelSource
from edit_harness.testing import tiny_model
from edit_harness_plugins.tasks.zsre import ZsRE, ZsREAlternative


@pytest.mark.parametrize(
    ("kind", "new", "true"), [(ZsRE, "Rome", ""), (ZsREAlternative, "Paris", "Rome")]
)
def test_a_record_becomes_a_case(store, kind, new, true):
    """Whatever fields there are besides, as in EasyEdit's files."""
    besides = {"pred": "Oslo", "cond": "Oslo >> Paris", "portability": {"New Question": "Why?"}}
    (case,) = kind(store(question(**besides))).cases()
    assert case.id == "0"
    (request,) = case.requests
    assert request.prompt == "Where does {} live?"
    assert (request.text, request.target_new, request.target_true) == (
        "Where does Ada live?", new, true,
    )  # fmt: skip
    assert [(p.role, p.query) for p in case.probes] == [
        ("efficacy", Choose("Where does Ada live?", (new,))),
        ("paraphrase", Choose("In which city is the home of Ada?", (new,))),
        ("neighborhood", Choose("nq question: who wrote the tower?", ("Bob Fiat",))),
    ]


def test_an_answer_has_no_space_of_its_own(store):
    """As some alternative answers of the genuine records do."""
    twice = question(src="Is Ada the Ada of Rome?", alt=" Paris ", answers=["Rome "])
    (case,) = ZsREAlternative(store(twice)).cases()
    assert (case.requests[0].target_new, case.requests[0].target_true) == ("Paris", "Rome")
    assert case.probes[0].query.candidates == ("Paris",)
    assert case.requests[0].prompt == "Is {} the Ada of Rome?", "the subject is cut out once"


def test_records_without_another_answer_are_left_out_and_counted(store):
    """Of whatever use they are for the task that writes the true answer."""
    bare = {k: v for k, v in question().items() if k != "alt"}
    others = question(alt=" "), bare, question(subject="", alt="")
    file = store(question(), *others, question(alt="Oslo"), question(alt=None))
    task = ZsREAlternative(file)
    assert [case.id for case in task.cases()] == ["0", "4"]
    assert task.notes == ("4 of 6 records have no alternative answer and are left out",)
    assert [case.id for case in ZsRE(file).cases()] == ["0", "1", "2", "3", "4", "5"]
    assert ZsRE(file).notes == ZsREAlternative(store(question())).notes == ()
    none = ZsREAlternative(store(question(alt=""), question(alt=None)))
    assert "none of 2 records has an alternative answer" in complaint(none).cause


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"src": "Where does Bo live?"},
         "src 'Where does Bo live?' does not have the subject 'Ada' in it"),
        ({"src": "{} of Ada?"}, "src has a '{}' of its own, which stands for the subject"),
        ({"answers": []}, "`$.answers` is empty"),
        ({"alt": "\ud800"}, "`$.alt` has half of a surrogate pair"),
        ({"alt": " Roma"}, "alt is the true value 'Roma', so nothing is edited"),
    ],
)  # fmt: skip
def test_a_record_of_no_use_is_a_case_that_says_why(store, fields, problem):
    good = question()
    first, bad, last = ZsREAlternative(store(good, question(**fields), good)).cases()
    assert bad == Case("1", (), (), problem=f"facts.json: record 2: {problem}")
    alone = list(ZsREAlternative(store(good, good, good, name="right.json")).cases())
    assert [first, last] == [alone[0], alone[2]]


def test_the_checksum_of_a_download_is_noted_since_none_is_known(download):
    got = download(ZsRE, question(), question(alt=""))
    (note,) = ZsRE().bind(ModelSource("m", data={"counterfact": "other.json"})).notes
    assert f"got sha256 {got}" in note
    assert ZsREAlternative("download").notes == (
        note,
        "1 of 2 records have no alternative answer and are left out",
    )


def test_the_genuine_records(zsre_600):
    """Of 13 the alternative answer is the first true one, of 2 another true one."""
    raw = json.loads(zsre_600.read_text(encoding="utf-8"))
    other = ZsREAlternative(str(zsre_600))
    written = {c.id: "" if c.problem else c.requests[0].target_new for c in other.cases()}
    answers = [[each["alt"].strip(), each["answers"]] for each in raw]
    assert written == {
        str(i): "" if alt in true else alt for i, (alt, true) in enumerate(answers) if alt
    }
    assert sum(not answer for answer in written.values()) == 15
    assert other.notes == ("1 of 600 records have no alternative answer and are left out",)


def next_token(model, ids):
    """Return what the model says next, from a plain forward pass."""
    with torch.no_grad():
        return model.module(torch.tensor([ids])).logits[0, -1]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_numbers_of_a_run_are_those_of_asking_for_token_after_token(family, zsre_600, tmp_path):
    """The published code asks so: the prompt and the right tokens so far, then what comes next."""
    model = tiny_model(family)
    task = ZsRE(str(zsre_600))
    run = eh.evaluate("prompt", task, model, limit=3, output=tmp_path)
    shares = {"ET": [], "PT": [], "NT": [], "NU": []}
    for case in list(task.cases())[:3]:
        prefix = eh.edit(model, "prompt", case.requests).prefix
        for name, probe in zip(("ET", "PT", "NT"), case.probes, strict=True):
            said = []
            for start in ("", prefix):
                parts = model.tokens.split(start + probe.query.prompt, probe.query.candidates[0])
                right = parts.target
                given = [parts.prompt + right[:i] for i in range(len(right))]
                said.append([int(next_token(model, ids).argmax()) for ids in given])
            hits = sum(a == b for a, b in zip(right, said[1], strict=True))
            shares[name].append(hits / len(right))
            if name == "NT":
                same = sum(a == b for a, b in zip(*said, strict=True))
                shares["NU"].append(same / len(right))
    assert sum(shares["NU"]) > 0
    for name, values in shares.items():
        # Means of the same fractions, in another order of summation.
        assert run[name].value == pytest.approx(sum(values) / len(values), rel=1e-12), name
