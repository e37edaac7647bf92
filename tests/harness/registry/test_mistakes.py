"""Whose fault errors of plugins are said to be, and what they change that is put back."""

import os
import random
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from support.commands import failed

from edit_harness.cli import main
from edit_harness.errors import DataError, Terminated
from edit_harness.registry import guard
from edit_harness.registry.guard import blamed, said

CHANGES = {
    "the working directory": lambda: os.chdir("/"),
    "the environment": lambda: os.environ.update(EDIT_HARNESS_CACHE="/nowhere", NEW="1"),
    "Python's random state": lambda: random.seed(7),
    "numpy's random state": lambda: np.random.seed(7),
    "torch's random state": lambda: torch.manual_seed(7),
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "gradient mode": lambda: torch.set_grad_enabled(False),
    "the number of torch's threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_an_import_changes_is_put_back_and_named(name):
    before = guard.read()
    for error in (None, ImportError()):
        with suppress(ImportError), guard.importing("x") as went:
            CHANGES[name]()
            if error:
                raise error
        assert not guard.changes(before, guard.read())
        assert went.notes == [f"changed {name} while it was loaded; that was put back"]


def test_libraries_that_are_not_loaded_are_not_watched(monkeypatch):
    """Nor imported for it: most commands need neither."""
    for name in ("numpy", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    assert guard.put_back({"gradient mode": None, "numpy's random state": None}) == []


def test_what_is_printed_while_plugins_are_at_work_goes_where_messages_go(capsys):
    with guard.measuring():
        print("hello")
    print("result")
    assert capsys.readouterr() == ("result\n", "hello\n")


class Odd:
    def work(self):
        raise ValueError("two\n lines")

    def asks(self, function):
        function()


LINE = Odd.work.__code__.co_firstlineno + 1


def raised(function, *args):
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        function(*args)
    return caught.value


def test_an_error_is_said_in_one_line_with_the_line_of_its_author():
    error = raised(Odd().work)
    assert said(error) == "ValueError: two lines"
    assert (
        said(error, Odd()) == said(error, Odd) == f"ValueError: two lines (test_mistakes.py:{LINE})"
    )
    assert said(KeyError()) == "KeyError"
    told = DataError("no file", "fetch it")
    assert said(told, Odd()) == "DataError: no file; fetch it", "for users, and no line"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Terminated(), DataError("x")])
def test_what_is_not_the_plugins_passes(error):
    with pytest.raises(type(error)), blamed("odd failed", Odd()):
        raise error


HEAD = """
import sys
from dataclasses import dataclass, field
from edit_harness import *
from edit_harness.edits import Edit

CASE = Case("a", (Request("{} lives in", "Ada", "Rome", "Oslo"),), (
    Probe("efficacy", Choose("Ada lives in", ("Rome", "Oslo"))),
))

class Good(Editor):
    def edit(self, model, requests):
        return Edit()

class Counts(Metric):
    measures = {"X": Measure("x")}
    def measure(self, case, before, after):
        return {"post_X": 1.0}

class Listed(Task):
    metrics = ("success",)
    def cases(self):
        yield CASE

class Fair(Judge):
    kinds = {"match": "m"}
    def judge(self, replies):
        return []

"""
HOOK = """
@hookimpl
def edit_harness_register_{kind}s(register):
    register("mine", {factory}, "x")
"""


@pytest.fixture
def tell(monkeypatch, tmp_path):
    """Write a plugin, and run a command with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("EDIT_HARNESS_PLUGINS", "edit-harness")

    def tell(kind, source, *args, factory="Mine"):
        (tmp_path / "mine.py").write_text(HEAD + source + HOOK.format(kind=kind, factory=factory))
        return CliRunner().invoke(main, [*args, "--plugin", "mine.py"])

    return tell


RUN = {
    "editor": ("run", "-e", "mine", "-t", "counterfact", "-L", "2", "-q"),
    "task": ("run", "-e", "none", "-t", "mine", "-q"),
    "metric": ("run", "-e", "none", "-t", "counterfact", "--metrics", "mine", "-L", "2", "-q"),
    "show": ("show", "mine", "--stats"),
}

EXIT = "sys.exit(0)"


@pytest.mark.parametrize(
    ("kind", "source", "factory", "parts"),
    [
        ("editor", "", "Good()", ("is no Editor", "register the class")),
        ("editor", "", "object", ("is no Editor", "a subclass of that")),
        ("editor", "class Mine(Editor): pass", "Mine", ("has no edit", "has to define it")),
        ("metric", "", "Metric", ("has no measure",)),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_in_show_and_run(tell, kind, source, factory, parts):
    for command in (("show", "mine"), RUN[kind]):
        result = tell(kind, source, *command, factory=factory)
        failed(result, 3, kind, "mine", "of mine.py", *parts)
        assert "kept:" not in result.stderr
        assert not result.stdout


@pytest.mark.parametrize(
    ("kind", "method", "what", "end"),
    [
        ("metric", "measure(self, case, before, after)", "failed on case 0", EXIT),
        ("metric", "summarize(self, columns)", "failed to sum up its values", EXIT),
        ("metric", "tables(self, cases, columns)", "failed to make its tables", EXIT),
        ("task", "cases(self)", "failed to read its cases", EXIT),
        ("task", "cases(self)", "failed to read its cases", "raise BaseExceptionGroup('g', [SystemExit(0)])"),
        ("task", "bind(self, source)", "failed to take the model's data", EXIT),
        ("task", "composition(self)", "failed to count its data", EXIT),
        ("editor", "prepare(self, model)", "failed to prepare for the model", EXIT),
    ],
)  # fmt: skip
def test_a_plugin_that_exits_is_named(tell, kind, method, what, end):
    base = {"metric": "Counts", "task": "Listed", "editor": "Good"}[kind]
    source = f"class Mine({base}):\n    def {method}: {end}\n"
    line = HEAD.count("\n") + 2
    command = RUN["show" if "composition" in method else kind]
    result = tell(kind, source, *command)
    assert (result.exit_code, "Traceback" in result.output) == (3, False), result.output
    said = " ".join(result.stderr.split())
    assert f"{kind} mine of mine.py {what}: " in said
    assert f"(mine.py:{line})" in said


def test_what_exits_elsewhere_ends_no_command_as_if_all_were_well(tell):
    source = "class Mine(Good):\n    provenance = property(lambda self: sys.exit(0))\n"
    failed(tell("editor", source, *RUN["editor"]), 3, "a plugin ended the program: SystemExit: 0")


@pytest.mark.parametrize(
    ("cases", "part"),
    [
        ("[3]", "failed to read its cases: TypeError"),
        ("[Case(1, CASE.requests, CASE.probes)]", "failed to read its cases: AttributeError"),
        (
            "[Case('a', CASE.requests, CASE.probes, tags={'of': {1}})]",
            "failed to read its cases: TypeError: Object of type set is not JSON",
        ),
        ("3", "failed to read its cases: TypeError"),
        (
            "[Case('a', CASE.requests, (Probe('efficacy', CASE.requests[0]),))]",
            "which is no query ask by Choose, Drift, NextToken or Generate",
        ),
    ],
)
def test_cases_that_are_none_are_refused(tell, cases, part):
    """The last of them is of item 19 of issue I."""
    source = f"class Mine(Listed):\n    def cases(self): return {cases}\n"
    failed(tell("task", source, *RUN["task"]), 3, "task mine of mine.py", part)


NEEDY = """
@dataclass
class Needy:
    scale: float = 9.0
    def {ready}(self, model):
        self.added = self.scale * model.parameter("model.embed_tokens.weight").mean(0)
    def __call__(self, inputs, outputs, rows):
        return outputs + self.added

@hookimpl
def edit_harness_register_adaptors(register):
    register("needy", Needy, "x")

class Mine(Editor):
    def edit(self, model, requests):
        adaptor = Needy()
        adaptor.{ready}(model)
        return Edit(adaptors={{model.architecture.projection(1).name: adaptor}})
"""

SAVE = ("edit", "-e", "mine", "--requests", "facts.jsonl", "--save", "e.safetensors")

TRY = ("try", "--edit", "e.safetensors", "--ask", "Ada lives in", "--max-new-tokens", "2")


@pytest.fixture
def saved(tell, tmp_path):
    """Save an edit of a source, and return what comes of trying it with another, or with none."""
    fact = '{"prompt": "{} lives in", "subject": "Ada", "target_new": "Oslo"}'
    (tmp_path / "facts.jsonl").write_text(fact)

    def saved(source, other):
        assert tell("editor", source, *SAVE).exit_code == 0
        return tell("editor", other, *TRY) if other else CliRunner().invoke(main, TRY)

    return saved


@pytest.mark.parametrize("ready", ["prepare", "unheard_of"])
def test_an_adaptor_that_needs_more_than_is_stored(saved, ready):
    """Item 19 of issue I: a saved edit gets ready for the model, or its plugin is named."""
    source = NEEDY.format(ready=ready)
    result = saved(source, source)
    if ready == "prepare":
        assert result.exit_code == 0, result.output
    else:
        where = "model.layers.1.mlp.down_proj: AttributeError"
        failed(result, 3, f"error: adaptor Needy of mine.py failed at {where}", "(mine.py:")


def test_the_plugin_of_a_saved_edit_is_named(saved):
    """A stranger's review of issue 18: of a file, as --plugin takes it."""
    result = saved(NEEDY.format(ready="prepare"), "")
    failed(result, 3, "'needy' of the package mine.py, which is not there", "--plugin")


def test_an_adaptor_that_returns_another_shape(saved):
    """A stranger's review of issue 18: it would be spread over what it stands for."""
    source = NEEDY.format(ready="prepare")
    returned = source.replace("return outputs +", "return outputs[:, :1] +")
    assert returned != source
    result = saved(source, returned)
    failed(result, 3, "error: adaptor Needy of mine.py failed at", "it returned the shape (")
