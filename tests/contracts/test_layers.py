"""Who may import whom: the contracts in .importlinter, also without `make lint`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.builders import ROOT

LINTER = Path(sys.executable).with_name("lint-imports")
FORBIDDEN = """
[importlinter:contract:false]
name = What is not so
type = forbidden
source_modules = {source}
forbidden_modules = {target}
"""


def lint(config, tmp_path):
    command = [LINTER, "--config", config, "--no-cache"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_layers_hold(tmp_path):
    done = lint(ROOT / ".importlinter", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_every_family_of_editors_is_found_by_name():
    """The contract lists them, since `_search` beside them is a library."""
    families = {p.parent.name for p in (ROOT / "plugins" / "editors").glob("[a-z]*/__init__.py")}
    named = re.findall(
        r"edit_harness_plugins\.editors\.(\w+)$",
        (ROOT / ".importlinter").read_text("utf-8"),
        re.MULTILINE,
    )
    assert set(named) == families | {"none"}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("edit_harness.folder.folder", "numpy"),
        ("edit_harness_plugins.editors", "torch"),
        ("edit_harness_plugins.tasks", "edit_harness"),
    ],
)
def test_the_linter_sees_what_is_imported(source, target, tmp_path):
    """Both packages are found under their import names, whatever their folders are called."""
    text = (ROOT / ".importlinter").read_text(encoding="utf-8")
    config = tmp_path / ".importlinter"
    config.write_text(text + FORBIDDEN.format(source=source, target=target), encoding="utf-8")
    done = lint(config, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "What is not so BROKEN" in done.stdout
