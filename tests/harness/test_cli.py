"""Every command as a user types it: what it prints, and its exit code."""

import json
import re
import shutil
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from support.builders import IDENTITY, MANIFEST, record, with_entries
from support.commands import failed
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

import edit_harness
import edit_harness_plugins
from edit_harness import cli
from edit_harness.cli import main
from edit_harness.folder.folder import RunFolder
from edit_harness.testing.tiny import tiny_model
from edit_harness_plugins.editors import EDITORS

FAST = "steps=3,context_count=1"


@pytest.fixture
def tell(monkeypatch, tmp_path):
    """Run a command in an empty folder; return its result with stdout and stderr apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))

    def tell(*args):
        return CliRunner().invoke(main, [str(arg) for arg in args])

    return tell


@pytest.fixture
def folder(tmp_path) -> Path:
    """A tiny random GPT-2 on disk."""
    path = tmp_path / "tiny"
    model = tiny_model()
    model.module.save_pretrained(path)
    model.tokens.tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def facts(tmp_path) -> Path:
    """Three records of CounterFact's schema."""
    path = tmp_path / "facts.json"
    names = ("Ada", "Bob", "Ann")
    path.write_text(json.dumps([record(i, subject=name) for i, name in enumerate(names)]))
    return path


def rome(tell, *args):
    return tell("--editor", "rome", "--editor-args", FAST, "--limit", 2, *args)


def test_the_main_job(tell, tmp_path):
    result = tell("--editor", "rome", "--task", "counterfactplus", "--editor-args", FAST, "-L", 3)
    assert result.exit_code == 0, result.stderr
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == ["Metric", "ES", "PS", "NS", "NS+", "S", "EM", "PM", "NM", "NM+", "NKL", "NKL+"]
    assert "99% CI" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "numbers are a demonstration" in result.stderr
    (run,) = (tmp_path / "results").iterdir()
    assert len((run / "samples.jsonl").read_text().splitlines()) == 3
    assert {p.name for p in run.iterdir()} == {
        "cases.jsonl",
        "events.jsonl",
        "lock",
        "manifest.json",
        "results.json",
        "samples.jsonl",
    }


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


def test_a_larger_limit_goes_on(tell, tmp_path):
    rome(tell)
    (run,) = (tmp_path / "results").iterdir()
    before = (run / "samples.jsonl").read_text()
    assert tell("-e", "rome", "--editor-args", FAST, "-L", 3).exit_code == 0
    after = (run / "samples.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 3


def test_new_starts_a_sibling(tell, tmp_path):
    rome(tell)
    rome(tell, "--new")
    assert len(list((tmp_path / "results").iterdir())) == 2


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
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_settings_reach_the_editors_that_have_them(tell):
    result = tell("-e", "none,rome", "--editor-args", FAST, "-L", 1)
    assert result.exit_code == 0, result.stderr
    failed(tell("-e", "none,prompt", "--editor-args", "layer=1"), 2, "none of none, prompt has")


def test_json_is_all_there_is_on_stdout(tell):
    result = rome(tell, "--json")
    found = json.loads(result.stdout)
    assert found["cases"] == 2
    assert found["failed"] == {}
    estimate = {k: v for k, v in found["results"].items() if k.startswith("post_NS+")}
    assert sorted(estimate) == ["post_NS+,single", "post_NS+_high,single", "post_NS+_low,single",
                                "post_NS+_n,single"]  # fmt: skip
    assert estimate["post_NS+_low,single"] <= estimate["post_NS+,single"]


def test_quiet_says_nothing_but_the_table(tell):
    assert rome(tell, "-q").stderr == ""


def test_verbose_shows_every_measure(tell):
    assert "NKL-paper" not in rome(tell).stdout
    assert "NKL-paper" in rome(tell, "-v").stdout


def test_without_statistics_the_editor_is_renamed(tell):
    result = tell("-e", "rome", "--editor-args", f"{FAST},covariance=false", "-L", 1, "--json")
    assert json.loads(result.stdout)["editor"] == "rome[C=I]"


def test_samples_and_metrics_are_chosen(tell):
    result = tell("-e", "none", "--samples", "1,0", "--metrics", "success", "--json")
    found = json.loads(result.stdout)
    assert found["cases"] == 2
    assert not any("NKL" in key for key in found["results"])
    failed(tell("-e", "none", "--samples", "no-such"), 2, "the task has no case 'no-such'")


def test_flags_come_from_a_file_and_the_environment(tell, tmp_path, monkeypatch):
    (tmp_path / "c.toml").write_text('editor = "none"\nlimit = 1\noutput-path = "elsewhere"\n')
    result = tell("-C", "c.toml", "--limit", 2, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["cases"] == 2
    assert (tmp_path / "elsewhere").is_dir()
    monkeypatch.setenv("EDIT_HARNESS_LIMIT", "3")
    assert json.loads(tell("-C", "c.toml", "--json").stdout)["cases"] == 3
    (tmp_path / "d.toml").write_text("editor = 'ft'\n[editor-args]\nlayer = 2\nsteps = 1\n")
    monkeypatch.delenv("EDIT_HARNESS_LIMIT")
    assert "layer=2" in " ".join(tell("-C", "d.toml", "-L", 1).stderr.split())
    (tmp_path / "e.toml").write_text("limit = 2.5\n")
    assert tell("-C", "e.toml").exit_code == 2
    (tmp_path / "f.toml").write_text("quiet = 1\n")
    failed(tell("-C", "f.toml"), 2, "f.toml: quiet is 1, and can be true or false")
    (tmp_path / "c.toml").write_text("edtor = 'none'\n")
    failed(tell("run", "-C", "c.toml"), 2, "no flag 'edtor'; did you mean editor")


def test_a_misspelt_variable_is_told(tell, monkeypatch):
    """Item 18 of issue I."""
    monkeypatch.setenv("EDIT_HARNESS_LIMT", "3")
    monkeypatch.setenv("EDIT_HARNESS_BATCH_SIZE", "3")
    result = tell("ls", "editors")
    assert result.exit_code == 0
    assert result.stderr == (
        "note     the variable EDIT_HARNESS_LIMT means nothing here; "
        "did you mean EDIT_HARNESS_LIMIT?\n"
    )


def test_every_variable_that_is_read_is_known():
    own = [Path(package.__path__[0]) for package in (edit_harness, edit_harness_plugins)]
    texts = [file.read_text(encoding="utf-8") for at in own for file in at.rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\bEDIT_HARNESS_([A-Z_]+)\b", text)}
    assert read == set(cli.VARIABLES)


def test_variables_are_called_as_flags_are():
    context = click.Context(main)
    found = [o for n in main.list_commands(context) for o in main.get_command(context, n).params]
    for option in found:
        flags = [flag.lstrip("-").replace("-", "_") for flag in option.opts]
        known = option.name in ("as_json", "form", "imported", "list_", "number", "words")
        assert known or option.name in flags


def test_underscores_work_in_flags(tell):
    assert tell("--editor", "none", "--output_path", "here", "-L", 1).exit_code == 0


def test_a_model_of_ones_own(tell, folder, facts):
    result = tell("-e", "ft", "-m", folder, "--task-args", f"data={facts}", "-t", "counterfact")
    assert result.exit_code == 0, result.stderr
    assert "preset: guessed" in " ".join(result.stderr.split())
    assert "demonstration" not in result.stderr


def test_failed_cases_are_listed_and_give_code_1(tell, folder, tmp_path):
    rows = [record(0), record(1, subject="Bob " * 600)]
    (tmp_path / "facts.json").write_text(json.dumps(rows))
    result = tell("-e", "ft", "-m", folder, "--task-args", "data=facts.json", "-t", "counterfact")
    assert result.exit_code == 1
    assert "failed 1 of 2 cases" in " ".join(result.stderr.split())
    assert "case 1: too_long" in " ".join(result.stderr.split())
    stopped = tell("-e", "ft", "-m", folder, "--task-args", "data=facts.json", "-t", "counterfact",
                   "--on-error", "stop", "--new")  # fmt: skip
    assert stopped.exit_code == 1
    assert "case 1 failed (too_long)" in " ".join(stopped.stderr.split())


# What is wrong, and what to do


def test_unknown_names(tell):
    failed(
        tell("-e", "romme"),
        3,
        "no editor 'romme'; did you mean rome or r-rome?",
        "installed: alphaedit, emmet, ft, ft-l",
    )
    failed(tell("-t", "counterfacts"), 3, "did you mean counterfact")
    failed(tell("--metrics", "sucess"), 3, "did you mean success?")
    failed(tell("-e", "rome", "--editor-args", "lyer=3"), 2, "did you mean layer", "its fields:")
    failed(tell("-e", "rome", "--editor-args", "layer=x"), 2, "layer='x' is not int")
    failed(tell("-e", "rome", "--editor-args", "layer"), 2, "KEY=VALUE")
    assert "did you mean plugins?" in tell("plugin").stderr
    assert tell("plugin").exit_code == 2
    assert tell("--no-such-flag").exit_code == 2
    failed(tell("show", "roem"), 3, "did you mean rome")


def test_values_that_make_no_sense(tell):
    failed(tell("-e", "rome", "--editor-args", "lr=nan"), 2, "lr=nan is not float > 0")
    failed(tell("-e", "rome", "--editor-args", "steps=0"), 2, "steps=0 is not int >= 1")
    failed(tell("--seed", "-1"), 2, "'-1' is no whole number from 0 on")
    failed(tell("--seed", "9" * 26), 2, "no whole number")
    failed(tell("-b", "0"), 2, "no whole number from 1 on")
    assert tell("--editor", ",").exit_code == 2
    assert tell("--model", "").exit_code == 2


def test_one_combination_that_fails_does_not_take_the_others_with_it(tell, folder, facts):
    args = ("-t", "counterfact", "--task-args", f"data={facts}", "-L", 1)
    result = tell("-e", "none,rome", "-m", f"./nowhere,{folder},pocket", *args)
    assert result.exit_code == 4
    said = " ".join(result.stderr.split())
    assert "folder ./nowhere does not exist" in said
    assert "no second moment" in said
    table = result.stdout[result.stdout.index("Editor") :]
    assert [line.split()[0] for line in table.splitlines()[:4]] == [
        "Editor",
        "none",
        "none",
        "rome",
    ]


def test_one_damaged_folder_does_not_take_the_other_editors_with_it(tell, folder, facts, tmp_path):
    args = ("-m", folder, "--task-args", f"data={facts}", "-t", "counterfact", "-o", "out")
    assert tell("-e", "ft,none", "--editor-args", "layer=0", *args).exit_code == 0
    (samples,) = tmp_path.glob("out/ft-*/samples.jsonl")
    samples.write_text("{\n" + samples.read_text())
    (other,) = tmp_path.glob("out/none-*/samples.jsonl")
    whole = other.read_text()
    other.write_text("")
    result = tell("-e", "ft,none", "--editor-args", "layer=0", *args)
    assert result.exit_code == 7
    assert "row 0 of" in result.stderr
    assert len(other.read_text().splitlines()) == len(whole.splitlines()) == 3
    assert samples.read_text().startswith("{\n")


def test_a_model_that_is_not_there_is_found_before_its_data(tell):
    failed(tell("-e", "none", "-m", "./nope"), 4, "folder ./nope does not exist")
    failed(tell("-e", "none", "-m", "pokcet"), 4, "did you mean pocket?")


def test_layers_that_do_not_exist(tell):
    failed(rome(tell, "--editor-args", "layer=99"), 3, "no layer 99", "0 to 5")


def test_data_that_is_not_right(tell, tmp_path):
    failed(rome(tell, "--task-args", "data=no.json"), 4, "there is no file 'no.json'")
    lines = [json.dumps(record(0)), json.dumps(record(1, subject=None))]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    failed(rome(tell, "--task-args", "data=a.jsonl"), 4, "a.jsonl: line 2, record 2", "subject")
    (tmp_path / "b.jsonl").write_text(json.dumps(record(0, prompt="lives in")))
    failed(
        rome(tell, "--task-args", "data=b.jsonl"), 4, "b.jsonl: line 1", "prompt` has 0 places '{}'"
    )
    (tmp_path / "c.json").write_text(json.dumps([record(0)]))
    failed(rome(tell, "--task-args", "data=download"), 4, "HF_HUB_OFFLINE=1 forbids downloads")


def test_models_that_are_not_right(tell, folder, tmp_path, facts):
    def ft(path):
        return tell("-e", "ft", "-m", path, "--task-args", f"data={facts}")

    failed(ft("./nowhere"), 4, "folder ./nowhere does not exist")
    (tmp_path / "empty").mkdir()
    failed(ft("./empty"), 4, "has no config.json")
    failed(ft("someone/some-model"), 4, "not in the cache and HF_HUB_OFFLINE=1")
    bert = AutoConfig.for_model("bert", hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                intermediate_size=32, vocab_size=64)  # fmt: skip
    AutoModelForMaskedLM.from_config(bert).save_pretrained(tmp_path / "bert")
    failed(ft("./bert"), 4, "masked language model")
    weights = load_file(folder / "model.safetensors")
    weights["transformer.h.0.mlp.c_proj.weight"][:] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    failed(ft(folder), 4, "NaN")


def test_a_model_without_a_projection(tell, tmp_path, facts):
    config = AutoConfig.for_model("mixtral", hidden_size=32, num_hidden_layers=2,
                                  num_attention_heads=2, num_key_value_heads=2,
                                  intermediate_size=32, vocab_size=512,
                                  num_local_experts=2)  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "moe")
    tiny_model().tokens.tokenizer.save_pretrained(tmp_path / "moe")
    args = ("-m", tmp_path / "moe", "--task-args", f"data={facts}", "-L", 1)
    failed(tell("-e", "ft", *args), 3, "no MLP output projection", "mixtral", "such as prompt")
    assert tell("-e", "prompt", *args).exit_code == 0


def test_missing_statistics_name_the_command_that_makes_them(tell, folder, facts, tmp_path):
    args = ("-m", folder, "--task-args", f"data={facts}", "--editor-args",
            f"{FAST},layer=1,weight_decay=0,clamp=4", "-L", 1)  # fmt: skip
    result = tell("-e", "rome", *args)
    failed(result, 4, "no second moment of layer 1", "edit-harness prepare", "covariance=false")
    (tmp_path / "corpus.txt").write_text(
        "\n\n".join(f"Ada {i} lives in Paris." for i in range(200))
    )
    made = tell("prepare", "-e", "rome", "-m", folder, "--corpus", "corpus.txt", "--editor-args",
                "layer=1,steps=3,weight_decay=0,clamp=4", "--tokens", 1500)  # fmt: skip
    assert made.exit_code == 0, made.stderr
    assert "up to " in made.stdout
    assert "saved" in made.stdout
    assert tell("-e", "rome", *args).exit_code == 0
    again = tell("prepare", "-m", folder, "--editor-args", "layer=1,steps=3,weight_decay=0,clamp=4")
    assert "are there" in again.stdout


def test_places_that_cannot_be_written(tell, tmp_path):
    (tmp_path / "file").write_text("")
    failed(rome(tell, "-o", "file/results"), 5, "cannot be written", "--output-path")


def test_devices_and_dtypes(tell):
    failed(rome(tell, "--device", "cuda:7"), 2, "cuda:7", "--device cpu")
    failed(rome(tell, "--dtype", "int8"), 2, "no dtype 'int8'", "float32")
    failed(rome(tell, "--model-args", "revison=x"), 2, "no model argument 'revison'")


# The other commands


def test_ls_and_plugins_name_everything(tell):
    listed = tell("ls").stdout
    for name in ("rome", "ft-l", "counterfactplus", "nkl", "pocket"):
        assert name in listed
    assert max(map(len, listed.splitlines())) <= 80
    editors = json.loads(tell("ls", "editors", "--json").stdout)["editors"]
    assert [e["name"] for e in editors] == sorted(EDITORS)
    assert "adaptors" not in listed
    assert "codebook" in tell("ls", "adaptors").stdout
    assert "edit-harness" in tell("plugins").stdout
    rome(tell)
    assert "2/2" in tell("ls", "runs").stdout


@pytest.mark.parametrize(
    "name", ["rome", "ft-l", "counterfactplus", "nkl", "pocket", "none", "grace", "codebook"]
)
def test_show_has_a_card(tell, name):
    result = tell("show", name)
    assert result.exit_code == 0
    assert name in result.stdout
    assert json.loads(tell("show", name, "--json").stdout)["summary"]


def test_an_adaptor_has_no_settings_to_show(tell):
    assert "fields" in json.loads(tell("show", "grace", "--json").stdout)
    assert "fields" not in json.loads(tell("show", "codebook", "--json").stdout)


def test_try_shows_both_sides(tell):
    result = tell("try", "--editor-args", FAST, "--prompt", "{} is a citizen of", "--subject",
                  "Sophia Loren", "--target", "Japan", "--ask", "Umberto Eco is a citizen of")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("max logit") == 4
    assert "before" in result.stdout
    assert "Sophia Loren is a citizen of Japan. Umberto Eco" in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 80
    shown = json.loads(tell("try", "--editor-args", FAST, "--json").stdout)
    top = shown["views"][0]["before"]["top"]
    assert (
        top[0]["logit"] == shown["views"][0]["before"]["max_logit"] == max(t["logit"] for t in top)
    )
    failed(tell("try", "--subject", "Ada"), 2, "a fact has three parts", "--target")


def test_prepare_fetches_tasks(tell):
    result = tell("prepare", "-t", "counterfact")
    assert result.exit_code == 0
    assert "cases of bundled sample" in result.stdout


def test_version_and_help(tell):
    assert tell("--version").stdout.startswith("edit-harness 0.")
    assert "--editor rome --task counterfactplus" in " ".join(tell("--help").stdout.split())
    for command in ("run", "ls", "show", "plugins", "prepare", "try"):
        assert command in tell("--help").stdout
        assert tell(command, "--help").exit_code == 0


def test_nothing_is_left_in_the_working_folder(tell, tmp_path):
    before = set(tmp_path.iterdir())
    tell("ls")
    tell("show", "rome")
    assert set(tmp_path.iterdir()) == before
    assert shutil.which("edit-harness")
    assert torch.get_default_dtype() == torch.float32


def test_prepare_refuses_what_an_editor_has_no_use_for(tell):
    failed(tell("prepare", "-e", "grace", "--data", "x"), 2, "grace has no use for --data")
    failed(tell("prepare", "-e", "rome", "--data", "x"), 2, "rome has no use for --data")
    failed(tell("prepare", "-e", "grace", "--import", "x"), 2, "grace has no use for --import")
    failed(tell("prepare", "-e", "memit", "--import", "x"), 2, "holds one layer", "import each")


def test_metrics_with_nothing_to_measure_say_so(tell):
    result = tell("-e", "none", "-t", "counterfact", "--metrics", "fluency", "-L", 1)
    assert result.exit_code == 0
    assert "fluency: nothing to measure in these cases" in result.stderr


def test_a_damaged_run_hides_no_other(tell, folder):
    for name, text in (("a", "{bad"), ("b", "[1]")):
        Path("results", name).mkdir(parents=True)
        Path("results", name, "manifest.json").write_text(text)
    whole = RunFolder.open(Path("results"), "c", IDENTITY, new=False)
    whole.write_manifest(with_entries(MANIFEST, cases=["0"], visits=1))
    result = tell("ls", "runs")
    assert result.exit_code == 0
    assert result.stdout.count("BROKEN") == 2
    assert "0/1" in result.stdout


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


def test_a_run_that_is_there_already_says_that_it_is_read_back(tell, folder, facts):
    run = ("-e", "none", "-t", "counterfact", "--task-args", f"data={facts}", "-m", folder)
    assert "nothing is run" not in tell(*run).stderr
    again = tell(*run)
    assert again.exit_code == 0
    assert "nothing is run: results/none-counterfact" in again.stderr
    assert "--new runs it again" in " ".join(again.stderr.split())
    assert "nothing is run" not in tell(*run, "--new").stderr
