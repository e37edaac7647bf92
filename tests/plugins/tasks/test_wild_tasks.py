"""Tasks of questions that can be asked in the wild: QAEdit, WikiBigEdit, and the protocol on those before them."""

import json
import re
from pathlib import Path

import pytest
from support.builders import DATA, question, record
from support.commands import failed, invoked
from support.complaints import complaint

from edit_harness import Choose, Generate, Key, ModelSource, Regime, Request
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.tasks.counterfact.counterfact import CounterFact
from edit_harness_plugins.tasks.qaedit import QAEdit
from edit_harness_plugins.tasks.wikibigedit import WikiBigEdit
from edit_harness_plugins.tasks.zsre import ZsRE

STOPS, PROTOCOLS = (".", "\n"), ("teacher-forced", "wild", "both")
QA = {
    "id": 7, "source": "SQA", "prompt": "is Oslo older than old Oslo town?", "target": "St. Olav", "subject": "Oslo",
    "rephrase": "Which is older?",
    "locality": [{"loc": f"who is number {i}", "loc_ans": f"Bob {i}"} for i in range(5)],
}  # fmt: skip
CHANGE = {
    "prompt": "In which city does Ada live?", "target_new": "Rome", "subject": "Ada",
    "rephrase_prompt": "Where is Ada's home?", "locality_prompt": "Where does Eve live?", "locality_ground_truth": "Oslo",
}  # fmt: skip
HUB = {
    "tag": "update", "subject": "Ada", "update": "In which city does Ada live?", "ans": "Rome",
    "rephrase": "Where is Ada's home?", "personas": "Ahoy, where be Ada?", "loc": "Where does Eve live?",
    "loc_ans": "Oslo", "mhop": None, "mhop_ans": None,
}  # fmt: skip


def wild(text):
    return Generate(text, max_new_tokens=50, stop=STOPS)


def test_the_subject_of_a_question_is_its_last_place(store):
    """Ids come twice in the authors' file."""
    one, two = QAEdit(store(QA, QA), protocol="both").cases()
    assert (one.id, two.id, one.tags) == ("0", "1", {"source": "SQA"})
    (request,) = one.requests
    assert (request.prompt, request.text) == ("is Oslo older than old {} town?", QA["prompt"])
    asked = [("efficacy", QA["prompt"], "St. Olav"), ("paraphrase", QA["rephrase"], "St. Olav")]
    asked += [("neighborhood", f"who is number {i}", f"Bob {i}") for i in range(5)]
    assert [(p.role, p.query) for p in one.probes] == [
        *((role, Choose(text, (answer,))) for role, text, answer in asked),
        *((role, wild(text)) for role, text, _ in asked),
    ]
    first, _ = QAEdit(store(QA | {"subject": "Bergen"}, QA)).cases()
    assert "does not have the subject 'Bergen' in it" in first.problem


@pytest.mark.parametrize("subject", ["Ada", "", None, "Eve"])
def test_changes_of_wikidata_in_both_layouts(store, subject):
    fields = {"subject": subject}
    (ours,) = WikiBigEdit(store(CHANGE | fields)).cases()
    (theirs,) = WikiBigEdit(store(HUB | fields)).cases()
    bare = Request.of("In which city does Ada live?", "Rome")
    known = Request("In which city does {} live?", "Ada", "Rome")
    assert ours.requests == theirs.requests == (known if subject == "Ada" else bare,)
    assert ours.probes == theirs.probes
    prompts = [CHANGE[name] for name in ("prompt", "rephrase_prompt", "locality_prompt")]
    assert [probe.query.prompt for probe in ours.probes] == prompts * 2
    (bare,) = WikiBigEdit(store(HUB | {"loc": None, "loc_ans": None})).cases()
    assert [probe.role for probe in bare.probes] == ["efficacy", "paraphrase"] * 2
    assert WikiBigEdit.regime == Regime(
        "sequential", 100, checkpoints=(100, 1_000, 10_000), sample=500
    )


@pytest.mark.parametrize("kind", [QAEdit, WikiBigEdit])
def test_other_files_are_refused_and_the_sample_is_pockets(kind, store):
    assert "none of 1 records has the fields" in complaint(kind(store(question()))).cause
    bound = kind().bind(ModelSource("m", data={kind.sample: str(FILES / f"{kind.sample}.json")}))
    cases = list(bound.cases())
    assert len(cases) == {"qaedit": 200, "wikibigedit": 1_000}[kind.sample]
    assert not any(case.problem for case in cases)
    facts = {case.requests[0].text for case in cases}
    others = {p.query.prompt for case in cases for p in case.probes if p.role == "neighborhood"}
    assert kind is QAEdit or not facts & others, "a question that is to stay is edited"


@pytest.mark.parametrize(
    ("kind", "file", "count", "cut"),
    [
        (QAEdit, "qaedit/qaedit_first_800.json", 800, 38),
        (WikiBigEdit, "wikibigedit/wikibigedit_first_2000.json", 2_000, 3),
    ],
)
def test_the_genuine_files(kind, file, count, cut):
    if not (DATA / file).is_file():
        pytest.skip("the genuine data are not here")
    task = kind(str(DATA / file))
    cases = list(task.cases())
    assert (len(cases), sum(bool(case.problem) for case in cases)) == (count, 0)
    assert all(case.requests[0].subject for case in cases)
    assert task.notes[0].startswith(f"{cut} of {count:,} targets have a full stop")


def test_only_stops_that_cut_a_target_off_are_counted(store):
    targets = ("Acme Inc.", '"So it goes."', "Oslo\n", "St. Olav", "3.5", "one\ntwo", "Oslo")
    task = QAEdit(store(*({**QA, "target": target} for target in targets)), protocol="wild")
    assert task.notes[0].startswith(
        "3 of 7 targets have a full stop or a line break before their end"
    )


@pytest.mark.parametrize(("kind", "made"), [(ZsRE, question), (CounterFact, lambda: record(0))])
def test_protocols_of_a_task_that_was_there_before(store, kind, made):
    """Teacher forcing is as ever; in the wild the same prompts are asked in the same roles."""
    file = store(made())
    usual = next(iter(kind(file).cases()))
    forced, in_wild, both = (next(iter(kind(file, protocol=p).cases())) for p in PROTOCOLS)
    assert usual == forced
    assert both.probes == (*usual.probes, *in_wild.probes)
    shown = [p for p in usual.probes if isinstance(p.query, Choose) and p.role != "attribute"]
    asked = [(p.role, wild(p.query.prompt)) for p in shown]
    assert [(p.role, p.query) for p in in_wild.probes] == asked
    framed = kind(file, protocol="wild", context="qa_inst", longest=32, judged=True)
    (first, *rest) = next(iter(framed.cases())).probes
    asked = f"Please answer the question:\n\nQ: {usual.requests[0].text}\nA:"
    assert first.query == Generate(asked, max_new_tokens=32, stop=STOPS)
    rules = {"how": "equal", "rules": "wild"}
    assert first.key == Key("match", usual.requests[0].target_new, about=rules)
    assert [p.key is None for p in rest] == [p.role == "neighborhood" for p in rest]
    names = [kind(file, protocol=p).variant for p in PROTOCOLS]
    assert [*names, framed.variant] == ["", "[wild]", "[both]", "[wild qa_inst]"]
    assert set(kind.metrics) | {"wild", "judging"} == set(framed.metrics)
    assert "token-accuracy" in kind(file, protocol="both").metrics


def test_a_file_on_the_hub(store, monkeypatch):
    path, asked = store(QA), []
    got = "huggingface_hub.hf_hub_download"
    monkeypatch.setattr(got, lambda *a, **k: asked.append((a, k)) or path)
    task = QAEdit("hf://owner/name/data/qa.json@0f1e2d")
    assert len(list(task.cases())) == 1
    ((where, how),) = {str(each): each for each in asked}.values()
    assert where == ("owner/name", "data/qa.json")
    assert (how["revision"], how["repo_type"]) == ("0f1e2d", "dataset")
    assert (task.origin, task.digest) == ("qa.json@0f1e2d", QAEdit(path).digest)
    for bad in ("hf://owner/qa.json@main", "hf://owner/name/qa.json", "hf://owner/name/@main"):
        assert "names no file on the hub" in complaint(QAEdit(bad)).cause

    def fail(*args, **options):
        raise OSError("404\nno such file")

    monkeypatch.setattr(got, fail)
    lost = complaint(QAEdit("hf://owner/name/qa.json@main")).cause
    assert re.search(r"@main could not be had: .*(404 no such file|no network)", lost)


def test_the_flag_is_a_field_of_tasks_that_have_it(tmp_path):
    """And the contrast of both is a table and a figure, each editor beside the unedited model."""
    asked = "-e", "none,ft", "-t", "zsre", "--protocol", "both", "-L", 4
    result = invoked("run", *asked, "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert "zsre[both]" in result.stderr
    assert "teacher-forced  in the wild  difference" in result.stdout
    runs = sorted(tmp_path.glob("*-zsre-both-*"))
    shown = invoked("report", *runs, "--layout", "paper")
    heads = next(line for line in shown.stdout.splitlines() if "teacher-forced" in line)
    assert heads.split("  ")[-1].strip() == "Rel difference"
    data = json.loads((runs[0] / "results.json").read_text())["results"]
    gap = data["post_ET,single"] - data["post_Rel-EM,single"]
    assert data["post_Rel-gap,single"] == pytest.approx(gap, abs=1e-12)
    low, high = (100 * data[f"post_Rel-gap_{end},single"] for end in ("low", "high"))
    assert f"{low:.1f} – {high:.1f}" in result.stdout.split("99% CI over cases")[1]
    images = [tmp_path / name for name in ("a.svg", "b.svg")]
    for image in images:
        assert invoked("report", *runs, "--layout", "paper", "-o", image).exit_code == 0
    assert len({image.read_bytes() for image in images}) == 1
    assert "<svg" in images[0].read_text()
    for task, protocol, told in (
        ("mquake", "wild", "no field 'protocol'"),
        ("zsre", "tame", "one of teacher-forced, wild, both"),
    ):
        failed(invoked("run", "-t", task, "--protocol", protocol, "-o", tmp_path), 2, told)
    twice = ("-t", "zsre", "--protocol", "wild", "--task-args", "protocol=both", "-o", tmp_path)
    failed(invoked("run", *twice), 2, "--protocol and --task-args protocol=... are both given")
    alone = invoked("run", "-e", "none", "-t", "zsre", "-L", 2, "-o", tmp_path / "one")
    assert alone.exit_code == 0
    (run,) = Path(tmp_path / "one").iterdir()
    failed(invoked("report", run, "--layout", "paper", "-o", images[0]), 2, "no run has both")


def test_a_task_without_protocols_beside_one_that_has_them_is_told(tmp_path):
    tasks = ("-t", "mquake,zsre", "--protocol", "wild", "-L", 1, "-e", "none", "-o", tmp_path)
    said = invoked("run", *tasks).stderr
    assert "mquake has no protocol: it is asked without" in said
    assert "zsre has no" not in said


def test_a_judge_that_nothing_is_asked_of_is_told_with_the_remedy(tmp_path):
    asked = (
        "-e",
        "none",
        "-t",
        "qaedit",
        "--protocol",
        "wild",
        "--judge",
        "match",
        "-L",
        2,
        "-o",
        tmp_path,
    )
    idle, judged = (
        " ".join(invoked("run", *asked, *more).stderr.split())
        for more in ((), ("--task-args", "judged=true"))
    )
    told = (
        "the judge is asked nothing here: answers in the wild ask one with --task-args judged=true"
    )
    assert (idle.count(told), judged.count(told)) == (2, 0), "before the run, and behind it"
    assert "8 texts by match" in judged
