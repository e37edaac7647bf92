"""The tutorials are followed: their files run as plugins, and their packages pass the suites."""

import contextlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.commands import edit_harness
from support.pages import DOCS, TUTORIALS, blocks, files, followed, snippets

import edit_harness as eh
from edit_harness.cli import main
from edit_harness.registry.registry import Plugins
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.locate.rome import Rome

EACH = [(kind, page, name) for kind, (page, name, _) in TUTORIALS.items()]
PACKAGES = DOCS / "how-to" / "plugins.md"
each_page = pytest.mark.parametrize(("kind", "page", "name"), EACH, ids=TUTORIALS)


@pytest.fixture
def tell(monkeypatch, tmp_path):
    """Run a command as the pages show it, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def tell(command):
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
        return result.stdout

    return tell


@pytest.fixture
def class_of(monkeypatch, tmp_path):
    """Return the component of a page's file, loaded as by the command."""

    def class_of(kind) -> type:
        page, name, _ = TUTORIALS[kind]
        path = tmp_path / f"{name}.py"
        path.write_text(files(page)[path.name], encoding="utf-8")
        monkeypatch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(path))
        return Plugins.installed().find(kind, f"{path.name}/{name}").load()

    return class_of


@each_page
def test_the_file_is_short(kind, page, name):
    assert len(files(page)[f"{name}.py"].splitlines()) <= TUTORIALS[kind][2]


@each_page
def test_the_file_prints_what_the_page_shows(kind, page, name, tell):
    for path, source in files(page).items():
        if "/" not in path:
            Path(path).write_text(source, encoding="utf-8")
    shown = [(command, output) for command, output in followed(page) if "--plugin" in command]
    assert shown
    for command, output in shown:
        printed = rows(tell(command))
        for row in rows(output):
            assert any(alike(row, other) for other in printed), row


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.strip()]


def alike(row: list[str], other: list[str]) -> bool:
    """Tell whether rows have the same cells, but for a point where another machine rounds."""
    return len(row) == len(other) and all(map(near, row, other))


def near(cell: str, other: str) -> bool:
    with contextlib.suppress(ValueError):
        return float(cell) == pytest.approx(float(other), abs=1.0 if "." in cell else 0)
    return cell == other


def test_the_figures_in_the_text_are_those_of_a_run(class_of, tmp_path):
    """Of another layer of the editor, and of another judge of the same texts."""
    page = TUTORIALS["editor"][0]
    steepest = class_of("editor")
    said = re.search(r"`layer=0,length=1` ES is (\d+) and NS (\d+)", page.read_text("utf-8"))
    run = eh.evaluate(steepest(layer=0, length=1.0), "counterfact", limit=20, output=tmp_path)
    assert [100 * run[measure].value for measure in ("ES", "NS")] == [
        pytest.approx(float(figure), abs=1) for figure in said.groups()
    ]
    page = TUTORIALS["judge"][0]
    said = re.search(r"bundled judge `match`, .*?says (\d+)", page.read_text("utf-8"), re.DOTALL)
    run = eh.evaluate("rome", "mquake", judge="match", limit=10, output=tmp_path)
    assert 100 * run["IW"].value == pytest.approx(float(said[1]))


@pytest.fixture
def scaled(tmp_path, monkeypatch):
    """The page's editor that is made of another, as a plugin's file."""
    path = tmp_path / "scaled.py"
    path.write_text(files(TUTORIALS["editor"][0])[path.name], encoding="utf-8")
    monkeypatch.setenv("EDIT_HARNESS_PLUGIN_FILES", str(path))
    return Plugins.installed().find("editor", "scaled").load()


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ("inner=nosuch", "there is no editor 'nosuch'"),
        ("inner=rme", "there is no editor 'rme'; did you mean rome or r-rome?"),
        ("inner=rome,factr=2", "editor scaled has no field 'factr'; did you mean factor?"),
    ],
)
def test_an_editor_of_no_other_is_refused_before_the_run(scaled, tmp_path, given, cause):
    """Item 6 of issue I."""
    args = ["-e", "scaled", "--editor-args", given, "-L", "1", "-o", str(tmp_path / "out")]
    told = CliRunner().invoke(main, args)
    assert told.exit_code == 2, told.output
    assert f"error: {cause}\n       " in told.stderr
    assert not list((tmp_path / "out").glob("*"))


def test_an_editor_of_another_is_identified_with_it(scaled, tmp_path):
    """Item 6 of issue I: its fields, statistics and package; and it edits as many at once."""
    run = eh.evaluate("scaled", "counterfact", limit=2, output=tmp_path)
    identity = run.manifest.identity
    assert identity.editor.fields == {"inner": "rome", "factor": 0.5}
    names = {"1.rome.fields", "1.rome.moments"}
    assert identity.editor.provenance.keys() == names
    given = eh.evaluate(scaled(inner=Rome(steps=2)), "counterfact", limit=2, output=tmp_path)
    other = given.manifest.identity.editor
    assert other.fields["inner"]["steps"] == 2
    changed = {n for n in names if other.provenance[n] != identity.editor.provenance[n]}
    assert changed == {"1.rome.fields"}


def test_an_editor_that_changes_no_weights_is_not_scaled(scaled, tmp_path):
    """A stranger's review of issue 18."""
    run = eh.evaluate(scaled(inner="ike"), "counterfact", limit=2, output=tmp_path)
    said = [record.message for record in run.failures]
    assert len(said) == 2
    assert all("ike changes more than weights" in message for message in said), said


def test_wrong_fields_of_another_editor_are_refused():
    model = eh.load_model("pocket")
    for editor in ("rome", Rome()):
        with pytest.raises(eh.UsageError, match="editor rome has no field 'stps'; did you mean"):
            eh.inner(editor, model, stps=3)
        assert eh.inner(editor, model, steps=3).steps == 3


def test_what_another_editor_needs_is_prepared(scaled, tmp_path, monkeypatch):
    """The command makes what the parts need, before there is anything to prepare them with."""
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))
    told = CliRunner().invoke(main, ["prepare", "-e", "scaled", "--editor-args", "inner=alphaedit"])
    assert told.exit_code == 0, told.output
    assert "second moments are there (layers 0, 1)" in told.stdout
    assert len(list((tmp_path / "cache").rglob("alphaedit-*.safetensors"))) == 2


def test_a_strangers_editor_and_task_share_forward_passes(class_of, tmp_path, monkeypatch):
    """36 probes under nine edits in one call: fewer passes than there are edits."""
    editor, task = class_of("editor")(), class_of("task")()
    model, passes = tiny_model(), []
    forward = model.module.forward
    monkeypatch.setattr(
        model.module, "forward", lambda *a, **k: passes.append(1) or forward(*a, **k)
    )
    cases = list(task.cases())
    editor.edit(model, cases[0].requests)  # the first pass tries what this model allows
    passes.clear()
    edits = editor.edit_each(model, [case.requests for case in cases])
    assert len(passes) == len(cases)
    assert all(model.carries(edit) for edit in edits)
    asked = [(edit, p.query) for case, edit in zip(cases, edits, strict=True) for p in case.probes]
    assert len(asked) == 36
    model.answer(asked[:4])
    passes.clear()
    together = model.answer(asked)
    assert len(passes) < len(cases)
    alone = [model.answer([each])[0] for each in asked]
    assert [a.nll(0) for a in together] == pytest.approx([a.nll(0) for a in alone], abs=1e-4)
    run = eh.evaluate(editor, task, model, output=tmp_path)
    assert not run.failures
    assert run["ES"].n == len(cases)


@each_page
def test_the_entry_point_is_the_one_that_is_written(kind, page, name, tmp_path):
    (shown,) = blocks(page, "toml")
    assert edit_harness("plugins", "new", kind, name, "-o", tmp_path)[0] == 0
    root = tmp_path / f"edit-harness-{name}"
    written = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    group = tomllib.loads(shown)["project"]["entry-points"]
    assert written["project"]["entry-points"] == group
    (module,) = group["edit_harness"].values()
    hooks = (root / "src" / module / "__init__.py").read_text("utf-8")
    (factory,) = re.findall(rf'"({module}\.{kind}:\w+)"', page.read_text("utf-8"))
    assert f'"{factory}"' in hooks
    told = PACKAGES.read_text("utf-8").replace("NAME", name).replace("KIND", kind)
    for file in re.findall(r"^\| `(src/.+?|tests/|py.+?)` \|", told, re.MULTILINE):
        assert (root / file).exists(), file


def test_the_editor_with_an_adaptor_passes_its_suites(tell):
    """By the command of the page, which tries it with its defaults on a model of two layers."""
    page = TUTORIALS["editor"][0]
    Path("recall.py").write_text(files(page)["recall.py"], encoding="utf-8")
    (command,) = re.findall(r"`(edit-harness .* check recall\.py [^`]+)`", page.read_text("utf-8"))
    passed = set(re.findall(r"PASSED .*::test_(\w+)", tell(command)))
    assert {"is_saved_and_loaded", "accumulates", "keeps_no_gradients"} <= passed


@each_page
def test_snippets_run(kind, page, name):
    for source in snippets(page):
        with contextlib.suppress(eh.HarnessError):  # one shows how to raise it
            exec(source, {})  # noqa: S102


def test_every_kind_of_new_has_a_tutorial():
    kinds = main.get_command(None, "plugins").get_command(None, "new").params[0].type.choices
    assert set(kinds) == {*TUTORIALS, "command"}, "a command is told in docs/reference/hooks.md"
    assert all(f"({page.name})" in PACKAGES.read_text("utf-8") for page, *_ in TUTORIALS.values())
