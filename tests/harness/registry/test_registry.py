"""Which plugins there are, and components by name."""

import importlib
import sys

import pytest
from support.builders import distribution

from edit_harness import PluginError
from edit_harness.registry.registry import Plugins

GOOD = """
from edit_harness import Task, hookimpl

class Quiz(Task):
    def cases(self):
        return []

@hookimpl
def edit_harness_register_tasks(register):
    register("quiz-night", Quiz, "Questions")
    register("lazy-quiz", f"{__name__}:Quiz")
"""


def with_name(name):
    return GOOD.replace("quiz-night", name)


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.delenv("EDIT_HARNESS_PLUGINS", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    modules = []

    def put(name, source=GOOD, **more):
        modules.append(distribution(tmp_path, name, source, **more))
        importlib.invalidate_caches()

    yield put
    for module in modules:
        sys.modules.pop(module, None)


def names(plugins, kind="task"):
    return {c.qualified for c in plugins.of_kind(kind)}


def test_an_installed_plugin_is_found(install):
    install("quiz-good", version="3.1")
    plugins = Plugins.installed()
    found = plugins.find("task", "quiz-night")
    assert (found.distribution, found.version, found.summary) == ("quiz-good", "3.1", "Questions")
    assert found.load().__name__ == "Quiz"
    assert plugins.find("task", "lazy-quiz").load() is found.load()
    assert plugins.find("task", "quiz-good/quiz-night") == found
    assert not plugins.failures


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemExit('no licence')", "SystemExit: no licence"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (GOOD.replace("register_tasks", "register_taks"), "unknown hook 'edit_harness_register_ta"),
        (with_name("Quiz_Night"), "'Quiz_Night' is no task name"),
        (with_name("lazy-quiz"), "task 'lazy-quiz' is registered twice"),
    ],
)
def test_a_broken_plugin_is_named_with_its_reason_and_stops_nobody(install, source, reason):
    install("quiz-bad", source, version="0.3")
    install("quiz-good")
    plugins = Plugins.installed()
    (failure,) = plugins.failures
    assert str(failure).startswith("quiz-bad 0.3 could not be loaded: ")
    assert reason in failure.reason
    assert "\n" not in failure.reason
    # All or nothing: a plugin that fails at its second name does not leave its first behind.
    assert {n for n in names(plugins) if n.startswith("quiz-")} == {
        "quiz-good/quiz-night",
        "quiz-good/lazy-quiz",
    }
    with pytest.raises(PluginError) as caught:
        plugins.find("task", "no-such-task")
    assert caught.value.remedy.endswith(f"; quiz-bad 0.3 could not be loaded: {failure.reason}")


def test_a_stranger_does_not_shadow_what_is_bundled(install):
    """Nor another stranger; of another kind it is another name."""
    install("quiz-thief", with_name("counterfact"))
    install("quiz-mixed", with_name("rome"))
    plugins = Plugins.installed()
    with pytest.raises(PluginError, match="several plugins have the task 'counterfact'") as caught:
        plugins.find("task", "counterfact")
    assert caught.value.remedy == "say which: edit-harness/counterfact or quiz-thief/counterfact"
    # Equal names of the entry points too: pluggy's own loader would drop one of them.
    with pytest.raises(PluginError, match="several plugins have the task 'lazy-quiz'"):
        plugins.find("task", "lazy-quiz")
    assert plugins.find("task", "quiz-thief/lazy-quiz").distribution == "quiz-thief"
    assert plugins.find("task", "rome").distribution == "quiz-mixed"
    assert plugins.find("editor", "rome").distribution == "edit-harness"


def test_a_lazy_name_that_leads_nowhere_is_an_error_when_it_is_asked_for(install):
    install("quiz-a", GOOD.replace("{__name__}:Quiz", "{__name__}:Quizz"))
    install("quiz-b", GOOD.replace("{__name__}:Quiz", "{__name__}:__name__"))
    plugins = Plugins.installed()
    with pytest.raises(PluginError) as caught:
        plugins.find("task", "quiz-a/lazy-quiz").load()
    assert "'lazy-quiz' cannot be imported from 'quiz_a:Quizz': AttributeError" in str(caught.value)
    assert "it belongs to quiz-a 1.0" in caught.value.remedy
    with pytest.raises(PluginError, match="'quiz_b:__name__' is no Task"):
        plugins.find("task", "quiz-b/lazy-quiz").load()
