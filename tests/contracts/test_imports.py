"""What an import pulls in, and how long the command takes to start."""

import json
import os
import subprocess
import sys

import pytest

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
        "import edit_harness",
        "import edit_harness.hookspecs, edit_harness.registry.registry, edit_harness.registry.settings",
        "import edit_harness_plugins.editors, edit_harness_plugins.tasks",
        "import edit_harness_plugins.metrics, edit_harness_plugins.models",
        "import edit_harness_plugins.tasks.counterfact, edit_harness_plugins.tasks.zsre",
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
    "code", ["import edit_harness.folder.folder, edit_harness.run.report", "import edit_harness.stats",
             "import edit_harness_plugins.metrics.preference, edit_harness_plugins.metrics.drift",
             command("show", "counterfact"), command("show", "success"),
             command("build-data", "counterfact", "--triples", "no.csv", "--output", "no.json"),
             command("show", "zsre", "--stats"), command("show", "counterfactplus", "--stats")]
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


def test_help_imports_no_command():
    script = f"import sys\n{command('--help')}\nprint([m for m in sys.modules if m.startswith(P)])"
    done = subprocess.run(
        [sys.executable, "-c", f"P = 'edit_harness_plugins.commands.'\n{script}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    # What packs and builders are is imported by those that register them.
    assert set(eval(done.stdout)) <= {
        f"edit_harness_plugins.commands.{m}" for m in ("authoring", "studies", "studies.reproduce")
    }


def test_the_public_names_load_on_demand():
    assert "torch" in modules_after("import edit_harness; edit_harness.evaluate")
    with pytest.raises(subprocess.CalledProcessError):
        modules_after("import edit_harness; edit_harness.no_such_name")


def processor_seconds(*command):
    """Return the processor time that a command takes, in itself and in the system."""
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_is_quick():
    command = (sys.executable, "-m", "edit_harness", "--help")
    # 0.25 s on a free machine; where all cores are busy half as much again.
    assert min(processor_seconds(*command) for _ in range(5)) < 1.5 * SECONDS
