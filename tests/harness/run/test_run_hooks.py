"""Hooks of a run, by a file that a user names: what it tries, previews and watches counts, or is told."""

import pytest
from click.testing import CliRunner

from edit_harness.cli import main
from edit_harness.folder.folder import RunFolder
from edit_harness.run.controls import ID

HEAD = "import torch\nfrom edit_harness import Choose, NextToken, hookimpl\n@hookimpl\n"
BATCH = ("--edit-mode", "batch", "--edit-batch-size", "2")


@pytest.fixture
def told(tmp_path):
    """Run two cases with a plugin; returns the exit code, what was said in one line, and the run's folder."""

    def told(code, *flags):
        (tmp_path / "mine.py").write_text(HEAD + code)
        out, plugin = str(tmp_path / "out"), str(tmp_path / "mine.py")
        command = ["-e", "none", "-L", "2", "--plugin", plugin, "-o", out, *flags, "--quiet"]
        result = CliRunner().invoke(main, command)
        folders = map(RunFolder, (tmp_path / "out").glob("*"))
        return result.exit_code, " ".join(result.stderr.split()), *folders

    return told


def test_what_a_plugin_watches_is_asked_instead_of_the_bundled_text(told):
    watch = "def edit_harness_watch(model):\n    return Choose('Ada', ('lives in Rome',))\n"
    code, _, folder = told(watch, *BATCH)
    (asked,) = (record for record in folder.records() if record.case == ID)
    assert (code, len(asked.after)) == (0, 1)
    assert len(asked.after[0]["logprobs"][0]) < 6  # and not the tokens of the bundled text


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("def edit_harness_try_model(model, case):\n    raise ValueError('no')\n", "try_model of mine.py failed: ValueError: no"),
        ("def edit_harness_watch(model):\n    return NextToken('Ada')\n", "watch of mine.py failed: TypeError: it returned NextToken"),
        ("def edit_harness_preview(model, cases):\n    return {}\n", "preview of mine.py failed: TypeError: it returned {}, which is no Preview"),
        ("def edit_harness_load_model(source, options):\n    return 42\n", "load_model of mine.py failed: TypeError: it returned 42, which is no Model"),
        ("def edit_harness_try_model(model, case):\n    with torch.no_grad():\n        next(model.module.parameters()).add_(1)\n",
         "a plugin's edit_harness_try_model changed the model itself"),
        ("def edit_harness_try_model(", "mine.py could not be loaded: SyntaxError"),
        ("def edit_harness_watch(modell):\n    return None\n", "mine.py could not be loaded: "),
    ],
)  # fmt: skip
def test_what_a_hook_does_wrong_is_told_with_its_name(told, code, cause):
    number, said, *folders = told(code, *BATCH)
    assert (number, cause in said) == (3, True), said
    assert not any(len(folder.records()) for folder in folders)
