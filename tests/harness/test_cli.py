"""Every command as a user types it: what it prints, and its exit code."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.builders import people, record
from support.commands import failed, stored

import edit_harness
import edit_harness_plugins
from edit_harness_plugins.command_line import VARIABLES

FAST = "steps=3,context_count=1"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A tiny random GPT-2 on disk."""
    return stored(tmp_path)


@pytest.fixture
def facts(tmp_path) -> str:
    """Three records of CounterFact's schema."""
    return people(tmp_path, ("Ada", "Bob", "Ann"))


def rome(tell, *args):
    return tell("--editor", "rome", "--editor-args", FAST, "--limit", 2, *args)


def test_the_main_job(tell, tmp_path):
    result = tell("--editor", "rome", "--task", "counterfactplus", "--editor-args", FAST, "-L", 3)
    assert result.exit_code == 0, result.stderr
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == ["Metric", "ES", "PS", "NS", "NS+", "S", "EM", "PM", "NM", "NM+", "NKL", "NKL+"]
    assert "99% CI" in result.stdout
    assert "numbers are a demonstration" in result.stderr
    (run,) = (tmp_path / "results").iterdir()
    assert len((run / "samples.jsonl").read_text().splitlines()) == 3
    files = "cases.jsonl lock manifest.json results.json samples.jsonl"
    assert sorted(path.name for path in run.iterdir()) == files.split()


def test_the_same_command_goes_on_and_reads_back(tell, tmp_path):
    first = rome(tell)
    (run,) = (tmp_path / "results").iterdir()
    lines = (run / "samples.jsonl").read_text().splitlines(keepends=True)
    (run / "samples.jsonl").write_text(lines[0] + lines[1][:100])
    (run / "results.json").unlink()
    again = rome(tell)
    assert again.stdout == first.stdout
    assert "removed 100 bytes of an unfinished row" in " ".join(again.stderr.split())
    rows = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    old = [json.loads(line) for line in lines]
    for row in (*rows, *old):
        del row["seconds"], row["crc"]
    assert rows == old


def test_combinations_end_in_one_table(tell, tmp_path):
    args = ("-t", "counterfact", "-t", "counterfactplus", "-L", 2, "--seed", "0,1")
    result = tell("-e", "none,prompt", *args)
    assert result.exit_code == 0, result.stderr
    table = result.stdout[result.stdout.index("Editor") :]
    rows = [line.split()[:3] for line in table.splitlines() if line.startswith(("none", "prompt"))]
    pairs = [(e, t, s) for e in ("none", "prompt") for t in ("counterfact", "counterfactplus")
             for s in "01"]  # fmt: skip
    assert sorted({tuple(row) for row in rows}) == pairs
    assert len(list((tmp_path / "results").iterdir())) == len(pairs)


def test_settings_samples_and_metrics_are_chosen(tell):
    result = tell("-e", "none,rome", "--editor-args", FAST, "-L", 1)
    assert result.exit_code == 0, result.stderr
    failed(tell("-e", "none,prompt", "--editor-args", "layer=1"), 2, "none of none, prompt has")
    result = tell("-e", "none", "--samples", "1,0", "--metrics", "success", "--json")
    found = json.loads(result.stdout)
    assert found["cases"] == 2
    assert not any("NKL" in key for key in found["results"])
    failed(tell("-e", "none", "--samples", "no-such"), 2, "the task has no case 'no-such'")


def test_json_is_all_there_is_on_stdout(tell):
    found = json.loads(rome(tell, "--json").stdout)
    assert (found["cases"], found["failed"], found["editor"]) == (2, {}, "rome")
    estimate = [k for k in found["results"] if k.startswith("post_NS+")]
    assert sorted(estimate) == [f"post_NS+{kind},single" for kind in ("", "_high", "_low", "_n")]
    assert rome(tell, "-q").stderr == ""


def test_flags_come_from_a_file_and_the_environment(tell, tmp_path, monkeypatch):
    def configured(text, *args):
        (tmp_path / "c.toml").write_text(text)
        return tell("-C", "c.toml", *args)

    settings = 'editor = "none"\nlimit = 1\noutput = "elsewhere"\n'
    assert json.loads(configured(settings, "--limit", 2, "--json").stdout)["cases"] == 2
    assert (tmp_path / "elsewhere").is_dir()
    monkeypatch.setenv("EDIT_HARNESS_LIMIT", "3")
    assert json.loads(configured(settings, "--json").stdout)["cases"] == 3
    monkeypatch.delenv("EDIT_HARNESS_LIMIT")
    result = configured("editor = 'ft'\n[editor-args]\nlayer = 2\nsteps = 1\n", "--limit", 1)
    assert "layer=2" in " ".join(result.stderr.split())
    assert configured("limit = 2.5\n").exit_code == 2
    failed(configured("quiet = 1\n"), 2, "c.toml: quiet is 1, and can be true or false")
    failed(configured("edtor = 'none'\n"), 2, "no flag 'edtor'; did you mean editor")


def test_variables_that_are_read_are_known_and_others_are_told(tell, monkeypatch):
    """Item 18 of issue I."""
    monkeypatch.setenv("EDIT_HARNESS_LIMT", "3")
    monkeypatch.setenv("EDIT_HARNESS_BATCH_SIZE", "3")
    result = tell("ls", "editors")
    assert result.exit_code == 0
    assert result.stderr == (
        "note     the variable EDIT_HARNESS_LIMT means nothing here; "
        "did you mean EDIT_HARNESS_LIMIT?\n"
    )
    own = [Path(package.__path__[0]) for package in (edit_harness, edit_harness_plugins)]
    texts = [file.read_text(encoding="utf-8") for at in own for file in at.rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\bEDIT_HARNESS_([A-Z_]+)\b", text)}
    assert read == set(VARIABLES)


def test_failed_cases_are_listed_and_give_code_1(tell, folder, tmp_path):
    rows = [record(0), record(1, subject="Bob " * 600)]
    (tmp_path / "facts.json").write_text(json.dumps(rows))
    args = ("-e", "ft", "-m", folder, "--task-args", "data=facts.json", "-t", "counterfact")
    result = tell(*args)
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "preset: guessed" in said
    assert "demonstration" not in said
    assert "failed 1 of 2 cases could not be used" in said
    assert "case 1: invalid_case" in said
    stopped = tell(*args, "--on-error", "stop", "--new")
    assert stopped.exit_code == 1
    assert "case 1 failed (invalid_case)" in " ".join(stopped.stderr.split())


@pytest.mark.parametrize(
    ("args", "code", "parts"),
    [
        (("show", "roem"), 3, ("did you mean rome",)),
        (("-q", "compare", "A", "B"), 2, ("A is no run folder",)),
        (("leaderboard", "submit", "A"), 2, ("submit --contact TEXT --tuned-on TEXT",)),
        (("-e", "rome", "-L", "1", "--editor-args", "layer=99"), 3, ("no layer 99", "0 to 5")),
        (("--seed", "9" * 26), 2, ("no whole number",)),
        (("-b", "0"), 2, ("no whole number from 1 on",)),
        (("--editor", ","), 2, ()),
        (("try", "--subject", "Ada"), 2, ("a fact has three parts", "--target")),
        (("prepare", "-e", "grace", "--data", "x"), 2, ("grace has no use for --data",)),
        (("prepare", "-e", "memit", "--import", "x"), 2, ("holds one layer", "import each")),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_what_is_typed_wrong_is_told_with_what_to_type(tell, args, code, parts):
    failed(tell(*args), code, *parts)


def test_one_combination_that_fails_does_not_take_the_others_with_it(tell, folder, facts):
    args = ("-t", "counterfact", "--task-args", f"data={facts}", "-L", 1)
    result = tell("-e", "none,rome", "-m", f"./nowhere,{folder},pocket", *args)
    assert result.exit_code == 4
    said = " ".join(result.stderr.split())
    assert "folder ./nowhere does not exist" in said
    assert "error: rome: there is no second moment" in said
    assert "missing 3 runs of 6" in said
    table = result.stdout[result.stdout.index("Editor") :]
    first = [line.split()[0] for line in table.splitlines()[:4]]
    assert first == ["Editor", "none", "none", "rome"]


def test_missing_statistics_name_the_command_that_makes_them(tell, folder, facts, tmp_path):
    fields = "layer=1,steps=3,weight_decay=0,clamp=4"
    run = ("-e", "rome", "-m", folder, "--task-args", f"data={facts}", "-L", 1)
    run = (*run, "--editor-args", f"{fields},context_count=1")
    failed(tell(*run), 4, "no second moment of layer 1", "edit-harness prepare", "covariance=false")
    (tmp_path / "corpus.txt").write_text(
        "\n\n".join(f"Ada {i} lives in Paris." for i in range(200))
    )
    prepare = ("prepare", "-e", "rome", "-m", folder, "--editor-args", fields)
    made = tell(*prepare, "--corpus", "corpus.txt", "--tokens", 1500)
    assert made.exit_code == 0, made.stderr
    assert "up to " in made.stdout
    assert "saved" in made.stdout
    assert tell(*run).exit_code == 0
    assert "are there" in tell(*prepare).stdout


def test_try_shows_both_sides(tell):
    result = tell("try", "--editor-args", FAST, "--prompt", "{} is a citizen of", "--subject",
                  "Sophia Loren", "--target", "Japan", "--ask", "Umberto Eco is a citizen of")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("max logit") == 4
    shown = json.loads(tell("try", "--editor-args", FAST, "--json").stdout)["views"][0]["before"]
    logits = [each["logit"] for each in shown["top"]]
    assert logits[0] == shown["max_logit"] == max(logits)


def test_version_and_help_and_nothing_is_left_in_the_working_folder(tell, tmp_path):
    assert tell("--version").stdout.startswith("edit-harness 0.")
    assert "--editor rome --task counterfactplus" in " ".join(tell("--help").stdout.split())
    assert "check" in tell("plugins", "--help").stdout
    tell("ls")
    tell("show", "rome")
    assert not list(tmp_path.iterdir())
    assert shutil.which("edit-harness", path=Path(sys.executable).parent)


def test_a_run_that_is_there_already_says_that_it_is_read_back(tell, tmp_path):
    run = ("-e", "none", "-t", "counterfact", "--output_path", "here", "-L", 1)
    assert "nothing is run" not in tell(*run).stderr
    again = tell(*run)
    assert again.exit_code == 0
    assert "nothing is run: here/none-counterfact" in again.stderr
    assert "--new runs it again" in " ".join(again.stderr.split())
    assert "nothing is run" not in tell(*run, "--new").stderr
    assert len(list((tmp_path / "here").iterdir())) == 2


MEASURING = """
from edit_harness import Measure, Metric, hookimpl

class Count(Metric):
    measures = {"Probes": Measure("the number of probes", unit="")}

    def measure(self, case, before, after):
        return {"post_Probes": float(len(case.probes))}

@hookimpl
def edit_harness_register_metrics(register):
    register("counting", Count, "Counts probes")
"""


def test_a_run_whose_plugin_is_gone_says_what_it_was_made_with(tell, folder, facts, tmp_path):
    (tmp_path / "mine.py").write_text(MEASURING)
    run = ("-e", "none", "-t", "counterfact", "--task-args", f"data={facts}", "-m", folder)
    result = tell(*run, "--metrics", "counting", "--plugin", "mine.py")
    assert result.exit_code == 0, result.stderr
    (made,) = (tmp_path / "results").iterdir()
    result = tell("score", made)
    failed(result, 3, "there is no metric 'counting'", "the run was made with mine.py")
    assert str(tmp_path / "mine.py") in result.stderr.replace("\n", "")
    assert tell("score", made, "--plugin", "mine.py").exit_code == 0
