"""RULE-EDIT from the command to the numbers, on a tiny model and with the real judge."""

import csv
import json

import pytest
from click.testing import CliRunner
from support.builders import rewrite, with_entries

import edit_harness as eh
from edit_harness import Key, Reply
from edit_harness.cli import main
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.manifest import fingerprint
from edit_harness.registry.registry import Plugins
from edit_harness.testing.tiny import tiny_model
from edit_harness_plugins.judges.symbolic.judge import Symbolic
from edit_harness_plugins.tasks.rule_edit.task import BUNDLED, RuleEditDescription

FORMS = ("rule-edit", "rule-edit-description", "rule-edit-instance", "rule-edit-hierarchy")
RECORDS = json.loads(BUNDLED.read_text(encoding="utf-8"))
PLACE = ("lhs", "variables", "derived", "constraints")


@pytest.fixture
def tell(monkeypatch, tmp_path):
    """Run a command in an empty folder, with a tiny random model in ``tiny``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    model = tiny_model()
    model.module.save_pretrained(tmp_path / "tiny")
    model.tokens.tokenizer.save_pretrained(tmp_path / "tiny")

    def tell(*args):
        return CliRunner().invoke(main, [str(arg) for arg in args])

    return tell


def run(tell, *args, code=0):
    result = tell(
        "-m", "tiny", "-e", "ft-l", "--editor-args", "layer=0,steps=2,lr=0.01,epsilon=0.1",
        "-o", "out", "-L", 2, *args,
    )  # fmt: skip
    assert result.exit_code == code, result.output
    return result


def broken_rules(folder, formula, count):
    """Write the rules to a file, the first of them with another edited formula."""
    broken = [record | {"formula_new": formula} for record in RECORDS[:count]]
    (folder / "rules.json").write_text(json.dumps(broken + RECORDS[count:]))


def test_a_model_that_cannot_do_the_task_is_told(tell):
    """Item 11 of issue I: by the keys' old answers, role by role."""
    said = " ".join(run(tell, "-t", "rule-edit", "--metrics", "rule-answers").output.split())
    assert "the unedited model answers 0 of 2 efficacy, 0 of 4 paraphrase, 0 of 8 instance" in said
    assert "it cannot do the task before any edit (efficacy, " in said
    assert "under 20%), so the numbers say little about the editor" in said


@pytest.mark.parametrize("task", FORMS)
def test_every_form_runs(tell, tmp_path, task):
    """And what the judge does is nothing to be told: item 16 of issue I."""
    result = run(tell, "-t", task)
    assert "a metric or a judge changed" not in result.stderr.replace("\n", " ")
    names = {line.split()[0] for line in result.stdout.splitlines()}
    expected = {
        "rule-edit": {"Rel", "Gen", "IP", "RU", "Rev", "Loc", "Loc-exact", "Loc-sem"},
        "rule-edit-hierarchy": {"Rel", "Rev", "HG"},
    }
    assert expected.get(task, expected["rule-edit"]) <= names
    (folder,) = tmp_path.glob("out/*")
    for record in RunFolder(folder).records():
        verdicts = [a["verdict"] for a in record.after if a.get("verdict")]
        assert len(verdicts) == len(record.after)
        assert {v["status"] for v in verdicts} <= {"decided", "undecided"}


def test_instances_are_written_one_after_the_other(tell, tmp_path):
    result = run(tell, "-t", "rule-edit-instance")
    assert "a case's requests in turn" in " ".join(result.stderr.split())


def test_verdicts_can_wait(tell, tmp_path):
    """Without a judge the run ends with 1 and counts nothing; score fills it in, once."""
    whole = run(tell, "-t", "rule-edit")
    del whole
    (judged,) = tmp_path.glob("out/*")
    expected = json.loads((judged / "results.json").read_text())["results"]
    result = run(tell, "-t", "rule-edit", "--judge", "none", code=1)
    (folder,) = set(tmp_path.glob("out/*")) - {judged}
    assert f"edit-harness score out/{folder.name}" in " ".join(result.stderr.split())
    results = json.loads((folder / "results.json").read_text())
    assert results["pending"] > 0
    assert not [name for name in results["results"] if name.startswith("post_Rel")]
    assert "post_Loc,single" in results["results"], "which asks no judge"

    unjudged = tell("score", folder)
    assert unjudged.exit_code == 1
    assert unjudged.stdout == result.stdout
    assert "--judge NAME" in unjudged.stderr

    lines = (folder / "samples.jsonl").read_text().splitlines()
    filled = tell("score", folder, "--judge", "symbolic")
    assert filled.exit_code == 0, filled.output
    assert "Rel" in filled.stdout
    results = json.loads((folder / "results.json").read_text())
    assert (results["pending"], results["results"]) == (0, expected)
    kept = (folder / "samples.jsonl").read_text().splitlines()
    assert kept[: len(lines)] == lines, "what was written stays"
    assert len(kept) == 2 * len(lines)

    again = tell("score", folder, "--judge", "symbolic")
    assert again.exit_code == 0
    assert "waits for a judge" in again.stderr
    assert tell("score", folder).stdout == filled.stdout
    # The same command reads the run back, verdicts and all.
    assert run(tell, "-t", "rule-edit", "--judge", "none").stdout == filled.stdout


def test_one_run_has_one_judge(tell, tmp_path, monkeypatch):
    run(tell, "-t", "rule-edit", "--judge", "none", code=1)
    (folder,) = tmp_path.glob("out/*")
    opened = RunFolder(folder)
    other = {"name": "symbolic", "version": "0", "fields": {}, "provenance": {"sympy": "1.0"}}
    opened.write_manifest(with_entries(opened.manifest(), judged_by=other))
    result = tell("score", folder)
    assert result.exit_code == 7
    said = " ".join(result.stderr.split())
    assert "is judged by symbolic 0 (sympy 1.0)" in said
    assert "in a sibling folder: --judge symbolic" in said


def test_another_judge_has_a_folder_of_its_own(tell, tmp_path):
    run(tell, "-t", "rule-edit")
    (made,) = tmp_path.glob("out/*")
    folder = made.rename(made.with_name("ft-l-rule-edit-tiny-00000000"))
    opened = RunFolder(folder)
    manifest = opened.manifest()
    results = opened.results()
    other = {"name": "symbolic", "version": "0", "fields": {}, "provenance": {}}
    manifest = with_entries(manifest, identity={"judge": None})
    manifest = with_entries(manifest, identity={"judge": other})
    rows = [json.loads(line) for line in opened.samples.read_text().splitlines()]
    mark = fingerprint(manifest.identity)
    opened.write_manifest(manifest)
    rewrite(opened.samples, [{**row, "fp": mark[:12]} for row in rows])
    stored = (folder / "samples.jsonl").read_bytes()
    for _ in range(2):  # the second time it is there
        result = tell("score", folder, "--judge", "symbolic")
        assert result.exit_code == 0, result.output
        assert "the new verdicts are in" in " ".join(result.stderr.split())
    assert (folder / "samples.jsonl").read_bytes() == stored
    (sibling,) = set(tmp_path.glob("out/*")) - {folder}
    assert sibling.name.startswith(f"{folder.name}-symbolic-")
    again = json.loads((sibling / "results.json").read_text())
    assert again["results"] == results["results"]


def test_the_folder_of_another_judge_lies_beside_its_source(tell, tmp_path, monkeypatch):
    run(tell, "-t", "rule-edit-hierarchy", "--judge", "symbolic")
    (folder,) = tmp_path.glob("out/*")
    monkeypatch.chdir(folder)
    told = tell("score", ".", "--judge", "symbolic", "--judge-args", "seconds=7")
    assert told.exit_code == 0, told.output
    (sibling,) = set(tmp_path.glob("out/*")) - {folder}
    assert sibling.name.startswith(f"{folder.name}-symbolic-")


def test_the_folder_of_another_judge_follows_its_source(tell, tmp_path):
    """Cases that the source has gained are judged too; what is judged is not judged again."""
    run(tell, "-t", "rule-edit-hierarchy", "--judge", "symbolic")
    (folder,) = tmp_path.glob("out/*")
    slow = ("--judge", "symbolic", "--judge-args", "seconds=7")
    tell("score", folder, *slow)
    (sibling,) = set(tmp_path.glob("out/*")) - {folder}
    first = (sibling / "samples.jsonl").read_text().splitlines()
    run(tell, "-t", "rule-edit-hierarchy", "-L", 3)
    told = tell("score", folder, *slow)
    assert json.loads((sibling / "results.json").read_text())["cases"] == 3, told.output
    lines = (sibling / "samples.jsonl").read_text().splitlines()
    assert lines[: len(first)] == first
    assert len(lines) == len(first) + 2, "the third case, waiting and judged"


def test_settings_are_for_a_judge_that_is_there(tell, tmp_path):
    told = run(tell, "-t", "rule-edit", "--judge", "none", "--judge-args", "seconds=2", code=2)
    assert "--judge-args are for a judge, and there is none" in told.stderr
    told = run(tell, "-t", "rule-edit", "--judge-args", "speed=2", code=2)
    assert "judge symbolic has no field 'speed'" in told.stderr


def test_a_run_that_was_interrupted_has_no_numbers(tell, tmp_path):
    """Its last records are of another state of the model than those of a whole run."""
    run(tell, "-t", "rule-edit", "--edit-mode", "sequential", "--eval-at", "each")
    (folder,) = tmp_path.glob("out/*")
    assert tell("score", folder).exit_code == 0
    lines = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    (folder / "results.json").unlink()
    for kept, missing in ((-2, 2), (0, len(lines))):
        (folder / "samples.jsonl").write_text("".join(lines[:kept]))
        result = tell("score", folder)
        assert result.exit_code == 7
        assert f"is not finished: {missing} records missing" in result.stderr
    (folder / "samples.jsonl").unlink()
    assert tell("score", folder).exit_code == 7


def test_one_of_several_folders_that_cannot_be_scored_stops_no_other(tell, tmp_path):
    run(tell, "-t", "rule-edit")
    run(tell, "-t", "rule-edit-description")
    one, other = sorted(tmp_path.glob("out/*"))
    result = tell("score", one, "missing", other)
    assert result.exit_code == 2
    assert "missing is no run folder" in result.stderr
    assert result.stdout.count("Rel") >= 2


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("manifest.json", lambda text: "{"),
        ("manifest.json", lambda text: text.replace('"identity"', '"identities"')),
        ("samples.jsonl", lambda text: text.replace('"state": 0', '"state": "x"', 1)),
        ("samples.jsonl", lambda text: text.replace("{", "", 1)),
        ("cases.jsonl", lambda text: text[text.index("\n") + 1 :]),
        ("cases.jsonl", lambda text: text.replace('"probes"', '"questions"', 1)),
    ],
)
def test_a_damaged_folder_is_said_to_be_damaged(tell, tmp_path, name, damage):
    run(tell, "-t", "rule-edit")
    (folder,) = tmp_path.glob("out/*")
    (folder / name).write_text(damage((folder / name).read_text()))
    result = tell("score", folder)
    assert result.exit_code == 7, result.output
    assert result.stderr.startswith("error: ")


def test_a_key_that_the_judge_cannot_read_is_the_affair_of_its_case(tell, tmp_path):
    """The task's own check lets a division by zero through; the other rule is judged."""
    broken_rules(tmp_path, "x/0", 1)
    result = run(tell, "-t", "rule-edit", "--task-args", "data=rules.json", code=1)
    told = " ".join(result.stderr.split())
    assert "case rectangle_area: invalid_case: the formula 'x/0' cannot be read" in told
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert {row[-1] for row in rows} == {"1"}


def test_a_smaller_limit_leaves_all_cases_to_be_scored(tell, tmp_path):
    run(tell, "-t", "rule-edit", "--judge", "none", code=1)
    run(tell, "-t", "rule-edit", "--judge", "none", "--limit", 1, code=1)
    (folder,) = tmp_path.glob("out/*")
    result = tell("score", folder, "--judge", "symbolic")
    assert result.exit_code == 0, result.output
    assert {line.split()[-1] for line in result.stdout.splitlines()[1:]} == {"2"}


def test_other_metrics_are_scored_without_touching_the_results(tell, tmp_path):
    run(tell, "-t", "rule-edit")
    (folder,) = tmp_path.glob("out/*")
    before = (folder / "results.json").read_text()
    result = tell("score", folder, "--metrics", "rule-locality")
    assert [line.split()[0] for line in result.stdout.splitlines()][1:] == [
        "Loc", "Loc-exact", "Loc-sem",
    ]  # fmt: skip
    assert (folder / "results.json").read_text() == before


def test_a_case_is_shown_with_replies_and_verdicts(tell, tmp_path):
    run(tell, "-t", "rule-edit")
    (folder,) = tmp_path.glob("out/*")
    result = tell("case", folder, "rectangle_area")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "-> A = x + y" in text
    for role in ("efficacy", "paraphrase", "neighborhood", "instance", "understanding"):
        assert role in text
    assert "[direct]" in text
    assert "[same_shape]" in text
    assert max(map(len, result.stdout.splitlines())) <= 80
    data = json.loads(tell("case", folder, "rectangle_area", "--json").stdout)
    assert data["case"]["id"] == "rectangle_area"
    assert len(data["records"][0]["after"]) == len(data["case"]["probes"])
    missing = tell("case", folder, "circle")
    assert missing.exit_code == 2
    assert "has no case 'circle'" in missing.stderr


@pytest.mark.parametrize("name", ["none", "missing"])
def test_what_is_no_run_folder(tell, tmp_path, name):
    for command in (("score", name), ("case", name, "0")):
        result = tell(*command)
        assert result.exit_code == 2
        assert f"{name} is no run folder" in result.stderr
        assert "edit-harness ls runs" in result.stderr


def test_a_rule_that_cannot_be_read_is_a_case_of_its_own(tell, tmp_path):
    broken_rules(tmp_path, "x + (", 1)
    result = run(tell, "-t", "rule-edit", "--task-args", "data=rules.json", code=1)
    told = " ".join(result.stderr.split())
    assert "case rectangle_area: invalid_case: the formula 'x + (' cannot be read" in told


def test_the_judge_reads_what_the_data_say():
    """All formulas, descriptions and numbers: as the new rule, as the old one, and as the same."""
    judge, replies, expected = Symbolic(), [], []

    def ask(text, key, score, reverted=False):
        replies.append(Reply("", text, key))
        expected.append((score, reverted))

    for record in RuleEditDescription()._by_id.values():
        about = {name: record[name] for name in PLACE}
        texts = record["description_new"], record["description"]
        formulas = record["formula_new"], record["formula"]
        for kind, said in (("description", texts), ("formula", formulas)):
            key, like = Key(kind, *formulas, about), Key("same", said[0], "", {"of": kind, **about})
            ask(f" {said[0]}.", key, 1.0)
            ask(f" {said[1]}.", key, 0.0, True)
            ask(f" The {said[0].removeprefix('the ')}.", like, 1.0)
            ask(f" {said[1]}.", like, 0.0)
        for each in record["instances"]:
            key = Key(
                "number", each["answer_new"], each["answer_true"], {"unit": "", "steps": False}
            )
            ask(f" {each['answer_new']}.", key, 1.0)
            ask(f" {each['answer_true']}.", key, 0.0, True)
    for reply, verdict, (score, reverted) in zip(
        replies, judge.judge(replies), expected, strict=True
    ):
        assert (verdict.status, verdict.score, verdict.reverted) == ("decided", score, reverted), (
            reply
        )


def test_all_forms_are_there():
    names = {component.name for component in Plugins.installed().of_kind("task")}
    assert set(FORMS) <= names
    assert eh.Regime(in_turn=True) == Plugins.installed().find("task", FORMS[2]).load().regime


def test_a_bad_key_found_by_score_is_the_affair_of_its_case(tell, tmp_path):
    """As it is where the judge is asked at once; the others get their verdicts."""
    broken_rules(tmp_path, "x/0", 1)
    args = ("-t", "rule-edit", "--task-args", "data=rules.json")
    at_once = run(tell, *args, code=1)
    run(tell, *args, "--judge", "none", code=1)
    (folder,) = [
        p for p in tmp_path.glob("out/*") if '"judge": null' in (p / "manifest.json").read_text()
    ]
    result = tell("score", folder, "--judge", "symbolic")
    assert result.exit_code == 1
    assert result.stdout == at_once.stdout
    assert "another one now" not in tell("score", folder).stderr


def test_a_sequence_with_a_bad_key_has_its_end_where_it_is(tell, tmp_path):
    broken_rules(tmp_path, "x/0", 1)
    flags = ("--edit-mode", "sequential", "--eval-at", "each,1", "--limit", 3, "--json")
    result = run(tell, "-t", "rule-edit", "--task-args", "data=rules.json", *flags, code=1)
    results = json.loads(result.stdout)
    assert [point["cases"] for point in results["curve"]] == [1, 3]
    final = results["curve"][-1]["post_Loc,sequential"]
    assert final == results["results"]["post_Loc,sequential"]


def test_a_judge_that_fails_again_is_no_judge_of_the_run(tell, tmp_path, monkeypatch):
    run(tell, "-t", "rule-edit", "--judge", "none", code=1)
    (folder,) = tmp_path.glob("out/*")

    def fail(self, replies):
        raise RuntimeError("no connection")

    with monkeypatch.context() as patched:
        patched.setattr(Symbolic, "judge", fail)
        result = tell("score", folder, "--judge", "symbolic")
    assert result.exit_code == 1
    assert "RuntimeError: no connection" in " ".join(result.stderr.split())
    assert json.loads((folder / "manifest.json").read_text())["judged_by"] is None
    assert tell("score", folder, "--judge", "symbolic", "--metrics", "rule-locality").exit_code == 0
    results = json.loads((folder / "results.json").read_text())
    assert (results["pending"], "post_Rel,single" in results["results"]) == (0, True)


def test_runs_are_listed_with_what_they_have(tell, tmp_path):
    run(tell, "-t", "rule-edit", "--edit-mode", "sequential", "--eval-at", "each")
    (folder,) = tmp_path.glob("out/*")
    assert "2/2" in tell("ls", "runs", "-o", "out").stdout
    lines = (folder / "samples.jsonl").read_text().splitlines(keepends=True)
    (folder / "samples.jsonl").write_text("".join(lines[:-1]))
    assert "BROKEN: rows that results.json counts" in tell("ls", "runs", "-o", "out").stdout
    (folder / "results.json").unlink()
    assert "1/2" in tell("ls", "runs", "-o", "out").stdout


def test_people_say_how_often_the_judge_is_right(tell, tmp_path):
    """Who says of every reply what the judge says: it is always right."""
    run(tell, "-t", "rule-edit")
    (folder,) = tmp_path.glob("out/*")
    assert tell("annotate", "export", folder, "--out", "to", "--annotators", "ann").exit_code == 0
    sheet, key = tmp_path / "to" / "sheets" / "ann.csv", tmp_path / "to" / "key.json"
    with open(sheet, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    places = {item["item"]: item["place"] for item in json.loads(key.read_text())["items"]}
    records = {record.case: record for record in RunFolder(folder).records()}
    for row in rows:
        case, _, probe = places[row["item"]]
        answer = records[case].after[probe]
        row["right"] = "yes" if answer["verdict"]["score"] == 1 else "no"
    with open(sheet, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    result = tell("annotate", "import", folder, sheet, "--key", key, "--json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["judge"]
    assert (row["Any"], row["Majority"], row["Items"]) == (1, 1, len(rows))
    assert len(rows) == sum(map(len, (r.after for r in records.values())))
    assert tell("score", folder).exit_code == 0, "the labels are in nobody's way"
    assert tell("ls", "runs", "-o", "out").exit_code == 0
