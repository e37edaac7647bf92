import hashlib
import json
from dataclasses import replace

import pytest
import torch
from support.builders import question

import edit_harness as eh
from edit_harness import Case, Choose, DataError, ModelSource
from edit_harness.edits import UNEDITED
from edit_harness.testing import tiny_model
from edit_harness_plugins.tasks.zsre import AUTHORS, ZsRE, ZsREAlternative

FAMILIES = ("gpt2", "llama", "qwen2", "gptj")


@pytest.fixture
def store(tmp_path):
    def write(*records, name="zsre.json"):
        path = tmp_path / name
        path.write_text(json.dumps(records), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def download(tmp_path, monkeypatch):
    """Put a file into the cache as if it had been downloaded."""
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(ZsRE, "published", replace(AUTHORS, records=2))

    def put(*records):
        text = json.dumps(records)
        (tmp_path / "zsre_mend_eval.json").write_text(text, encoding="utf-8")
        return hashlib.sha256(text.encode()).hexdigest()

    return put


def complaint(task):
    with pytest.raises(DataError) as caught:
        list(task.cases())
    return caught.value


@pytest.mark.parametrize(
    ("kind", "new", "true"), [(ZsRE, "Rome", ""), (ZsREAlternative, "Paris", "Rome")]
)
def test_a_record_becomes_a_case(store, kind, new, true):
    (case,) = kind(store(question())).cases()
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
    (case,) = ZsREAlternative(store(question(alt=" Paris ", answers=["Rome "]))).cases()
    assert (case.requests[0].target_new, case.requests[0].target_true) == ("Paris", "Rome")
    assert case.probes[0].query.candidates == ("Paris",)


def test_a_subject_that_comes_twice_is_cut_out_once(store):
    (case,) = ZsRE(store(question(src="Is Ada the Ada of Rome?"))).cases()
    assert case.requests[0].prompt == "Is {} the Ada of Rome?"
    assert case.requests[0].text == "Is Ada the Ada of Rome?"


def test_records_without_another_answer_are_left_out_and_counted(store):
    bare = {k: v for k, v in question().items() if k != "alt"}
    file = store(question(), question(alt=" "), bare, question(alt="Oslo"), question(alt=None))
    task = ZsREAlternative(file)
    assert [case.id for case in task.cases()] == ["0", "3"]
    assert task.notes == ("3 of 5 records have no alternative answer and are left out",)
    assert [case.id for case in ZsRE(file).cases()] == ["0", "1", "2", "3", "4"]
    assert ZsRE(file).notes == ZsREAlternative(store(question())).notes == ()


def test_a_file_without_any_other_answer_is_an_error(store):
    with pytest.raises(DataError, match="none of 2 records has an alternative answer"):
        list(ZsREAlternative(store(question(alt=""), question(alt=None))).cases())


OF_CONTENT = {
    "src 'Where does Bo live?' does not have the subject 'Ada' in it": {
        "src": "Where does Bo live?"
    },
    "src has a '{}' of its own, which stands for the subject": {"src": "{} of Ada?"},
    "`$.rephrase` is empty": {"rephrase": " "},
    "`$.answers` is empty": {"answers": []},
    "`$.answers[0]` is empty": {"answers": [""]},
    "`$.loc_ans` has half of a surrogate pair": {"loc_ans": "\ud800"},
}
"""What is wrong with records that are of no use, in files that are."""


@pytest.mark.parametrize("kind", [ZsRE, ZsREAlternative])
@pytest.mark.parametrize("fields", [{"rephrase": 1}, {"answers": "Rome"}, {"alt": ["Paris"]}])
def test_a_record_that_is_not_of_the_layout_is_named(store, kind, fields):
    file = store(question(), question(**fields))
    (name,) = fields
    cause = complaint(kind(file)).cause
    assert cause.startswith(f"{file}: record 2: Expected")
    assert f"`$.{name}`" in cause


@pytest.mark.parametrize("kind", [ZsRE, ZsREAlternative])
@pytest.mark.parametrize("problem", OF_CONTENT)
def test_a_record_of_no_use_is_a_case_that_says_why(store, kind, problem):
    good = question()
    first, bad, last = kind(store(good, question(**OF_CONTENT[problem]), good)).cases()
    assert bad == Case("1", (), (), problem=f"zsre.json: record 2: {problem}")
    alone = list(kind(store(good, good, good, name="right.json")).cases())
    assert [first, last] == [alone[0], alone[2]]


def test_a_record_of_no_use_without_another_answer_is_left_out(store):
    task = ZsREAlternative(store(question(), question(subject="", alt="")))
    assert [case.id for case in task.cases()] == ["0"]
    assert task.notes == ("1 of 2 records have no alternative answer and are left out",)


def test_another_answer_of_no_use_is_told_where_it_is_written(store):
    file = store(question(), question(alt="\ud800"))
    _, bad = ZsREAlternative(file).cases()
    assert bad.problem.endswith("record 2: `$.alt` has half of a surrogate pair")
    assert [case.problem for case in ZsRE(file).cases()] == ["", ""]


def test_the_sample_of_the_model_is_used_unless_the_user_says_otherwise(store):
    source = ModelSource("m", data={"zsre": store(question()), "counterfact": "other.json"})
    for kind in (ZsRE, ZsREAlternative):
        bound = kind().bind(source)
        assert isinstance(bound, kind)
        assert (bound.data, bound.origin) == (source.data["zsre"], "bundled sample")
    assert ZsRE().bind(ModelSource("m")).origin == "authors' file"


def test_the_checksum_of_a_download_is_noted_since_none_is_known(download):
    got = download(question(), question(alt=""))
    (note,) = ZsRE("download").notes
    assert f"got sha256 {got}" in note
    assert ZsREAlternative("download").notes == (
        note,
        "1 of 2 records have no alternative answer and are left out",
    )


def test_a_download_that_is_not_right_is_moved_aside_with_its_checksum(download, tmp_path):
    got = download(question(), question(loc=None))
    error = complaint(ZsRE("download"))
    assert error.cause.endswith(f"got `null` - at `$.loc` (sha256 {got})")
    assert "zsre_mend_eval.json.bad: try again" in error.remedy
    assert not (tmp_path / "zsre_mend_eval.json").exists()
    download(question())
    assert "has 1 records, not 2" in complaint(ZsRE("download")).cause


def test_the_genuine_records(zsre_600):
    raw = json.loads(zsre_600.read_text(encoding="utf-8"))
    cases = list(ZsRE(str(zsre_600)).cases())
    assert len(cases) == len(raw) == 600
    for case, record in zip(cases, raw, strict=True):
        assert case.requests[0].text == record["src"]
        assert case.requests[0].target_new == record["answers"][0]
    other = ZsREAlternative(str(zsre_600))
    written = {case.id: case.requests[0].target_new for case in other.cases()}
    assert written == {str(i): r["alt"].strip() for i, r in enumerate(raw) if r["alt"]}
    assert other.notes == ("1 of 600 records have no alternative answer and are left out",)


def next_token(model, ids):
    """Return what the model says next, from a plain forward pass."""
    with torch.no_grad():
        return model.module(torch.tensor([ids])).logits[0, -1]


@pytest.mark.parametrize("family", FAMILIES)
def test_one_pass_over_an_answer_is_as_asking_for_token_after_token(family, zsre_600):
    """The published code asks so: the prompt and the right tokens so far, then what comes next."""
    model = tiny_model(family)
    cases = list(ZsRE(str(zsre_600)).cases())[:12]
    queries = [probe.query for case in cases for probe in case.probes]
    answers = model.answer([(UNEDITED, query) for query in queries])
    for query, answer in zip(queries, answers, strict=True):
        parts = model.tokens.split(query.prompt, query.candidates[0])
        assert answer.tokens == (parts.target,)
        for i, said in enumerate(answer.argmax[0]):
            logits = next_token(model, parts.prompt + parts.target[:i])
            # Two tokens may be as likely as each other but for rounding.
            assert logits[said] >= logits.max() - 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_from_file_to_numbers(family, zsre_600, tmp_path):
    """The numbers of a run are those that are counted by hand, token after token."""
    model = tiny_model(family)
    task = ZsRE(str(zsre_600))
    run = eh.evaluate("prompt", task, model, limit=6, output=tmp_path)
    shares = {"ET": [], "PT": [], "NT": [], "NU": []}
    for case in list(task.cases())[:6]:
        prefix = eh.edit(model, "prompt", case.requests).prefix
        for name, probe in zip(("ET", "PT", "NT"), case.probes, strict=True):
            before, after = (
                model.tokens.split(start + probe.query.prompt, probe.query.candidates[0])
                for start in ("", prefix)
            )
            said = [
                [
                    int(next_token(model, p.prompt + p.target[:i]).argmax())
                    for i in range(len(p.target))
                ]
                for p in (before, after)
            ]
            size = len(after.target)
            hits = sum(a == b for a, b in zip(after.target, said[1], strict=True))
            shares[name].append(hits / size)
            if name == "NT":
                same = sum(a == b for a, b in zip(*said, strict=True))
                shares["NU"].append(same / size)
    assert sum(shares["NU"]) > 0
    for name, values in shares.items():
        # Means of the same fractions, in another order of summation.
        assert run[name].value == pytest.approx(sum(values) / len(values), rel=1e-12), name
