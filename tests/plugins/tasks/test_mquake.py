"""MQuAKE: records to cases, what stands before questions, and the measures by hand."""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import DATA, scores

import edit_harness as eh
from edit_harness import Case, Choose, DataError, Key, ModelSource, Probe, Regime, Request, Text
from edit_harness.data import Verdict
from edit_harness.testing import tiny_model
from edit_harness_plugins.judges.match import Match
from edit_harness_plugins.metrics.verdicts.hops import MultiHop
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.tasks.mquake import MQuAKE
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits

EXACT = 1e-12
"""Means of a few shares in double precision."""


def instance(case_id=1, **fields):
    """Return a record as in MQuAKE-CF-3k-v2: Ada's home is moved, and its country is asked for."""
    hop = {"question": "Where does Ada live?", "cloze": "Ada lives in", "answer": "Rome"}
    last = {"question": "Which country is Rome in?", "cloze": "Rome is in", "answer": "Italy"}
    then = {"question": "Which country is Paris in?", "cloze": "Paris is in", "answer": "France"}
    record = {
        "case_id": case_id,
        "requested_rewrite": [edit()],
        "questions": [
            "In which country does Ada live?",
            "Ada's home is in?",
            "Which land is Ada's?",
        ],
        "answer": "Italy",
        "answer_alias": ["Italia"],
        "new_answer": "France",
        "new_answer_alias": ["la France"],
        "single_hops": [{**hop, "answer_alias": []}, {**last, "answer_alias": ["Italia"]}],
        "new_single_hops": [{**hop, "answer": "Paris", "answer_alias": []}, then],
        "orig": {
            "triples": [["Q1", "P551", "Q220"], ["Q220", "P17", "Q38"]],
            "new_triples": [["Q1", "P551", "Q90"], ["Q90", "P17", "Q142"]],
        },
    }
    return record | fields


def edit(**fields):
    return {
        "prompt": "{} lives in",
        "relation_id": "P551",
        "target_new": {"str": "Paris", "id": "Q90"},
        "target_true": {"str": "Rome", "id": "Q220"},
        "subject": "Ada",
        "question": "Where does Ada live?",
    } | fields


@pytest.fixture
def store(tmp_path):
    def write(*records, name="mquake.json"):
        path = tmp_path / name
        path.write_text(json.dumps(records), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def text(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def only(task):
    (case,) = task.cases()
    return case


def asked(case, role):
    return [(p.query, p.key) for p in case.probes if p.role == role]


# Records


def test_an_instance_becomes_a_case(store):
    case = only(MQuAKE(store(instance()), demonstrations="none"))
    assert case.id == "1"
    assert case.requests == (Request("{} lives in", "Ada", "Paris", "Rome"),)
    assert case.tags == {"hops": "2", "edits": "1"}
    roles = [probe.role for probe in case.probes]
    assert roles == ["efficacy"] + 2 * ["single-hop"] + 2 * ["old-single-hop"] + 3 * ["multi-hop"]
    assert case.probes[0].query == Choose("Ada lives in", ("Paris", "Rome"))
    (query, key), *_ = asked(case, "multi-hop")
    assert query.prompt == "In which country does Ada live?"
    assert (query.top_k, query.stop) == (1, "\n")
    about = {"aliases": ["la France"], "old_aliases": ["Italia"], "how": "sentence"}
    assert key == Key("match", "France", "Italy", about)
    assert [key.right for _, key in asked(case, "single-hop")] == ["Paris", "France"]
    assert [key.right for _, key in asked(case, "old-single-hop")] == ["Rome", "Italy"]
    assert asked(case, "old-single-hop")[1][1].about["aliases"] == ["Italia"]


def test_all_edits_of_an_instance_are_written_at_once(store):
    edits = [edit(), edit(subject="Rome", prompt="{} is in")]
    case = only(MQuAKE(store(instance(requested_rewrite=edits))))
    assert [request.subject for request in case.requests] == ["Ada", "Rome"]
    assert case.tags["edits"] == "2"
    assert MQuAKE.regime == Regime()


def test_old_answers_of_a_later_time_are_right_before_the_edit(store):
    case = only(MQuAKE(store(instance(answer_extended=["Italian Republic"]))))
    _, key = asked(case, "multi-hop")[0]
    assert key.about["old_aliases"] == ["Italia", "Italian Republic"]


OF_LAYOUT = [
    {"case_id": True},
    {"case_id": ""},
    {"orig": {"triples": [["Q1", "P551"]]}},
    {"answer": ...},
    {"new_answer_alias": None},
    {"new_single_hops": [{"question": "Where?"}]},
    {"requested_rewrite": [edit(target_new="Paris")]},
]
"""What a file is refused for."""
OF_CONTENT = {
    "requested_rewrite[0] changes nothing: the object is 'Rome' before and after": {
        "requested_rewrite": [edit(target_new={"str": "Rome"})]
    },
    "`$.questions` is empty": {"questions": []},
    "`$.new_answer` is empty": {"new_answer": " "},
    "`$.requested_rewrite` is empty": {"requested_rewrite": []},
    "`$.requested_rewrite[0].prompt` has 0 places '{}' for the subject, expected 1": {
        "requested_rewrite": [edit(prompt="Ada lives in")]
    },
}
"""What is wrong with records that are of no use, in files that are."""


def with_fields(fields):
    record = instance(2) | fields
    return {name: value for name, value in record.items() if value is not ...}


@pytest.mark.parametrize("fields", OF_LAYOUT)
def test_a_record_that_is_not_of_the_layout_is_named(store, fields):
    file = store(instance(), with_fields(fields))
    with pytest.raises(DataError) as caught:
        list(MQuAKE(file).cases())
    assert caught.value.cause.startswith(f"{file}: record 2: ")
    assert next(iter(fields)) in caught.value.cause


@pytest.mark.parametrize("problem", OF_CONTENT)
def test_a_record_of_no_use_is_a_case_that_says_why(store, problem):
    file = store(instance(), with_fields(OF_CONTENT[problem]))
    good, bad = MQuAKE(file).cases()
    assert not good.problem
    assert bad == Case("2", (), (), problem=f"mquake.json: record 2: {problem}")


def test_two_instances_with_one_id_are_refused(store):
    with pytest.raises(DataError, match="record 2: case_id 7 is also that of record 1"):
        list(MQuAKE(store(instance(7), instance(7))).cases())


def test_without_a_file_or_a_sample_it_says_where_the_file_is():
    task = MQuAKE().bind(ModelSource("gpt2"))
    with pytest.raises(DataError, match="is not downloaded") as caught:
        list(task.cases())
    assert "https://github.com/princeton-nlp/MQuAKE: --task-args data=FILE" in caught.value.remedy


def test_the_card_says_that_it_is_untried():
    said = MQuAKE.dataset()
    assert "untried on the genuine files" in said["sha256"]
    assert "3,000 in MQuAKE-CF-3k-v2.json" in said["records"]


# What stands before questions


def test_the_models_own_sample_is_asked_without_demonstrations(store):
    source = ModelSource("pocket", data={"mquake": store(instance())})
    own = MQuAKE().bind(source)
    assert (own.demonstrations, own.origin, own.notes) == ("none", "bundled sample", ())
    given = MQuAKE(store(instance(), name="other.json")).bind(source)
    assert (given.demonstrations, given.origin) == ("built-in", "other.json")
    assert "prompts=FILE" in given.notes[0]


def test_built_in_demonstrations_are_sixteen_and_ask_nothing_twice(store):
    query, key = asked(only(MQuAKE(store(instance()))), "multi-hop")[0]
    *before, last = query.prompt.split("\n")
    assert len(before) == len({line.partition(" A:")[0] for line in before}) == 16
    assert last == "Q: In which country does Ada live? A:"
    assert (query.stop, key.about["how"]) == ("\n", "equal")
    assert not any("Ada" in line for line in before)


def test_prompts_of_a_relation_stand_before_its_questions_only(store, text):
    prompts = text(json.dumps({"P17": "Q: Which country is Oslo in? A: Norway"}), "prompts.json")
    task = MQuAKE(store(instance()), demonstrations="none", prompts=prompts)
    (home, whole), (country, line) = asked(only(task), "single-hop")
    assert home.prompt == "Where does Ada live?"
    assert country.prompt == (
        "Q: Which country is Oslo in? A: Norway\nQ: Which country is Paris in? A:"
    )
    assert (whole.about["how"], line.about["how"]) == ("sentence", "equal")
    assert asked(only(task), "multi-hop")[0][0].prompt == "In which country does Ada live?"
    assert task.notes == ()


def test_without_triples_all_prompts_are_the_general_ones(store, text):
    prompts = text(json.dumps({"P17": "Q: Which country is Oslo in? A: Norway"}), "prompts.json")
    record = instance(orig={"triples": [["Q1", "P551", "Q220"]]})
    case = only(MQuAKE(store(record), demonstrations="none", prompts=prompts))
    assert [query.prompt for query, _ in asked(case, "single-hop")] == [
        "Where does Ada live?", "Which country is Paris in?",
    ]  # fmt: skip


def test_demonstrations_of_a_file_are_taken_as_they_are(store, text):
    file = text("Frage: Wo? Antwort: Da\n\n", "shots.txt")
    query, _ = asked(only(MQuAKE(store(instance()), demonstrations=file)), "multi-hop")[0]
    assert query.prompt == "Frage: Wo? Antwort: Da\nQ: In which country does Ada live? A:"


@pytest.mark.parametrize(
    ("field", "name", "content", "said"),
    [
        ("demonstrations", "shots.txt", " \n", "has no demonstrations"),
        ("demonstrations", "shots.txt", b"\xff", "is not UTF-8 text"),
        ("prompts", "prompts.json", "{", "not JSON"),
        ("prompts", "prompts.json", "[]", "Expected `object`, got `array`"),
        ("prompts", "prompts.json", '{"P17": ""}', "P17` is empty"),
    ],
)
def test_a_bad_file_of_prompts_is_refused(store, text, field, name, content, said):
    with pytest.raises(DataError, match=said):
        list(MQuAKE(store(instance()), **{field: text(content, name)}).cases())


def test_a_file_of_prompts_that_is_not_there_is_named(store):
    with pytest.raises(DataError, match=r"there is no file 'nowhere\.txt'"):
        list(MQuAKE(store(instance()), demonstrations="nowhere.txt").cases())


def test_the_authors_prompts_are_read(store):
    path = DATA / "mquake" / "mquake_rel-prompts.json"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    task = MQuAKE("", demonstrations="none", prompts=str(path))
    assert {"P30", "P36", "P35"} <= task._shots.keys()
    probe = task._asked("single-hop", "Which continent is Chad in?", ["Africa"], relation="P30")
    prompt = probe.query.prompt
    assert prompt.count("\nQ: ") == 8, "eight before it"
    assert prompt.endswith("A: Europe\nQ: Which continent is Chad in? A:")


# Measures


RIGHT, WRONG = Verdict("decided", 1.0), Verdict("decided", 0.0)
OLD, UNDECIDED = Verdict("decided", 0.0, reverted=True), Verdict("undecided", 0.0)
PENDING, UNPARSED = Verdict("pending"), Verdict("unparsed")
WINS, LOSES = scores((0.5,), (0.1,)), scores((0.5,), (0.1,), wrong=[0])
QUERY = Choose("x", ("new", "true"))


def case(edits=1, hops=2, old=2, questions=3):
    counts = {"efficacy": edits, "single-hop": hops, "old-single-hop": old, "multi-hop": questions}
    probes = tuple(Probe(role, QUERY) for role, n in counts.items() for _ in range(n))
    return Case("0", (Request("{} is", "Ada", "x"),), probes)


def answers(*given):
    return [each if not isinstance(each, Verdict) else Text("", each) for each in given]


def test_shares_of_an_instance_by_hand():
    before = answers(LOSES, WRONG, RIGHT, RIGHT, RIGHT, OLD, WRONG, WRONG)
    after = answers(WINS, RIGHT, RIGHT, WRONG, RIGHT, WRONG, RIGHT, OLD)
    assert MultiHop().measure(case(), before, after) == pytest.approx({
        "pre_EW": 0, "pre_EW successes": 0, "pre_EW edits": 1, "pre_IW": 0, "pre_SH": 1 / 2, "pre_IW-old": 1,
        "pre_MH": 0, "pre_MH-old": 1, "pre_MH-mean": 0,
        "post_EW": 1, "post_EW successes": 1, "post_EW edits": 1, "post_IW": 1, "post_SH": 1, "post_IW-old": 0,
        "post_MH": 1, "post_MH-old": 1, "post_MH-mean": 1 / 3,
    }, rel=EXACT)  # fmt: skip


def test_what_is_pending_is_counted_nowhere_and_undecided_is_wrong():
    after = answers(WINS, RIGHT, PENDING, RIGHT, RIGHT, UNDECIDED, UNDECIDED, UNDECIDED)
    values = MultiHop().measure(case(), answers(*[PENDING] * 8), after)
    assert values == {
        "post_EW": 1, "post_EW successes": 1, "post_EW edits": 1, "post_IW-old": 1,
        "post_MH": 0, "post_MH-old": 0, "post_MH-mean": 0,
    }  # fmt: skip


@given(st.lists(st.sampled_from([RIGHT, WRONG, OLD, PENDING, UNPARSED]), min_size=7, max_size=7))
def test_a_value_is_there_if_every_outcome_of_what_is_missing_has_it(verdicts):
    """The oracle fills in every verdict that is missing, with a right one and with the old one."""
    missing = [at for at, verdict in enumerate(verdicts) if not verdict.counts]
    asked = case(edits=0)

    def values(given):
        after = MultiHop().measure(asked, answers(*given), answers(*given)).items()
        return {n: v for n, v in after if n in ("post_MH", "post_MH-old", "post_IW", "post_IW-old")}

    outcomes = []
    for filling in product((RIGHT, OLD), repeat=len(missing)):
        filled = list(verdicts)
        for at, verdict in zip(missing, filling, strict=True):
            filled[at] = verdict
        outcomes.append(values(filled))
    first = outcomes[0]
    sure = {n: v for n, v in first.items() if all(each[n] == v for each in outcomes)}
    assert values(verdicts) == sure


def test_a_failed_edit_is_wrong_everywhere():
    values = MultiHop().failed(case(edits=2), [])
    assert values == {
        "post_MH": 0, "post_EW": 0, "post_IW": 0, "post_SH": 0, "post_MH-mean": 0,
        "post_EW successes": 0, "post_EW edits": 2,
    }  # fmt: skip


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=6))
def test_edit_wise_success_is_over_all_edits(successes):
    """The oracle pools them; only the mean of means would weigh instances."""
    rows = []
    for found in successes:
        answered = [WINS if each else LOSES for each in found]
        own = case(edits=len(found), hops=0, old=0, questions=0)
        rows.append(MultiHop().measure(own, answered, answered))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    pooled = [each for found in successes for each in found]
    summary = MultiHop().summarize(columns)
    assert summary["post_EW"] == sum(pooled) / len(pooled), "counted and divided once"
    assert summary.keys() == {"pre_EW", "post_EW"}


def test_tables_by_hops_and_by_edits():
    tagged = [("2", "1"), ("3", "1"), ("2", "2")]
    cases = [replace(case(), tags={"hops": hops, "edits": edits}) for hops, edits in tagged]
    columns = {"post_MH": np.array([1.0, 0.0, 0.0]), "post_IW": np.array([math.nan, 1.0, math.nan])}
    tables = MultiHop().tables(cases, columns)
    assert tables["by number of hops, %"] == [
        {"hops": "2", "cases": 2, "MH": 50, "IW": None},
        {"hops": "3", "cases": 1, "MH": 0, "IW": 100},
    ]
    assert [row["cases"] for row in tables["by number of edits, %"]] == [2, 1]


def test_a_share_of_a_table_is_counted_and_divided_once():
    cases = [replace(case(), tags={"hops": "2"})] * 80
    columns = {"post_MH": np.array([1.0] * 35 + [0.0] * 45)}
    (row,) = MultiHop().tables(cases, columns)["by number of hops, %"]
    assert row["MH"] == 43.75


# Runs


def test_it_runs_in_batches_of_instances(store, tmp_path):
    """A random model answers nothing right; what is asked is all judged."""
    file = store(*(instance(i) for i in range(1, 4)))
    task = MQuAKE(file, demonstrations="none")
    run = eh.evaluate(
        "ft-l", task, tiny_model(), editor_args={"layer": 0}, regime=Regime("batch", 2),
        output=tmp_path,
    )  # fmt: skip
    assert len(run.records) == 3
    assert not run.failures
    assert run.pending == run.results()["undecided"] == 0
    assert run["MH"].value == run["MH-old"].value == 0
    assert [row["cases"] for row in run.tables["multi-hop"]["by number of hops, %"]] == [3]


@pytest.mark.parametrize("task", [MQuAKE, RippleEdits])
def test_what_a_model_judged_is_accounted_for(task, tmp_path, monkeypatch):
    """A model's stand-in, every other reply of which is no verdict."""
    told = [Verdict("decided", 1.0, served="x", swapped=False, usage={"tokens": 2.0}), UNPARSED]
    monkeypatch.setattr(
        Match, "judge", lambda self, replies: [told[i % 2] for i in range(len(replies))]
    )
    sample = {task.sample: str(FILES / f"{task.sample}.json")}
    asked = task().bind(ModelSource("pocket", data=sample))
    run = eh.evaluate("none", asked, tiny_model(), limit=2, output=tmp_path)
    assert 0.4 <= run["Unparsed"].value <= 0.6
    assert run["Swapped"].value == 0
    assert run["Tokens"].value > 0
