"""Controls by their names and settings, and what is said of those that are none."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from edit_harness import Control, DataError, Graded, PluginError, UsageError, hookimpl
from edit_harness.registry.registry import Plugins
from edit_harness.run.controls import SAMPLE, make_controls


@dataclass
class Plain(Control):
    rate: float = 1.0

    def load(self):
        if self.rate < 0:
            raise DataError("no such rate", "another")

    def examine(self):
        return Graded("", {})


@dataclass
class Named(Plain):
    takes = "what"
    what: str = ""


@pytest.fixture
def plugins():
    @hookimpl
    def controls(register):
        register("plain", Plain)
        register("by-name", Named)

    found = Plugins()
    found.add(SimpleNamespace(edit_harness_register_controls=controls), "dist")
    return found


def make(plugins, *names, **args):
    return make_controls(plugins, names, args, seed=0)


def test_each_takes_the_settings_that_it_has_fields_for(plugins):
    made, sample = make(plugins, "plain", "by_name:a:b", "plain", rate="0.5", sample="3")
    assert [each.name for each in made] == ["plain", "by_name:a:b"]
    assert [each.value for each in made] == [Plain(0.5), Named(0.5, "a:b")]
    assert sample == 3
    assert make(plugins) == ([], SAMPLE)
    own = Plain(2.0)
    (made,), _ = make(plugins, own)
    assert (made.name, made.value) == ("plain", own), "an object is taken as it is"


@pytest.mark.parametrize(
    ("names", "args", "kind", "words"),
    [
        (["plane"], {}, PluginError, "no control 'plane'; did you mean plain"),
        (["plain:x"], {}, UsageError, "write: --control plain"),
        (["by_name"], {}, UsageError, "write: --control by_name:WHAT"),
        (["plain"], {"rat": "1"}, UsageError, "no control has a field 'rat'\nfields: rate, sample"),
        ([Plain(), Plain()], {}, UsageError, "two controls are called plain"),
        (["plain"], {"sample": "all"}, UsageError, "sample=all is no number of edits"),
        ([], {"sample": "2"}, UsageError, "'sample'\nfields: none, since there is no --control"),
        (["plain"], {"rate": "-1"}, DataError, "no such rate\nanother"),
    ],
)
def test_what_is_wrong_is_said(plugins, names, args, kind, words):
    with pytest.raises(kind) as raised:
        make(plugins, *names, **args)
    assert words in str(raised.value)
    assert len(str(raised.value).splitlines()) == 2
