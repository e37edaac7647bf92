"""``sweep``: its points are ordinary runs of cases that tests leave alone, and its best is a preset."""

import json
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.builders import record
from support.commands import stored

from edit_harness.cli import main
from edit_harness_plugins.commands.run.preset_file import typed
from edit_harness_plugins.commands.studies.sweep import sweep as module

NAMES = ("Ada", "Bob", "Ann", "Danielle", "Marie", "Leo", "Paris")
TASK = ("-t", "counterfact", "--task-args", "data=facts.json")
PLAIN = "steps=3,weight_decay=0,clamp=4,context_count=0"
ROME = ("--editor-args", f"covariance=false,{PLAIN}")
GRID = ("--layers", "all", "--tokens", "subject_last,last")


def invoke(*args):
    shown = CliRunner().invoke(main, [*args])
    return shown, " ".join(shown.stderr.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a tiny model and seven records, of which the second has no use."""
    path = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        stored(path)
        facts = [record(i, subject=name) for i, name in enumerate(NAMES)]
        facts[1]["requested_rewrite"]["prompt"] = "no place for a subject"
        Path("facts.json").write_text(json.dumps(facts))
        yield path


def sweep(*args):
    return invoke("sweep", "-m", "tiny", *TASK, *args)


@pytest.fixture(scope="module")
def swept(folder):
    files = ("--save-preset", "best.json", "--html", "map.html", "-o", "dev")
    shown, told = sweep(*ROME, *GRID, "--dev", "2", "--json", *files)
    assert shown.exit_code == 0, shown.stderr
    return json.loads(shown.stdout), told


def test_the_last_cases_are_tried_and_a_point_is_the_run_of_its_fields(swept):
    data, told = swept
    assert data["cases"] == ["5", "6"]
    assert "the last 2 cases of 7; the first 5 are left to test: --limit 5" in told
    assert "4 points: layer 0, 1; fact_token subject_last, last" in told
    assert [tuple(point["fields"].values()) for point in data["points"]] == [
        *product((0, 1), ("subject_last", "last"))
    ]
    # Same folder, same numbers; the rows are there, so that nothing is run.
    point = data["points"][3]
    given = f"covariance=false,{PLAIN},layer=1,fact_token=last"
    shown, told = invoke("run", "-m", "tiny", *TASK, "--editor-args", given, "--samples", "5,6",
                         "-o", "dev", "--json")  # fmt: skip
    assert f"nothing is run: {point['run']} has it all" in told
    results = json.loads(shown.stdout)["results"]
    assert point["measures"]["ES"]["value"] == results["post_ES,single"]
    assert point["score"]["value"] == results["post_S,single"]
    assert len(list(Path("dev").iterdir())) == 4


def test_what_is_there_is_not_run_again(swept, monkeypatch):
    monkeypatch.setattr(module, "BESIDE", 3)
    before = {path: path.read_bytes() for path in Path("dev").glob("*/samples.jsonl")}
    shown, _ = sweep(*ROME, *GRID, "--dev", "2", "-o", "dev", "--json")
    assert json.loads(shown.stdout) == swept[0]
    assert before == {path: path.read_bytes() for path in before}
    shown, _ = sweep(*ROME, *GRID, "--dev", "2", "-o", "dev")
    assert "layer from left to right" in shown.stdout
    assert "best     layer=" in shown.stdout
    assert "<table" in Path("map.html").read_text()


def test_the_best_fields_become_a_preset(swept):
    data, _ = swept
    kept = json.loads(Path("best.json").read_text())
    assert kept["fields"].items() >= data["best"].items()
    assert kept["fields"]["steps"] == 3
    assert "seed" not in kept["fields"]
    assert (kept["chosen"], kept["points"]) == (["layer", "fact_token"], 4)
    assert list(kept["cases"]) == ["5", "6"]
    best = next(p for p in data["points"] if p["fields"] == data["best"])
    shown, told = invoke("run", "-m", "tiny", *TASK, "--preset", "best.json", "-L", "3")
    assert shown.exit_code in (0, 1), told  # the second record has no use
    (run,) = Path("results").iterdir()
    assert run.name == Path(best["run"]).name
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["preset"].startswith("tuned (layer, fact_token by 2 cases of counterfact, S ")
    assert "TUNED" not in told
    given = [f"{n}={typed(v)}" for n, v in kept["fields"].items() if not isinstance(v, list)]
    invoke("run", "-m", "tiny", *TASK, "--editor-args", ",".join(given), "--samples", "0,2,6", "-q")
    assert len(list(Path("results").iterdir())) == 1, "the fields are the same"
    again = json.loads((run / "manifest.json").read_text())
    assert (again["preset"], again["tuned"]["cases"]) == (manifest["preset"], 2)


def test_a_test_on_the_cases_it_was_chosen_by_says_so(swept):
    few = ("--samples", "0,6", "--editor-args", "steps=2")
    _, told = invoke("run", "-m", "tiny", *TASK, "--preset", "best.json", *few)
    assert "TUNED fields were chosen by 1 of these 2 cases: the numbers flatter them" in told
    assert "but for steps" in told


def test_edit_and_try_take_the_preset_too(swept):
    Path("facts.jsonl").write_text(
        json.dumps({"prompt": "{} lives in", "subject": "Ada", "target_new": "Oslo"})
    )
    fact = ("--prompt", "{} lives in", "--subject", "Ada", "--target", "Oslo")
    edit = ("--requests", "facts.jsonl", "--save", "e.safetensors")
    for command in (("edit", *edit), ("try", *fact), ("prepare",)):
        shown, told = invoke(*command, "-m", "tiny", "--preset", "best.json")
        assert shown.exit_code == 0, told
        shown, told = invoke(*command, "-m", "tiny", "-e", "ft", "--preset", "best.json")
        assert (shown.exit_code, "is of editor rome, not of ft" in told) == (2, True)


def test_one_field_has_a_table(folder):
    shown, told = sweep(*ROME, "--grid", "lr=0.1,0.5", "--editor-args", "layer=0", "--dev", "1",
                        "-o", "one", "-q")  # fmt: skip
    assert shown.exit_code == 0, told
    lines = shown.stdout.splitlines()
    assert lines[1].split()[:3] == ["lr", "S", "↑"]
    assert "from left to right" not in shown.stdout
    assert told == ""


@pytest.mark.parametrize(
    ("args", "code", "cause"),
    [
        ((*ROME, "--grid", "lr=0.5,-1"), 2, "at lr=-1.0: editor rome: field lr=-1.0 is not float > 0"),
        (("--layers", "0", "--editor-args", PLAIN), 4, "at layer=0: there is no second moment"),
        ((*ROME, "--layers", "0", "--dev", "4"), 2,
         "task counterfact has 6 cases, and --dev 4 would leave fewer than that to test"),
        ((*ROME, "--layers", "0", "--editor-args", "layer=1"), 2,
         "field layer is in the grid and in --editor-args"),
        ((*ROME, "--layers", "0", "-e", "rome,ft"), 2, "sweep takes one model and one editor"),
        ((*ROME, "--layers", "0", "--preset", "facts.json"), 4, "facts.json is no preset"),
        ((*ROME, "--layers", "0", "--measures", "RS"), 2, "has no measure 'RS'"),
        ((*ROME, *GRID, "--grid", "lr=1", "--png", "x.png"), 2,
         "--png draws one field or two, and the grid has 3"),
        (("-e", "ft", "--tokens", "last"), 2, "editor ft has no field 'fact_token'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_runs(folder, args, code, cause):
    shown, told = sweep("--dev", "1", "-o", "wrong", *args)
    assert (shown.exit_code, shown.stdout) == (code, ""), told
    assert cause in told
    assert not Path("wrong").exists()
