"""What the conformance suites promise besides what they find, which is in test_zoo."""

import re

import pytest
from _pytest.outcomes import Skipped
from support.builders import ROOT
from support.zoo_tasks import Listed

from edit_harness import Judge, Key, Reply
from edit_harness.testing import EditorTests, JudgeTests, MetricTests, PluginTests, TaskTests
from edit_harness.testing.suite import python
from edit_harness_plugins.commands.authoring.builder_suite import BuilderTests

SUITES = {
    "Editors": EditorTests,
    "Tasks": TaskTests,
    "Metrics": MetricTests,
    "Judges": JudgeTests,
    "Builders": BuilderTests,
    "Packages": PluginTests,
}


def test_a_task_goes_to_another_process_as_json():
    """Item 21 of issue I: its class by name and its fields; what is no JSON stays here."""

    def check(task):
        type("Suite", (TaskTests,), {"task": task})().test_cases_are_the_same_in_another_process()

    check(Listed(3))
    with pytest.raises(Skipped, match="cannot be given its fields: Object of type set"):
        check(Listed(extra={1}))


@pytest.mark.parametrize("kind", SUITES)
def test_the_page_has_every_check_and_no_other(kind):
    """In the table of its kind, with what to do if it fails; what it says is its docstring."""
    page = (ROOT / "docs" / "how-to" / "plugins.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^### {kind}$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    rows = [[cell.strip() for cell in line.split(" | ")] for line in section.splitlines()]
    rows = [row for row in rows if row[0].startswith("| `test_")]
    assert all(len(row) == 2 and all(row) for row in rows)
    told = [row[0].strip("| `") for row in rows]
    checks = {name for name in dir(SUITES[kind]) if name.startswith("test_")}
    assert sorted(told) == sorted(checks)
    assert all(getattr(SUITES[kind], name).__doc__ for name in checks)


def test_suites_for_what_needs_no_torch_need_none():
    code = "import sys; from edit_harness.testing import TaskTests, MetricTests, JudgeTests; "
    done = python("-c", code + "assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr.decode()


def test_what_is_compared_is_told():
    """Also in an installed package, whose asserts pytest leaves alone unless it is told."""

    class Ones(Judge):
        def judge(self, replies):
            return [1] * 9

    suite = type("Suite", (JudgeTests,), {"judge": Ones(), "replies": [Reply("", "", Key("word"))]})
    with pytest.raises(AssertionError, match=r"return a verdict for each reply(.|\n)*9 == 1"):
        suite().test_verdicts_are_sound()
