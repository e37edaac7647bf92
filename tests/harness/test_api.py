"""The Python interface: the same path as the command line."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from support.builders import EDITOR, people, record

import edit_harness as eh
from edit_harness.edits import Edit
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.table import cases_digest
from edit_harness.registry.registry import Plugins
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.evaluation import assemble
from edit_harness.run.loop import run_all
from edit_harness.run.results import Results
from edit_harness.run.spec import RunSpec, Selection
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.report.facts import remarks
from edit_harness_plugins.commands.report.papers import unedited
from edit_harness_plugins.commands.run.local import turns

ROME = {"layer": 0, "steps": 4, "weight_decay": 0.0, "clamp": 4.0, "covariance": False,
        "context_count": 1}  # fmt: skip
NAMES = ("Ada", "Bob", "Ann", "Danielle")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of four cases that only is read."""
    folder = tmp_path_factory.mktemp("whole")
    return eh.evaluate(
        "rome", "counterfactplus", tiny_model(), editor_args=ROME,
        task_args={"data": people(folder, NAMES)}, output=folder / "results",
    )  # fmt: skip


REQUEST = eh.Request("{} lives in", "Ada Lovelace", "Oslo", "Paris")


@pytest.fixture
def evaluate(tmp_path, model):
    """Run ROME on four records and a tiny model, unless told otherwise."""

    def evaluate(**changes):
        settings = {
            "editor": "rome",
            "task": "counterfactplus",
            "model": model,
            "editor_args": ROME if changes.get("editor", "rome") == "rome" else {},
            "task_args": {"data": people(tmp_path, NAMES)},
            "output": tmp_path / "results",
        }
        return eh.evaluate(**{**settings, **changes})

    return evaluate


class Nudge(eh.Editor):
    """Changes next to nothing, by default nothing."""

    changed = 0.0

    def edit(self, model, requests):
        if not self.changed:
            return Edit()
        projection = model.architecture.projection(0)
        left, right = (torch.ones(size, 1) for size in projection.shape)
        return Edit(projection.low_rank(self.changed * left, right.T))


def test_a_run_says_what_it_has_and_where_it_comes_from(whole):
    estimate = whole["NS+"]
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.n == 4
    assert "NS+" in whole.table()
    assert whole.failures == []
    assert whole["pre_NS+"] == whole.estimates["pre_NS+"]
    with pytest.raises(KeyError, match=r"no measure 'XX'; it has .*pre_NS\+.* NS\+"):
        whole["XX"]  # item 20 of issue I
    manifest = whole.folder.manifest()
    editor = manifest.identity.editor
    assert (editor.fields["layer"], editor.fields["seed"]) == (0, 0)
    assert editor.version.startswith("edit-harness ")
    assert manifest.identity.model.dtype == "float32"
    (segment,) = manifest.segments
    assert segment.environment["torch"] == torch.__version__
    assert (manifest.label, manifest.cases) == ("rome[C=I]", ["0", "1", "2", "3"])
    # Item 11 of issue I: by metrics that say so.
    share = whole.estimates["pre_NS"].value
    assert dict(remarks(whole))["before"] == f"the unedited model has NS {share:.1%}"


def test_what_numbers_depend_on_is_in_the_folders_name(evaluate):
    def path(**changes):
        changes = {"limit": 1, "editor": "none", **changes}
        return evaluate(**changes).folder.path

    assert path(limit=2) == path()
    others = [
        {"seed": 1},
        {"editor": "rome"},
        {"editor": "rome", "editor_args": {**ROME, "lr": 0.25}},
        {"task": "counterfact"},
        {"metrics": ["success"]},
        {"model": tiny_model(dtype=torch.float64)},
    ]
    assert len({path(), *(path(**other) for other in others)}) == len(others) + 1


def test_the_unedited_model_is_its_own_baseline(evaluate):
    """An object of one's own serves as well as a name, and is known by its file."""
    for editor in ("none", Nudge()):
        run = evaluate(editor=editor)
        for name, estimate in run.estimates.items():
            if name.startswith("pre_"):
                assert run.estimates[f"post_{name[4:]}"] == estimate
        assert run["NKL"].value == run["NKL+"].value == 0
        assert run.results()["noop"] == 4
    assert run.label == "nudge"
    code = [part["name"] for part in run.manifest.distributions]
    assert code == ["edit-harness", "test_api.py"]


def test_objects_of_the_wrong_kind_are_said_to_be(evaluate, model):
    for call, cause in (
        (lambda: evaluate(model=model.module), "model"),
        (lambda: evaluate(edtor="rome"), "edtor"),
        (lambda: eh.edit("pocket", "rome", [REQUEST]), "pocket"),
        (lambda: eh.edit(model, "rome", []), "request"),
        (lambda: evaluate(limit=-1), "nothing to do"),
        (lambda: evaluate(limit=0), "nothing to do"),
        # item 20 of issue I
        (lambda: evaluate(editor=["rome", "ft"]), r"\['rome', 'ft'\] names no editor"),
    ):
        with pytest.raises(eh.UsageError, match=cause):
            call()
    assert eh.edit(model, "none", REQUEST).touches_nothing


@pytest.mark.parametrize(
    ("names", "cause"),
    [
        (["control:mine"], "a case 'control:mine', as only controls are called"),
        (["a", "a"], "1 ids twice, such as 'a'"),
    ],
)
def test_cases_whose_names_serve_for_no_row_are_refused(evaluate, names, cause):
    class Mistaken(eh.Task):
        metrics = ("success",)

        def cases(self):
            probe = eh.Probe("efficacy", eh.Choose(REQUEST.text, ("Oslo", "Paris")))
            return [eh.Case(name, (REQUEST,), (probe,)) for name in names]

    with pytest.raises(eh.DataError, match=cause):
        evaluate(task=Mistaken(), task_args={})


def test_the_manifest_says_what_code_a_run_is_of(evaluate, tmp_path, monkeypatch):
    """What is changed is another run."""
    file = tmp_path / "mine.py"
    file.write_text(
        EDITOR.replace("...", "return Edit()") + "\nfrom edit_harness.edits import Edit"
    )
    monkeypatch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(file))
    run = evaluate(editor="nothing", limit=1)
    ours, mine = run.manifest.distributions
    assert (ours["name"], ours["version"]) == ("edit-harness", version("edit-harness"))
    assert (mine["name"], mine["version"], mine["source"]) == ("mine.py", "", str(file))
    code = sorted((part["name"], part["digest"]) for part in (ours, mine))
    assert run.manifest.identity.code == code
    assert evaluate(editor="nothing", limit=1).folder.path == run.folder.path
    file.write_text(file.read_text() + "\n# changed\n")
    assert evaluate(editor="nothing", limit=1).folder.path != run.folder.path


def test_both_spellings_of_a_text_give_the_same_run(evaluate, tmp_path):
    """Item 1 of issue I: the same identity, the same bytes of answers."""

    def run(folder, space):
        facts = tmp_path / f"{folder}.json"
        new = {"str": f"{space}Oslo", "id": "Q585"}
        made = [record(i, subject=name, target_new=new) for i, name in enumerate(("Ada", "Bob"))]
        made[1]["neighborhood_prompts"][0] += space
        facts.write_text(json.dumps(made))
        return evaluate(task_args={"data": str(facts)}, output=tmp_path / folder)

    bare, spaced = run("bare", ""), run("spaced", " ")
    assert bare.folder.path.name == spaced.folder.path.name
    for one, other in zip(bare.records, spaced.records, strict=True):
        assert (list(one.before), list(one.after)) == (list(other.before), list(other.after))


def test_conflicting_edits_are_named_and_can_be_left_out(evaluate, tmp_path):
    """Item 12 of issue I."""
    made = [record(i, subject=name) for i, name in enumerate(("Ada", "Bob", "Ada", "Ann", "Bob"))]
    for i in (2, 4):
        made[i]["requested_rewrite"]["target_new"]["str"] = "Oslo"
    (tmp_path / "conflicts.json").write_text(json.dumps(made))
    given = {"data": str(tmp_path / "conflicts.json")}

    def run(*regime, **settings):
        made = evaluate(editor="none", task_args=given, regime=eh.Regime(*regime), **settings)
        return made, dict(remarks(made)).get("conflict", "")

    alone, said = run("single")
    assert (len(alone.planned), said) == (5, "")
    whole, said = run("batch", 0)
    assert said == (
        "2 cases in conflict with an earlier one of the same subject and relation, kept "
        "(--edit-conflicts drop leaves them out): 2 against 0, 4 against 1"
    )
    dropped, said = run("batch", 0, False, False, (), "", "drop")
    assert dropped.planned == ["0", "1", "3"]
    assert "left out: 2 against 0, 4 against 1" in said
    assert "conflicts dropped" in str(dropped.regime)
    assert dropped.folder.path != whole.folder.path
    limited, _ = run("sequential", 1, False, False, (), "", "drop", limit=2)
    assert limited.planned == ["0", "1"]


@pytest.mark.parametrize("changed", [1e-7, 1e-4])
def test_an_edit_that_changes_next_to_nothing_is_a_no_op(evaluate, changed):
    """Item 10 of issue I: what no table shows as another number."""
    editor = Nudge()
    editor.changed = changed
    run = evaluate(editor=editor)
    assert dict(remarks(run))["no-op"] == "4 of 4 edits changed no answer"
    assert not unedited(run)


def test_a_case_that_is_none_is_no_edit_that_changed_nothing(evaluate, tmp_path):
    data = json.loads(Path(people(tmp_path, NAMES)).read_text())
    data[0]["requested_rewrite"]["target_new"] = data[0]["requested_rewrite"]["target_true"]
    (tmp_path / "one.json").write_text(json.dumps(data))
    run = evaluate(editor="none", task_args={"data": str(tmp_path / "one.json")})
    assert dict(remarks(run))["no-op"] == "3 of 3 edits changed no answer"


def test_a_smaller_limit_is_a_view_of_the_folder(evaluate):
    """Item 3 of issue I: the folder keeps its cases, and the table says of how many it is."""
    whole = evaluate(editor="none")
    before = {path.name: path.read_bytes() for path in whole.folder.path.glob("[crs]*.json*")}
    part = evaluate(editor="none", limit=2)
    assert part.folder.path == whole.folder.path
    assert (part["ES"].n, len(part.cases), part.missing) == (2, 2, 0)
    assert ("note", "2 of the 4 cases in this folder") in list(remarks(part))
    assert {name: (whole.folder.path / name).read_bytes() for name in before} == before
    again = Results.read(RunFolder(whole.folder.path), whole.metrics)
    assert (again["ES"].n, len(again.cases), again.missing) == (4, 4, 0)
    assert not [text for _, text in remarks(again) if "in this folder" in text]


def test_what_was_interrupted_stays_planned(evaluate):
    """Item 3 of issue I: of four cases two are done, and a run of one does not plan the others away."""
    done = []

    def advance(record):
        done.append(record)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(editor="none", advance=advance)
    part = evaluate(editor="none", limit=1)
    assert (part["ES"].n, part.missing) == (1, 0)
    left = Results.read(RunFolder(part.folder.path), part.metrics)
    assert (len(left.cases), left.missing) == (4, 4 - len(left.everything))
    assert evaluate(editor="none")["ES"].n == 4


def test_samples_and_limits_make_one_folder_in_the_tasks_order(tmp_path, model):
    """Item 3 of issue I: what was chosen comes together, whatever the order of the commands."""
    plugins = Plugins.installed()
    benchmark = make_benchmark(
        plugins, "counterfact", {"data": people(tmp_path, NAMES)}, model.source
    )

    def run(**chosen):
        spec = RunSpec("none", "counterfact")
        made = assemble(plugins, model, benchmark, spec, Selection(**chosen))
        return run_all({made: made.open(tmp_path / "results")}, turns=turns)[0]

    ids = [case.id for case in benchmark.cases]
    assert run(samples=(ids[3], ids[1])).planned == [ids[1], ids[3]]
    assert run(limit=1).planned == ids[:1]
    assert run(samples=(ids[3],)).folder.manifest().cases == [ids[0], ids[1], ids[3]]
    whole = run()
    assert whole.planned == ids
    assert cases_digest(whole.cases) == whole.manifest.identity.task.data
    (whole.folder.path / "manifest.json").write_text("{")
    assert run(limit=2).folder.manifest().cases == ids, "rows say which there were"


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"seed": -1}, "could not be read back: Expected `int` >= 0 - at `seed`"),
        ({"regime": "batch"}, "'batch' is no regime"),
        ({"controls": "text"}, "controls is the text 'text'"),
        ({"preset": "of mine"}, "evaluate has no argument 'preset'"),
    ],
)
def test_settings_that_are_none_are_told_before_there_is_a_folder(tmp_path, given, cause):
    with pytest.raises(eh.UsageError, match=re.escape(cause)):
        eh.evaluate("none", limit=1, output=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()
