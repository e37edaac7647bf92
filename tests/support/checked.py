"""Small packages that conform or do not, and the command ``check`` on them in a process of its own."""

import os
import re
import subprocess
import sys

from support.builders import distribution

METADATA = """Metadata-Version: 2.4
Name: {name}
Version: 1.0
Summary: One step of fixed length
License-Expression: MIT
Requires-Python: >=3.11
Requires-Dist: edit-harness
"""
REGISTRATION = """
from edit_harness import hookimpl
@hookimpl
def edit_harness_register_editors(register):
    register("steepest", "{module}_editor:Steepest", "One step of fixed length")
@hookimpl
def edit_harness_register_suites(register):
    register("steepest", "{module}_suite:TestSteepest", "A longer step")
"""
EDITOR = '''
import os, time
from dataclasses import dataclass
import torch
from edit_harness import Editor
from edit_harness.edits import Dense, Edit
from edit_harness.errors import PluginError

@dataclass
class Steepest(Editor):
    """Moves one projection against its gradient, by a fixed length."""

    layer: int = 0
    length: float = 1.0

    def edit(self, model, requests):
        name = f"{{model.architecture.projection(self.layer).name}}.weight"
        weight = model.parameter(name).detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model.nll(requests, {{name: weight}}).sum(), weight)
        {harm}
        return Edit({{name: Dense(-self.length * gradient / gradient.norm())}})
'''
SUITE = """
from edit_harness.testing import EditorTests
from {module}_editor import Steepest

class TestSteepest(EditorTests):
    editor = Steepest(length=2.0)
"""


def put(folder, name, registration=REGISTRATION, harm="pass", suite=SUITE):
    """Write an installed package with an editor and its suite."""
    module = name.replace("-", "_")
    folder.mkdir(exist_ok=True)
    (folder / f"{module}_editor.py").write_text(EDITOR.format(harm=harm), encoding="utf-8")
    (folder / f"{module}_suite.py").write_text(suite.format(module=module), encoding="utf-8")
    distribution(folder, name, registration.replace("{module}", module))
    info = folder / f"{module}-1.0.dist-info" / "METADATA"
    info.write_text(METADATA.format(name=name), encoding="utf-8")
    files = [f"{module}{part}.py,," for part in ("", "_editor", "_suite")]
    info.with_name("RECORD").write_text("\n".join(files), encoding="utf-8")
    return folder


def command(folder, *args, **env):
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    settings = {"PYTHONPATH": path, "COLUMNS": "80", "OMP_NUM_THREADS": "1", **env}
    return subprocess.run(
        [sys.executable, "-m", "edit_harness", "plugins", "check", *map(str, args)],
        capture_output=True, text=True, check=False, env=os.environ | settings,
    )  # fmt: skip


def checked(folder, *args, **env):
    """Return the exit code, what was printed, and what came of the checks by subject and name."""
    done = command(folder, *args, **env)
    said = re.findall(
        r"^\[gw\d+\] .*?([A-Z]+) checks\.py::Test (.+?)::test_(\S+)", done.stdout, re.MULTILINE
    )
    outcomes = {(subject, name.replace("_", " ")): outcome for outcome, subject, name in said}
    return done.returncode, done.stdout + done.stderr, outcomes
