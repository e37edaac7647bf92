"""What is said of errors that plugins' code raises, and whose they are said to be."""

import pytest

from edit_harness.errors import DataError, PluginError, Terminated
from edit_harness.registry.guard import blamed, named, remember, said


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
    assert said(error, Odd()) == said(error, Odd) == f"ValueError: two lines (test_blame.py:{LINE})"


def test_the_line_is_the_last_one_of_the_authors_own():
    error = raised(Odd().asks, lambda: int("x"))
    assert said(error, Odd()).startswith("ValueError: invalid literal for int()")
    assert "(test_blame.py:" in said(error, Odd())
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
