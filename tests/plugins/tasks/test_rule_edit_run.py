"""RULE-EDIT from the command to the numbers, on a tiny model and with the real judge."""

import json
import shutil
from pathlib import Path

import pytest
from support.builders import with_entries
from support.commands import invoked, stored

from edit_harness import Key, Reply
from edit_harness.folder.folder import RunFolder
from edit_harness_plugins.judges.symbolic.judge import Symbolic
from edit_harness_plugins.tasks.rule_edit.task import BUNDLED

FORMS = ("rule-edit", "rule-edit-description", "rule-edit-instance", "rule-edit-hierarchy")
SHIPPED = {w: json.loads(path.read_text(encoding="utf-8")) for w, path in BUNDLED.items()}
RECORDS = SHIPPED["paper"]
PLACE = ("lhs", "variables", "derived", "constraints")
OTHER = {"name": "symbolic", "version": "0", "fields": {}, "provenance": {"sympy": "1.0"}}
SLOW = ("--judge", "symbolic", "--judge-args", "seconds=7")
NO_JUDGE = ("-t", "rule-edit", "--judge", "none")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a tiny random model, and with runs of it that have been made once."""
    folder = tmp_path_factory.mktemp("rules")
    stored(folder)
    return folder


def words(text):
    return " ".join(text.split())


@pytest.fixture
def run(kept, tell):
    """Run two cases by a command in an empty folder."""

    def run(*args, code=0, output="out"):
        result = tell(
            "-m", kept / "tiny", "-e", "ft-l", "--editor-args", "layer=0,steps=2,lr=0.01,epsilon=0.1",
            "-o", output, "-L", 2, *args,
        )  # fmt: skip
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def made(run, kept):
    """Return the folder, in ``out``, of a run that is made once for all tests."""

    def made(*args, code=0):
        whole = kept / " ".join(args)
        if not whole.exists():
            run(*args, code=code, output=whole)
        (folder,) = whole.iterdir()
        return Path(shutil.copytree(folder, Path("out") / folder.name))

    return made


def other_than(folder):
    (sibling,) = set(folder.parent.glob("*")) - {folder}
    return sibling


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


def broken_rules():
    """Write the rules to a file, the first of them edited to what has no value."""
    broken = [RECORDS[0] | {"formula_new": "x/0"}, *RECORDS[1:]]
    Path("rules.json").write_text(json.dumps(broken))
    return "-t", "rule-edit", "--task-args", "data=rules.json"


def test_a_model_that_cannot_do_the_task_is_told(run):
    """Item 11 of issue I: by the keys' old answers, role by role."""
    said = words(run("-t", "rule-edit", "--metrics", "rule-answers").output)
    assert "the unedited model answers 0 of 2 efficacy, 0 of 2 paraphrase, 0 of 8 instance" in said
    assert "it cannot do the task before any edit (efficacy, " in said
    assert "under 20%), so the numbers say little about the editor" in said


@pytest.mark.parametrize("task", FORMS)
def test_every_form_runs(run, tmp_path, task):
    """And what the judge does is nothing to be told: item 16 of issue I."""
    result = run("-t", task)
    assert "a metric or a judge changed" not in result.stderr.replace("\n", " ")
    assert ("a case's requests in turn" in words(result.stderr)) == (task == FORMS[2])
    names = {line.split()[0] for line in result.stdout.splitlines()}
    of_rules = {"Rel", "Gen", "IP", "RU", "Rev", "Loc", "Loc-exact", "Loc-sem"}
    assert names >= ({"Rel", "Rev", "HG"} if task == FORMS[3] else of_rules)
    (folder,) = tmp_path.glob("out/*")
    for record in RunFolder(folder).records():
        verdicts = [a["verdict"] for a in record.after if a.get("verdict")]
        assert len(verdicts) == len(record.after)
        assert {v["status"] for v in verdicts} <= {"decided", "undecided"}


def test_verdicts_can_wait(run, made):
    """Without a judge the run ends with 1 and counts nothing; score fills it in, once."""
    judged = made("-t", "rule-edit")
    result = run(*NO_JUDGE, code=1)
    folder = other_than(judged)
    assert f"edit-harness score out/{folder.name}" in words(result.stderr)
    results = results_of(folder)
    assert results["pending"] > 0
    assert not [name for name in results["results"] if name.startswith("post_Rel")]
    assert "post_Loc,single" in results["results"], "which asks no judge"

    unjudged = invoked("score", folder)
    assert (unjudged.exit_code, unjudged.stdout) == (1, result.stdout)

    lines = (folder / "samples.jsonl").read_text().splitlines()
    filled = invoked("score", folder, "--judge", "symbolic")
    assert filled.exit_code == 0, filled.output
    results = results_of(folder)
    assert (results["pending"], results["results"]) == (0, results_of(judged)["results"])
    stored = (folder / "samples.jsonl").read_text().splitlines()
    assert stored[: len(lines)] == lines, "what was written stays"
    assert len(stored) == 2 * len(lines)

    again = invoked("score", folder, "--judge", "symbolic")
    assert again.exit_code == 0
    assert "waits for a judge" in again.stderr
    assert invoked("score", folder).stdout == filled.stdout
    # The same command reads the run back, verdicts and all.
    assert run(*NO_JUDGE).stdout == filled.stdout


def test_one_run_has_one_judge(made):
    folder = made(*NO_JUDGE, code=1)
    opened = RunFolder(folder)
    opened.write_manifest(with_entries(opened.manifest(), judged_by=OTHER))
    result = invoked("score", folder)
    assert result.exit_code == 7
    assert "is judged by symbolic 0 (sympy 1.0)" in words(result.stderr)
    assert "in a sibling folder: --judge symbolic" in words(result.stderr)


def test_the_folder_of_another_judge_follows_its_source(run, made, monkeypatch, tmp_path):
    """Cases that the source has gained are judged too; what is judged is not judged again."""
    folder = tmp_path / made("-t", "rule-edit-hierarchy", "--judge", "symbolic")
    stored = RunFolder(folder).samples.read_bytes()
    with monkeypatch.context() as inside:
        inside.chdir(folder)
        assert invoked("score", ".", *SLOW).exit_code == 0
    sibling = other_than(folder)
    assert sibling.name.startswith(f"{folder.name}-symbolic-"), "beside its source"
    assert RunFolder(folder).samples.read_bytes() == stored, "which stays as it is"
    assert results_of(sibling)["results"] == results_of(folder)["results"]
    first = (sibling / "samples.jsonl").read_text().splitlines()
    run("-t", "rule-edit-hierarchy", "-L", 3)
    told = invoked("score", folder, *SLOW)
    assert results_of(sibling)["cases"] == 3, told.output
    lines = (sibling / "samples.jsonl").read_text().splitlines()
    assert lines[: len(first)] == first
    assert len(lines) == len(first) + 2, "the third case, waiting and judged"


def test_settings_are_for_a_judge_that_is_there(run):
    told = run(*NO_JUDGE, "--judge-args", "seconds=2", code=2)
    assert "--judge-args are for a judge, and there is none" in told.stderr


def test_a_key_that_cannot_be_read_is_the_affair_of_its_case(run, tmp_path):
    """The task's own check lets a division by zero through; the other rule is judged, as by score."""
    at_once = run(*broken_rules(), code=1)
    told = words(at_once.stderr)
    assert "case rectangle_area: invalid_case: the formula 'x/0' cannot be read" in told
    assert {line.split()[-1] for line in at_once.stdout.splitlines()[1:]} == {"1"}
    (judged,) = tmp_path.glob("out/*")
    run(*broken_rules(), "--judge", "none", code=1)
    folder = other_than(judged)
    result = invoked("score", folder, "--judge", "symbolic")
    assert result.exit_code == 1
    assert result.stdout == at_once.stdout
    assert "another one now" not in invoked("score", folder).stderr


def test_a_sequence_with_a_bad_key_has_its_end_where_it_is(run):
    flags = ("--edit-mode", "sequential", "--eval-at", "each,1", "--limit", 3, "--json")
    results = json.loads(run(*broken_rules(), *flags, code=1).stdout)
    assert [point["cases"] for point in results["curve"]] == [1, 3]
    final = results["curve"][-1]["post_Loc,sequential"]
    assert final == results["results"]["post_Loc,sequential"]


def test_a_judge_that_fails_is_no_judge_of_the_run(made, monkeypatch):
    folder = made(*NO_JUDGE, code=1)

    def fail(self, replies):
        raise RuntimeError("no connection")

    with monkeypatch.context() as patched:
        patched.setattr(Symbolic, "judge", fail)
        result = invoked("score", folder, "--judge", "symbolic")
    assert result.exit_code == 1
    assert "RuntimeError: no connection" in words(result.stderr)
    assert json.loads((folder / "manifest.json").read_text())["judged_by"] is None
    assert (
        invoked("score", folder, "--judge", "symbolic", "--metrics", "rule-locality").exit_code == 0
    )
    results = results_of(folder)
    assert (results["pending"], "post_Rel,single" in results["results"]) == (0, True)
    assert json.loads((folder / "manifest.json").read_text())["judged_by"]["name"] == "symbolic"


def test_a_smaller_limit_leaves_all_cases_to_be_scored(run, made):
    folder = made(*NO_JUDGE, code=1)
    run(*NO_JUDGE, "--limit", 1, code=1)
    result = invoked("score", folder, "--judge", "symbolic")
    assert result.exit_code == 0, result.output
    assert {line.split()[-1] for line in result.stdout.splitlines()[1:]} == {"2"}


def test_cases_are_shown_and_other_metrics_scored_without_touching_the_results(made):
    folder = made("-t", "rule-edit")
    shown = invoked("case", folder, "rectangle_area").stdout
    for part in ("-> A = x + y", "efficacy", "understanding", "[direct]", "[same_shape]"):
        assert part in words(shown)
    data = json.loads(invoked("case", folder, "rectangle_area", "--json").stdout)
    assert len(data["records"][0]["after"]) == len(data["case"]["probes"])
    before = (folder / "results.json").read_text()
    result = invoked("score", folder, "--metrics", "rule-locality")
    rows = [line.split()[0] for line in result.stdout.splitlines()]
    assert rows[1:] == ["Loc", "Loc-exact", "Loc-sem"]
    assert (folder / "results.json").read_text() == before


@pytest.mark.parametrize("wording", SHIPPED)
def test_the_judge_reads_what_the_data_say(wording):
    """All formulas, descriptions and numbers behind all prompts: as the new rule, the old one, the same."""
    judge, replies, expected = Symbolic(), [], []

    def ask(prompt, text, key, score, reverted=False):
        replies.append(Reply(prompt, text, key))
        expected.append((score, reverted))

    for record in SHIPPED[wording]:
        about = {name: record[name] for name in PLACE}
        formulas = record["formula_new"], record["formula"]
        for kind, said in (("description", "description"), ("formula", "equation")):
            new, old = record[f"{said}_new"], record[said]
            key, like = Key(kind, *formulas, about), Key("same", new, "", {"of": kind, **about})
            for prompt in (record[f"{kind}_prompt"], *record[f"{kind}_rephrasings"]):
                ask(prompt, f" {new}.", key, 1.0)
                ask(prompt, f" {old}.", key, 0.0, True)
                ask(prompt, f" The {new.removeprefix('the ')}.", like, 1.0)
                ask(prompt, f" {old}.", like, 0.0)
        for each in record["instances"]:
            about = {"unit": "", "steps": each["kind"] == "steps"}
            key = Key("number", each["answer_new"], each["answer_true"], about)
            again = f" {each['prompt']} 1" if each["kind"] == "direct" else ""
            for prompt in (each["prompt"], each.get("rephrasing", "")):
                ask(prompt, f" {each['answer_new']}.{again}", key, 1.0)
                ask(prompt, f" {each['answer_true']}.{again}", key, 0.0, True)
    for reply, verdict, (score, reverted) in zip(
        replies, judge.judge(replies), expected, strict=True
    ):
        assert (verdict.status, verdict.score, verdict.reverted) == ("decided", score, reverted), (
            reply
        )
