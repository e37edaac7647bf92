"""Imports under guard, and whose fault errors of plugins are said to be."""

import os
import random
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
import torch

from edit_harness.errors import DataError, PluginError, Terminated
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


def test_what_is_printed_while_plugins_are_at_work_goes_where_messages_go(capsys):
    with guard.measuring():
        print("hello")
    print("result")
    assert capsys.readouterr() == ("result\n", "hello\n")


def python(code):
    script = f"import os, sys\nfrom edit_harness.registry import guard\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


FIRST = """
assert 'torch' not in sys.modules
with guard.importing("x") as went:
    import torch
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
again = guard.read()
print(torch.is_grad_enabled(), torch.zeros(1).dtype)
print(all(again[name] == start for name, start in guard.START.items()))
print([name for name in guard.START if name not in went.notes[0]])
"""


def test_what_the_first_to_import_torch_changes_is_put_back_and_named():
    """It is known with what torch starts; `guard.START` is that of the torch which is installed."""
    assert python(FIRST) == ["True torch.float32", "True", "[]"]


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
    assert said(error, Odd()) == said(error, Odd) == f"ValueError: two lines (test_guard.py:{LINE})"
    assert said(KeyError()) == "KeyError"
    told = DataError("no file", "fetch it")
    assert said(told, Odd()) == "DataError: no file; fetch it", "for users, and no line"


@pytest.mark.parametrize("error", [SystemExit(0), BaseExceptionGroup("g", [SystemExit(0)])])
def test_whatever_is_raised_is_blamed(error):
    told = f"odd failed: {type(error).__name__}"
    with pytest.raises(PluginError, match=told), blamed("odd failed", Odd()):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Terminated(), DataError("x")])
def test_what_is_not_the_plugins_passes(error):
    with pytest.raises(type(error)), blamed("odd failed", Odd()):
        raise error
