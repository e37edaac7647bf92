"""Imports under guard, and whose fault errors of plugins are said to be."""

import os
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from edit_harness.errors import DataError, PluginError, Terminated
from edit_harness.registry import guard
from edit_harness.registry.guard import blamed, named, remember, said

CHANGES = {
    "the working directory": lambda: os.chdir("/"),
    "the environment": lambda: os.environ.update(EDIT_HARNESS_CACHE="/nowhere", NEW="1"),
    "Python's random state": lambda: random.seed(7),
    "numpy's random state": lambda: np.random.seed(7),
    "torch's random state": lambda: torch.manual_seed(7),
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "gradient mode": lambda: torch.set_grad_enabled(False),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("fails", [False, True])
def test_what_an_import_changes_is_put_back_and_named(name, fails):
    before = guard.read()
    try:
        with guard.importing("x") as went:
            CHANGES[name]()
            if fails:
                raise ImportError
    except ImportError:
        assert fails
    assert not guard.changes(before, guard.read())
    assert went.notes == [f"changed {name} while it was loaded; that was put back"]


def test_what_libraries_do_is_not_held_against_a_plugin():
    with guard.importing("x") as went:
        warnings.simplefilter("ignore")
        sys.path.append("/nowhere")
    sys.path.remove("/nowhere")
    assert not went.notes


def test_an_import_that_changes_nothing_has_no_notes():
    with guard.importing("x") as went:
        pass
    assert not went.notes
    assert 0 <= went.seconds < 2


def test_a_user_is_told_once(caplog):
    for _ in range(2):
        guard.note("this is said once")
    assert [record.message for record in caplog.records] == ["this is said once"]


def test_what_is_printed_while_plugins_are_at_work_goes_where_messages_go(capsys):
    with guard.measuring():
        print("hello")
    print("result")
    assert capsys.readouterr() == ("result\n", "hello\n")


def python(code):
    script = f"import os, sys\nfrom edit_harness.registry import guard\n{code}"
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


FIRST = """
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
    done = python("assert 'torch' not in sys.modules" + FIRST)
    assert done.stdout.split("\n") == ["True torch.float32", "True", "[]", ""], done.stderr


def test_who_only_imports_torch_changes_nothing():
    done = python("with guard.importing('x') as went: import torch\nprint(went.notes)")
    assert done.stdout == "[]\n", done.stderr


def test_rich_is_not_held_against_a_plugin():
    """It draws random numbers when it is first imported, as a plugin does that uses the harness."""
    code = (
        "from edit_harness.registry import guard\n"
        "with guard.importing('x') as went:\n"
        "    from edit_harness.run import report\n"
        "print(went.notes)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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


def test_the_line_is_the_last_one_of_the_authors_own():
    error = raised(Odd().asks, lambda: int("x"))
    assert said(error, Odd()).startswith("ValueError: invalid literal for int()")
    assert "(test_guard.py:" in said(error, Odd())
    assert "(" not in said(error, object()).removeprefix("ValueError: invalid literal for int()")


def test_an_error_without_words_is_its_type():
    assert said(KeyError()) == "KeyError"


def test_an_error_for_users_has_its_remedy_and_no_line():
    assert said(DataError("no file", "fetch it"), Odd()) == "DataError: no file; fetch it"


@pytest.mark.parametrize("error", [SystemExit(0), BaseExceptionGroup("g", [SystemExit(0)])])
def test_whatever_is_raised_is_blamed(error):
    told = f"odd failed: {type(error).__name__}"
    with pytest.raises(PluginError, match=told), blamed("odd failed", Odd()):
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Terminated(), DataError("x")])
def test_what_is_not_the_plugins_passes(error):
    with pytest.raises(type(error)), blamed("odd failed", Odd()):
        raise error


def test_what_a_class_came_in_is_remembered():
    class Mine(Odd):
        pass

    assert named("metric", "mine", Mine()) == "metric mine"
    remember(Mine, "mine.py")
    assert named("metric", "mine", Mine()) == "metric mine of mine.py"
