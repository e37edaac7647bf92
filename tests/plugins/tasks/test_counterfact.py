"""CounterFact: records to cases, counts of both; and files of records, which the other tasks read alike."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders import flat, record
from support.complaints import complaint

from edit_harness import Case, Choose, Drift, ModelSource, Probe, Request
from edit_harness_plugins.composition import of_cases
from edit_harness_plugins.tasks.counterfact.counterfact import (
    AUTHORS,
    MULTI,
    TITLE,
    CounterFact,
    CounterFactPlus,
    table,
)
from edit_harness_plugins.tasks.mquake import MQuAKE
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits
from edit_harness_plugins.tasks.zsre import ZsRE, ZsREAlternative


def prompts(case, role, kind):
    return [p.query.prompt for p in case.probes if p.role == role and isinstance(p.query, kind)]


def test_a_record_becomes_a_case(store):
    (case,) = CounterFact(store(record(7))).cases()
    assert case.id == "7"
    assert case.tags == {"relation": "P551"}
    (request,) = case.requests
    assert (request.text, request.target_new, request.target_true) == (
        "Ada lives in", "Paris", "Rome",
    )  # fmt: skip
    near = [f"Neighbour {i} lives in" for i in range(10)]
    assert prompts(case, "efficacy", Choose) == ["Ada lives in"]
    assert prompts(case, "paraphrase", Choose) == record()["paraphrase_prompts"]
    assert prompts(case, "neighborhood", Choose) == near
    assert prompts(case, "neighborhood", Drift) == near
    assert prompts(case, "attribute", Choose) == ["Marie lives in"]
    assert len(case.probes) == 24
    candidates = {p.query.candidates for p in case.probes if isinstance(p.query, Choose)}
    assert candidates == {("Paris", "Rome")}


def test_a_record_of_easyedit_becomes_a_case_with_one_prompt_for_each_list(store):
    near, objects = "Neighbour 0 lives in", ("Paris", "Oslo")
    task = CounterFactPlus(store(flat(record(7), locality_ground_truth="Oslo")), generation=1)
    (case,) = task.cases()
    (request,) = case.requests
    assert (case.id, request) == ("7", Request("{} lives in", "Ada", "Paris", "Rome"))
    told = f"Ada lives in Paris. {near}"
    assert case.probes == (
        Probe("efficacy", Choose("Ada lives in", ("Paris", "Rome"))),
        Probe("paraphrase", Choose("It rains. Ada dwells in", ("Paris", "Rome"))),
        Probe("neighborhood", Choose(near, objects)),
        Probe("neighborhood", Drift(near)),
        Probe("neighborhood-plus", Choose(told, objects)),
        Probe("neighborhood-plus", Drift(told)),
    )
    assert "one rephrasing and one neighbour" in task.notes[0]
    assert CounterFact(store(record())).notes == ()


def test_plus_puts_the_edited_fact_in_front_of_the_neighbours(store):
    """And no text goes through format on the way."""
    odd = record(prompt="{} lives in {0}%s{x", subject="A{d}a")
    path = store(odd)
    (plain,), (plus,) = CounterFact(path).cases(), CounterFactPlus(path).cases()
    assert plain.requests[0].text == "A{d}a lives in {0}%s{x"
    expected = [
        f"A{{d}}a lives in {{0}}%s{{x Paris. {prompt}" for prompt in odd["neighborhood_prompts"]
    ]
    assert prompts(plus, "neighborhood-plus", Choose) == expected
    assert prompts(plus, "neighborhood-plus", Drift) == expected
    assert plus.probes[: len(plain.probes)] == plain.probes
    assert len(plus.probes) == len(plain.probes) + 20


def test_json_and_jsonl_hold_the_same_records_in_the_order_of_the_file(store):
    records = [record(i, subject=f"\u00dcnal {i}\u2028]") for i in (5, 3, "x")]
    lines = "\n\n".join(json.dumps(r, ensure_ascii=False) for r in records) + "\r\n"
    texts = {"a.json": json.dumps(records, indent=4), "a.jsonl": lines,
             "bom.json": "\ufeff" + json.dumps(records)}  # fmt: skip
    first, *others = (list(CounterFact(store(name=n, text=t)).cases()) for n, t in texts.items())
    assert [(case.id, case.requests[0].subject) for case in first] == [
        (i, f"\u00dcnal {i}\u2028]") for i in ("5", "3", "x")
    ]
    assert others == [first, first]


OF_CONTENT = {
    "`$.requested_rewrite.subject` is empty; `$.requested_rewrite.prompt` has 0 places '{}' for "
    "the subject, expected 1": record(1, subject=" ", prompt="in"),
    "`$.requested_rewrite.target_true.str` has half of a surrogate pair":
        record(1, target_true={"str": "\ud800"}),
    "`$.neighborhood_prompts` is empty": record(1) | {"neighborhood_prompts": []},
    # In EasyEdit's layout.
    "prompt 'Ada lives in' does not have the subject 'Bo' in it": flat(record(1), subject="Bo"),
    "prompt has a '{}' of its own, which stands for the subject": flat(record(1), prompt="Ada {} in"),
    "target_new is the true value 'Paris', so nothing is edited": flat(record(1), ground_truth=" Paris"),
    "the true object of the neighbours is the new one, 'Paris'":
        flat(record(1), locality_ground_truth="Paris "),
    "`$.rephrase_prompt` is empty": flat(record(1), rephrase_prompt=""),
}  # fmt: skip
"""What is wrong with records that are of no use, in files that are."""

OF_LAYOUT = {
    "Expected `object`, got `str` - at `$.requested_rewrite.target_new`": record(1, target_new="Paris"),
    "Object missing required field `str` - at `$.requested_rewrite.target_new`":
        record(1, target_new={"id": "Q90"}),
    "case_id 0 is also that of record 1": record(0),
}  # fmt: skip
"""What a file is refused for."""


@pytest.mark.parametrize("problem", OF_LAYOUT)
def test_a_field_that_is_not_of_the_layout_is_named_with_its_place(store, problem):
    """Whatever records of no use there are besides."""
    path = store(record(0), OF_LAYOUT[problem], record(2, subject=""))
    assert complaint(CounterFact(path)).cause == f"{path}: record 2: {problem}"


@pytest.mark.parametrize("problem", OF_CONTENT)
def test_a_record_of_no_use_is_a_case_that_says_why(store, problem):
    records = [record(0), OF_CONTENT[problem], record(2)]
    first, bad, last = CounterFactPlus(store(*records)).cases()
    assert bad == Case("1", (), (), problem=f"facts.json: record 2: {problem}")
    alone = CounterFactPlus(store(records[0], records[2], name="right.json")).cases()
    assert [first, last] == list(alone)


def test_what_is_optional_may_be_missing_and_a_file_may_not_be_all_of_no_use(store):
    few = record()
    del few["attribute_prompts"], few["generation_prompts"]
    del few["requested_rewrite"]["relation_id"]
    (case,) = CounterFact(store(few), generation=1).cases()
    assert case.tags == {}
    assert not {"attribute", "generation"} & {probe.role for probe in case.probes}
    # Five problems are shown, and all are counted.
    path = store(*(record(i, subject="") for i in range(7)))
    *problems, more = complaint(CounterFact(path)).cause.split("; ")
    assert len(problems) == 5
    assert more == "2 more"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", '{"a": 1}', ": expected a list of records, got '{\"a\": 1}'"),
        ("a.json", " [ ]\n", ": there are no records"),
        ("a.json", '[\n{"a": 1},\n{"b": "x', ":3: not JSON: Unterminated string starting at"),
        ("a.json", b"[\xff\xfe", " is not UTF-8 text"),
        ("a.jsonl", f"\n{json.dumps(record())}\n[]\n",
         ": line 3, record 2: Expected `object`, got `array`"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_records(store, name, text, problem):
    path = store(name=name, text=text)
    assert complaint(CounterFact(path)).cause.startswith(f"{path}{problem}")


def test_the_sample_of_the_model_is_used_unless_the_user_says_otherwise(store):
    sample = store(record())
    source = ModelSource("m", data={"counterfact": sample})
    bound = CounterFactPlus().bind(source)
    assert isinstance(bound, CounterFactPlus)
    assert (bound.data, bound.origin, bound.notes) == (sample, "bundled sample", ())
    assert bound.digest == hashlib.sha256(Path(sample).read_bytes()).hexdigest()
    assert CounterFact().bind(ModelSource("m")).data == "download"
    assert CounterFact().bind(ModelSource("m")).origin == "authors' file"
    own = CounterFact("own.json").bind(source)
    assert (own.data, own.origin) == ("own.json", "own.json")
    assert CounterFact("download").bind(source).data == "download"


def test_a_download_that_is_not_the_known_file_is_noted(download, monkeypatch):
    got = download(CounterFact, record(0), record(1))
    task = CounterFact("download")
    assert len(list(task.cases())) == 2
    (note,) = task.notes
    assert f"expected sha256 {AUTHORS.sha256}" in note
    assert f"got sha256 {got}" in note
    monkeypatch.setattr(CounterFact, "published", replace(CounterFact.published, sha256=got))
    assert task.notes == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (json.dumps([record()]), "has 1 records, not 2"),
        (json.dumps([record(0), record(1)])[:-40], "not JSON"),
    ],
)
def test_a_download_that_is_not_right_is_moved_aside(download, tmp_path, text, problem):
    got = download(CounterFact, text=text)
    error = complaint(CounterFact("download"))
    assert problem in error.cause
    assert f"expected sha256 {AUTHORS.sha256}, got {got}" in error.cause
    assert str(tmp_path / "counterfact.json.bad") in error.remedy
    assert not (tmp_path / "counterfact.json").exists()


def test_the_genuine_records_are_asked_alike_in_both_layouts(store, counterfact_300):
    whole = {case.id: case for case in CounterFact(str(counterfact_300)).cases()}
    records = json.loads(counterfact_300.read_text(encoding="utf-8"))
    for case in CounterFact(store(*map(flat, records))).cases():
        assert (case.requests, len(case.probes)) == (whole[case.id].requests, 4)
        assert all(probe in whole[case.id].probes for probe in case.probes)


@pytest.mark.parametrize("task", [CounterFact, ZsRE, ZsREAlternative, MQuAKE, RippleEdits])
@pytest.mark.parametrize(
    ("value", "has"), [({"name": "Ada"}, "has name"), (5, "is 5"), ({"k" * 999: 1}, "has [...]")]
)
def test_a_file_of_another_layout_is_one_message(store, task, value, has):
    said = f"{(path := store(*[value] * 7))}: none of 7 records has the fields that this task reads; record 1 {has}"
    assert complaint(task(path)).cause == said


def test_genuine_files_of_other_tasks_are_one_message(counterfact_300, zsre_600):
    """With the fields of every layout that is read."""
    zsre = complaint(CounterFactPlus(str(zsre_600)))
    assert zsre.cause.endswith("has subject, src, pred, rephrase, alt, answers, loc, loc_ans, cond")
    assert "paraphrase_prompts, neighborhood_prompts; or case_id, prompt, subject" in zsre.remedy
    for task in (ZsRE, MQuAKE, RippleEdits):
        assert "none of 300 records" in complaint(task(str(counterfact_300))).cause


def test_the_field_that_a_record_lacks_is_that_of_the_layout_it_is_nearest_to(
    store, counterfact_300
):
    first, second = map(flat, json.loads(counterfact_300.read_text(encoding="utf-8"))[:2])
    del second["locality_prompt"]
    assert (
        "record 2: Object missing required field `locality_prompt`"
        in complaint(CounterFact(store(first, second))).cause
    )
    assert "record 1 lacks locality_prompt; it has" in complaint(CounterFact(store(second))).cause
    half = {name: first[name] for name in ("case_id", "prompt", "subject", "target_new")}
    assert "record 1 lacks ground_truth, " in complaint(CounterFact(store(half))).cause


def test_memits_file_without_conflicts_is_had_by_name(store, tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    task, home = CounterFactPlus("multi_counterfact"), "baulab.info/data/dsets/"
    for own, address in (
        (CounterFact(), "rome.{}counterfact.json"),
        (task, "memit.{}multi_counterfact.json"),
    ):
        error = complaint(own)
        assert "counterfact.json is not in the cache, and HF_HUB_OFFLINE=1" in error.cause
        assert f"https://{address.format(home)}" in error.remedy
    assert "20,877 with data=multi_counterfact" in task.dataset()["records"]
    monkeypatch.setitem(CounterFact.further, MULTI.title, replace(MULTI, records=2))
    store(record(0), record(1), name=MULTI.remote.name)
    assert [case.id for case in task.cases()] == ["0", "1"]
    assert task.origin == "authors' multi_counterfact"
    assert task.notes[0].startswith("no checksum of multi_counterfact is known; got sha256")
    store(record(0), name=MULTI.remote.name)
    assert "has 1 records, not 2" in complaint(task).cause


def rows(found):
    return {row.pop(""): tuple(row.values()) for row in map(dict, found)}


def test_counterfact_as_in_its_paper(store):
    """Counted by hand: totals of different texts, and means over relations and records."""
    records = [
        record(0, subject="Ada"),
        record(1, subject="ADA") | {"neighborhood_prompts": ["Bob lives in", "Bob lives in"]},
        record(2, subject="Bob", relation_id="P19", target_new={"str": "Oslo", "id": "Q585"}),
        record(3, subject=""),
    ]
    task = CounterFact(store(*records))
    found = task.composition()
    assert rows(found[TITLE]) == {
        "records": (3, 1.5, 1),
        "subjects": (2, 1, 1),
        "objects (new)": (2, 1, 1),
        "counterfactual statements": (3, 1.5, 1),
        "paraphrase prompts": (2, 2, 2),
        "neighborhood prompts": (11, 10.5, 7),
        "generation prompts": (1, 1, 1),
    }
    (asked,) = of_cases(task.cases()).values()
    assert [*found.values()][1:] == [asked]
    assert rows(asked) == {
        "cases": (3, 3, 1),
        "of no use": (1, 1),
        "subjects": (3, 3, 1),
        "new objects": (3, 2, 1),
        "requests": (3, 3, 1),
        "efficacy, Choose": (3, 3, 1),
        "paraphrase, Choose": (6, 2, 2),
        "neighborhood, Choose": (22, 11, 22 / 3),
        "neighborhood, Drift": (22, 11, 22 / 3),
        "attribute, Choose": (3, 1, 1),
    }
    bare = record()
    del bare["requested_rewrite"]["relation_id"], bare["generation_prompts"]
    found = rows(table([bare]))
    assert found["records"] == (1, None, 1), "without a relation there is no mean over relations"
    assert found["generation prompts"] == (0, None, 0)
