"""The tutorials are followed: their files run as plugins, and their packages pass the suites."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest
from support.commands import invoked
from support.pages import TUTORIALS, files, followed, snippets

import edit_harness as eh
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.editors.locate.rome import Rome

each_page = pytest.mark.parametrize("page", [page for page, _ in TUTORIALS.values()], ids=TUTORIALS)


@pytest.fixture
def tell(monkeypatch, tmp_path):
    """Run a command as the pages show it, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def tell(command):
        result = invoked(*shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
        return result.stdout

    return tell


@each_page
def test_the_file_prints_what_the_page_shows(page, tell):
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
    told = invoked(*args)
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
    told = invoked("prepare", "-e", "scaled", "--editor-args", "inner=alphaedit")
    assert told.exit_code == 0, told.output
    assert "second moments are there (layers 0, 1)" in told.stdout
    assert len(list((tmp_path / "cache").rglob("alphaedit-*.safetensors"))) == 2


def test_the_editor_with_an_adaptor_passes_its_suites(tell):
    """By the command of the page, which tries it with its defaults on a model of two layers."""
    page = TUTORIALS["editor"][0]
    Path("recall.py").write_text(files(page)["recall.py"], encoding="utf-8")
    (command,) = re.findall(r"`(edit-harness .* check recall\.py)`", page.read_text("utf-8"))
    passed = set(re.findall(r"PASSED .*::test_(\w+)", tell(command)))
    assert {"is_saved_and_loaded", "accumulates", "keeps_no_gradients"} <= passed


@each_page
def test_snippets_run(page):
    for source in snippets(page):
        with contextlib.suppress(eh.HarnessError):  # one shows how to raise it
            exec(source, {})  # noqa: S102
