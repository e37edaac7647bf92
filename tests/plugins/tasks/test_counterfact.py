import dataclasses
import hashlib
import json
import time
from pathlib import Path

import pytest
from support.builders import record

from edit_harness import Case, Choose, DataError, Drift, ModelSource
from edit_harness_plugins.downloads import fetch as real_fetch
from edit_harness_plugins.tasks._files import published
from edit_harness_plugins.tasks.counterfact.counterfact import AUTHORS, CounterFact, CounterFactPlus


@pytest.fixture
def store(tmp_path):
    def write(data, name="facts.json", **layout):
        path = tmp_path / name
        text = data if isinstance(data, str) else json.dumps(data, **layout)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def download(tmp_path, monkeypatch):
    """Put a file into the cache as if it had been downloaded."""
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    authors_are(monkeypatch, records=2)

    def put(text):
        (tmp_path / "counterfact.json").write_text(text, encoding="utf-8")
        return hashlib.sha256(text.encode()).hexdigest()

    return put


def authors_are(monkeypatch, **known):
    """Change what is known of the authors' file."""
    changed = dataclasses.replace(CounterFact.published, **known)
    monkeypatch.setattr(CounterFact, "published", changed)


def prompts(case, role, kind):
    return [p.query.prompt for p in case.probes if p.role == role and isinstance(p.query, kind)]


def complaint(task):
    with pytest.raises(DataError) as caught:
        list(task.cases())
    return caught.value


def test_a_record_becomes_a_case(store):
    (case,) = CounterFact(str(store([record(7)]))).cases()
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


def test_plus_puts_the_edited_fact_in_front_of_the_neighbours(store):
    darrieux = record(
        prompt="The mother tongue of {} is",
        subject="Danielle Darrieux",
        target_new={"str": "English"},
        target_true={"str": "French"},
    )
    path = str(store([darrieux]))
    (plain,), (plus,) = CounterFact(path).cases(), CounterFactPlus(path).cases()
    expected = [
        f"The mother tongue of Danielle Darrieux is English. {prompt}"
        for prompt in darrieux["neighborhood_prompts"]
    ]
    assert prompts(plus, "neighborhood-plus", Choose) == expected
    assert prompts(plus, "neighborhood-plus", Drift) == expected
    assert plus.probes[: len(plain.probes)] == plain.probes
    assert len(plus.probes) == len(plain.probes) + 20


def test_texts_never_go_through_format(store):
    odd = record(prompt="{} lives in {0}%s{x", subject="A{d}a")
    (case,) = CounterFactPlus(str(store([odd]))).cases()
    assert case.requests[0].text == "A{d}a lives in {0}%s{x"


def test_cases_are_in_the_order_of_the_file_and_are_json(store):
    cases = list(CounterFactPlus(str(store([record(5), record(3), record("x")]))).cases())
    assert [case.id for case in cases] == ["5", "3", "x"]
    stored = json.loads(json.dumps(dataclasses.asdict(cases[0])))
    assert stored["id"] == "5"
    assert [p["query"]["prompt"] for p in stored["probes"]] == [
        p.query.prompt for p in cases[0].probes
    ]


def test_json_and_jsonl_hold_the_same_records(store):
    records = [record(i, subject=f"\u00dcnal {i}\u2028]") for i in range(3)]
    lines = "\n\n".join(json.dumps(r, ensure_ascii=False) for r in records) + "\r\n"
    texts = {"a.json": json.dumps(records, indent=4), "a.jsonl": lines,
             "bom.json": "\ufeff" + json.dumps(records)}  # fmt: skip
    first, *others = (list(CounterFact(str(store(t, name))).cases()) for name, t in texts.items())
    assert [case.requests[0].subject for case in first] == [
        f"\u00dcnal {i}\u2028]" for i in range(3)
    ]
    assert others == [first, first]


OF_CONTENT = {
    "`$.requested_rewrite.prompt` has 2 places '{}' for the subject, expected 1": record(
        1, prompt="{} and {} live in"
    ),
    "`$.requested_rewrite.subject` is empty": record(1, subject=" "),
    "`$.requested_rewrite.target_true.str` has half of a surrogate pair": record(
        1, target_true={"str": "\ud800"}
    ),
    "`$.neighborhood_prompts` is empty": record(1) | {"neighborhood_prompts": []},
    "`$.neighborhood_prompts[1]` is empty": record(1)
    | {"neighborhood_prompts": ["Bo lives in", ""]},
}
"""What is wrong with records that are of no use, in files that are."""

OF_LAYOUT = {
    "Expected `object`, got `str` - at `$.requested_rewrite.target_new`": record(
        1, target_new="Paris"
    ),
    "Object missing required field `str` - at `$.requested_rewrite.target_new`": record(
        1, target_new={"id": "Q90"}
    ),
    "Object missing required field `paraphrase_prompts`": {
        k: v for k, v in record(1).items() if k != "paraphrase_prompts"
    },
    "Expected `str`, got `null` - at `$.attribute_prompts[0]`": record(1)
    | {"attribute_prompts": [None]},
    "Expected `int | str`, got `bool` - at `$.case_id`": record(True),
    "case_id 0 is also that of record 1": record(0),
}
"""What a file is refused for."""


@pytest.mark.parametrize("problem", OF_LAYOUT)
def test_a_field_that_is_not_of_the_layout_is_named_with_its_place(store, problem):
    path = store([record(0), OF_LAYOUT[problem]])
    assert complaint(CounterFact(str(path))).cause == f"{path}: record 2: {problem}"


@pytest.mark.parametrize("kind", [CounterFact, CounterFactPlus])
@pytest.mark.parametrize("problem", OF_CONTENT)
def test_a_record_of_no_use_is_a_case_that_says_why(store, kind, problem):
    records = [record(0), OF_CONTENT[problem], record(2)]
    first, bad, last = kind(str(store(records))).cases()
    assert bad == Case("1", (), (), problem=f"facts.json: record 2: {problem}")
    alone = kind(str(store([records[0], records[2]], "right.json"))).cases()
    assert [first, last] == list(alone)


def test_a_record_of_no_use_is_no_reason_to_forgive_another(store):
    records = [record(0), record(1, subject=""), record(2) | {"paraphrase_prompts": 1}]
    error = complaint(CounterFact(str(store(records))))
    assert "record 3: Expected `array`, got `int` - at `$.paraphrase_prompts`" in error.cause
    assert "record 2" not in error.cause


def test_all_that_is_wrong_with_a_record_is_told(store):
    records = [record(0), record(1, subject="", prompt="in")]
    _, bad = CounterFact(str(store(records))).cases()
    first, second = bad.problem.removeprefix("facts.json: record 2: ").split("; ")
    assert "subject` is empty" in first
    assert "prompt` has 0 places" in second


def test_every_so_manyth_record_is_counted_with_those_of_no_use(store):
    records = [record(i, subject="" if i == 2 else "Ada") for i in range(5)]
    cases = list(CounterFact(str(store(records)), generation=2).cases())
    asked = [any(p.role == "generation" for p in case.probes) for case in cases]
    assert asked == [True, False, False, False, True]


def test_what_is_optional_may_be_missing(store):
    few = record()
    del few["attribute_prompts"], few["generation_prompts"]
    del few["requested_rewrite"]["relation_id"]
    (case,) = CounterFact(str(store([few]))).cases()
    assert case.tags == {}
    assert "attribute" not in {probe.role for probe in case.probes}


def test_the_line_in_jsonl(store):
    path = store("\n".join(["", json.dumps(record()), "[]", ""]), "facts.jsonl")
    error = complaint(CounterFact(str(path)))
    assert error.cause == f"{path}: line 3, record 2: Expected `object`, got `array`"


def test_a_file_of_nothing_but_records_of_no_use(store):
    """Five problems are shown, and all are counted."""
    path = store([record(i, subject="") for i in range(7)])
    *problems, more = complaint(CounterFact(str(path))).cause.split("; ")
    assert len(problems) == 5
    assert more == "2 more"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1}', ": expected a list of records, got '{\"a\": 1}'"),
        ("", ":1: not JSON: Expecting value"),
        (" [ ]\n", ": there are no records"),
        ('[\n{"a": 1},\n{"b": "x', ":3: not JSON: Unterminated string starting at"),
    ],
)
def test_what_is_no_list_of_json(store, text, problem):
    path = store(text)
    assert complaint(CounterFact(str(path))).cause == f"{path}{problem}"


def test_a_line_that_is_no_json(store):
    path = store('{}\n{"a": \n', "facts.jsonl")
    assert complaint(CounterFact(str(path))).cause == f"{path}:2: not JSON: Expecting value"


def test_a_file_that_is_no_text(store):
    path = store("")
    path.write_bytes(b"[\xff\xfe")
    assert complaint(CounterFact(str(path))).cause.startswith(f"{path} is not UTF-8 text")


def test_a_file_that_is_not_there(tmp_path):
    error = complaint(CounterFact(str(tmp_path / "no.json")))
    assert error.cause == f"there is no file {str(tmp_path / 'no.json')!r}"


def test_the_sample_of_the_model_is_used_unless_the_user_says_otherwise(store):
    sample = str(store([record()]))
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


def test_a_download_that_is_right_but_not_the_known_file_is_noted(download):
    got = download(json.dumps([record(0), record(1)]))
    task = CounterFact("download")
    assert len(list(task.cases())) == 2
    (note,) = task.notes
    assert AUTHORS.sha256 in note
    assert got in note


def test_the_known_file_needs_no_note(download, monkeypatch):
    got = download(json.dumps([record(0), record(1)]))
    authors_are(monkeypatch, sha256=got)
    assert CounterFact("download").notes == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (json.dumps([record()]), "has 1 records, not 2"),
        (json.dumps([record(0), record(1)])[:-40], "not JSON"),
        (json.dumps([record(0), record(0)]), "case_id 0 is also that of record 1"),
    ],
)
def test_a_download_that_is_not_right_is_moved_aside(download, tmp_path, text, problem):
    got = download(text)
    error = complaint(CounterFact("download"))
    assert problem in error.cause
    assert f"expected sha256 {AUTHORS.sha256}, got {got}" in error.cause
    assert str(tmp_path / "counterfact.json.bad") in error.remedy
    assert not (tmp_path / "counterfact.json").exists()


def test_offline_without_the_file(download, monkeypatch):
    asked = []
    monkeypatch.setattr(published, "fetch", lambda r: (asked.append(r), real_fetch(r))[1])
    error = complaint(CounterFact())
    assert error.cause.startswith("counterfact.json is not in the cache, and HF_HUB_OFFLINE=1")
    assert "https://rome.baulab.info/data/dsets/counterfact.json" in error.remedy
    assert asked[0].urls[1] == "https://memit.baulab.info/data/dsets/counterfact.json"


def test_a_file_of_the_full_size_is_read_in_seconds(store):
    one = json.dumps(record(), indent=4)
    many = ",\n".join(one.replace('"case_id": 0', f'"case_id": {i}') for i in range(21_919))
    path = store(f"[\n{many}\n]")
    started = time.process_time()
    next(iter(CounterFact(str(path)).cases()))
    assert time.process_time() - started < 10


def test_the_genuine_records(counterfact_300):
    raw = json.loads(counterfact_300.read_text(encoding="utf-8"))
    cases = list(CounterFactPlus(str(counterfact_300)).cases())
    assert [case.id for case in cases] == [str(r["case_id"]) for r in raw]
    for case, source in zip(cases, raw, strict=True):
        rewrite = source["requested_rewrite"]
        near = source["neighborhood_prompts"]
        sentence = rewrite["prompt"].format(rewrite["subject"]) + " " + rewrite["target_new"]["str"]
        assert case.tags == {"relation": rewrite["relation_id"]}
        assert prompts(case, "paraphrase", Choose) == source["paraphrase_prompts"]
        assert prompts(case, "neighborhood", Drift) == near
        assert prompts(case, "neighborhood-plus", Choose) == [f"{sentence}. {p}" for p in near]
        assert len(case.probes) == 1 + 2 + 10 + 10 + 10 + 20
