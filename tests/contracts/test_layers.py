"""Who may import whom, what an import pulls in, and how long the command takes to start."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.builders import ROOT

HEAVY = {"torch", "transformers", "numpy", "scipy", "safetensors", "tokenizers"}
SECONDS = 0.3


def modules_after(code):
    """Return the top-level modules that are loaded once some code has run."""
    script = f"import sys\n{code}\nimport json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def command(*args):
    return (
        "import contextlib, io\nfrom edit_harness.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    main({list(args)!r})"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import edit_harness, edit_harness_plugins.tasks.counterfact, edit_harness_plugins.tasks.zsre",
        "import edit_harness_plugins.builders.counterfact, edit_harness_plugins.builders.seesaw",
        "from edit_harness.registry.registry import Plugins; assert Plugins.installed().components",
        command("--help"),
        command("run", "--help"),
        command("plugins"),
    ],
)
def test_nothing_heavy_is_imported(code):
    loaded = modules_after(code)
    assert "edit_harness" in loaded or "edit_harness_plugins" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize(
    "code", ["import edit_harness.folder.folder, edit_harness.run.report, edit_harness.stats",
             "import edit_harness_plugins.metrics.preference, edit_harness_plugins.metrics.drift",
             command("build-data", "counterfact", "--triples", "no.csv", "--output", "no.json"),
             command("show", "success"), command("show", "counterfactplus", "--stats")]
)  # fmt: skip
def test_metrics_and_records_do_without_torch(code):
    assert not modules_after(code) & {"torch", "transformers", "safetensors"}


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ({"_EDIT_HARNESS_COMPLETE": "bash_source"}, "_EDIT_HARNESS_COMPLETE=bash_complete $1"),
        ({"COMP_WORDS": "edit-harness ru", "COMP_CWORD": "1"}, "plain,run\n"),
        ({"COMP_WORDS": "edit-harness --edit-m", "COMP_CWORD": "1"}, "plain,--edit-mode\n"),
        ({"COMP_WORDS": "edit-harness run --edit-m", "COMP_CWORD": "2"}, "plain,--edit-mode\n"),
    ],
)
def test_a_shell_completes(asked, answered):
    """Item 20 of issue I: without torch, and nothing but what the shell reads is printed."""
    code = "from edit_harness.cli import main\nsys.argv = ['edit-harness']"
    ended = "import atexit; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{ended}\n{code}\nmain()"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "_EDIT_HARNESS_COMPLETE": "bash_complete", **asked},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "False\n")
    assert answered in done.stdout


def test_the_public_names_load_on_demand():
    assert "torch" in modules_after("import edit_harness; edit_harness.evaluate")
    with pytest.raises(subprocess.CalledProcessError):
        modules_after("import edit_harness; edit_harness.no_such_name")


def processor_seconds():
    """Return the processor time that all processes have taken that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_help_is_quick():
    took = []
    for _ in range(5):
        before = processor_seconds()
        subprocess.run(
            [sys.executable, "-m", "edit_harness", "--help"], stdout=subprocess.DEVNULL, check=True
        )
        took.append(processor_seconds() - before)
    # 0.25 s on a free machine; where all cores are busy half as much again.
    assert min(took) < 1.5 * SECONDS


# The contracts in .importlinter, also without `make lint`


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
