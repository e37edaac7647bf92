"""What brings plugins, and the digest that identifies it; which plugins there are, and components by name."""

import importlib
import json
import sys

import pytest
from support.builders import EDITOR, QUIZ, distribution, in_memory

from edit_harness import PluginError, UsageError
from edit_harness.registry import packages
from edit_harness.registry.packages import file_of, of_class
from edit_harness.registry.registry import Plugins


def with_name(name):
    return QUIZ.replace("quiz-night", name)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to put plugins into; what is imported from it is forgotten."""
    for name in (packages.ONLY, packages.BLOCK, packages.FILES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    own = ("quiz_", "edit_harness_nothing", "edit_harness_file_", "constants", "lab")
    for name in set(sys.modules) - known:
        if name.startswith(own):
            del sys.modules[name]


@pytest.fixture
def mine(here, monkeypatch):
    """Write the file mine.py and name it."""
    monkeypatch.setenv(packages.FILES, str(here / "mine.py"))

    def mine(source):
        (here / "mine.py").write_text(source)
        return here / "mine.py"

    return mine


@pytest.fixture
def install(here, monkeypatch):
    """Install a package of one module."""
    monkeypatch.syspath_prepend(here)

    def install(name, source=QUIZ, **more):
        distribution(here, name, source, **more)
        importlib.invalidate_caches()

    return install


def editors(distribution_name):
    found = Plugins.installed()
    return [c.name for c in found.of_kind("editor") if c.distribution == distribution_name]


def test_a_file_that_is_named_is_a_plugin(mine, monkeypatch):
    mine(EDITOR)
    monkeypatch.setenv(packages.ONLY, "edit-harness")  # lists are of what is installed
    found = Plugins.installed()
    assert found.find("editor", "mine.py/nothing").origin == "mine.py"
    kind = found.find("editor", "nothing").load()
    assert kind is Plugins.installed().find("editor", "nothing").load()
    assert found.find("editor", "rome").distribution == "edit-harness"


def test_a_file_counts_with_what_it_imports_from_beside_it(here, mine, monkeypatch):
    """Item 9 of issue I: each change of one of them is another digest."""
    monkeypatch.syspath_prepend(here)
    (here / "constants.py").write_text("from lab.deep import RATE\nSIZE = 1\n")
    (here / "lab").mkdir()
    (here / "lab" / "__init__.py").write_text("")
    (here / "lab" / "deep.py").write_text("RATE = 1\n")
    (here / "unused.py").write_text("RATE = 1\n")
    mine("import constants\nimport numpy\n" + EDITOR.replace("...", "return constants.RATE"))

    def now():
        importlib.invalidate_caches()
        return Plugins.installed().find("editor", "nothing").package.digest

    first = now()
    assert now() == first
    (here / "unused.py").write_text("RATE = 20\n")
    assert now() == first
    (here / "lab" / "deep.py").write_text("RATE = 20\n")
    assert now() != first
    names = {name for name, _ in of("mine.py").contents()}
    assert names == {"mine.py", "constants.py", "lab/__init__.py", "lab/deep.py"}


@pytest.mark.parametrize("name", ["absent.py", "notes.txt", "folder.py"])
def test_what_is_no_file_of_python_is_an_error(here, monkeypatch, name):
    (here / "notes.txt").write_text("")
    (here / "folder.py").mkdir()
    monkeypatch.setenv(packages.FILES, str(here / name))
    with pytest.raises(UsageError, match=f"{name} is no plugin"):
        Plugins.installed()


def test_a_broken_file_is_reported_and_can_be_mended_in_one_process(mine):
    for source, reason in (
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (
            f"{EDITOR}\nedit_harness_api = 1\n",
            "; CHANGELOG.md, What has moved, says what is where",
        ),
    ):
        mine(source)
        (failure,) = Plugins.installed().failures
        assert str(failure).startswith("mine.py could not be loaded: ")
        assert failure.reason.endswith(reason)
    mine(EDITOR + "\n\n")
    assert editors("mine.py") == ["nothing"]


@pytest.mark.parametrize(
    ("variable", "names", "reason"),
    [
        (packages.BLOCK, "other, Quiz_Good", "EDIT_HARNESS_BLOCK names it"),
        (packages.ONLY, "", "EDIT_HARNESS_PLUGINS does not name it"),
    ],
)
def test_lists_leave_out_what_is_installed_and_say_so(
    install, monkeypatch, variable, names, reason
):
    install("quiz-good", EDITOR)
    monkeypatch.setenv(variable, names)
    found = Plugins.installed()
    with pytest.raises(PluginError) as caught:
        found.find("editor", "nothing")
    assert f"quiz-good 1.0 is left out: {reason}" in caught.value.remedy


def of(name):
    (package,) = (p for p in packages.found() if p.name == name)
    return package


@pytest.fixture
def laboratory(here, monkeypatch):
    """Two packages, each with an editor in a module of its own."""
    for name in "ab":
        lazy = EDITOR.replace("Nothing,", f'"lab_{name}.core:Nothing",')
        site = here / f"lab_{name}"
        site.mkdir()
        distribution(here, f"lab-{name}", "")
        (here / f"lab_{name}.py").unlink()
        (site / "__init__.py").write_text(lazy.replace('"nothing"', f'"nothing-{name}"'))
        (site / "core.py").write_text(EDITOR)
    monkeypatch.syspath_prepend(here)
    importlib.invalidate_caches()
    return here


def test_a_digest_is_of_names_and_bytes_that_are_no_caches(laboratory):
    first = of("lab-a").digest
    (laboratory / "lab_a" / "__pycache__").mkdir(exist_ok=True)
    (laboratory / "lab_a" / "__pycache__" / "x.pyc").write_bytes(b"1")
    (laboratory / "lab_a" / ".core.py.swp").write_text("")
    assert of("lab-a").digest == first
    data = laboratory / "lab_a" / "data.json"
    data.write_text("[1]")
    second = of("lab-a").digest
    data.rename(data.with_name("other.json"))
    assert len({first, second, of("lab-a").digest}) == 3


def test_a_class_counts_with_the_packages_of_its_bases_and_of_who_registered_it(laboratory):
    found = Plugins.installed()
    a, b = (found.find("editor", f"nothing-{name}") for name in "ab")
    for component, name in ((a, "lab-a"), (b, "lab-b")):
        assert [p.name for p in found.packages_of(component.load())] == [name, "edit-harness"]
    mine = type("Mine", (a.load(),), {"__module__": __name__})
    names = [p.name for p in found.packages_of(mine, b.package)]
    assert names == ["lab-b", "test_packages.py", "lab-a", "edit-harness"]
    first = of("lab-a").digest
    (laboratory / "lab_a" / "core.py").write_text("changed")
    assert of("lab-a").digest != first


@pytest.mark.parametrize("value", ["__main__", "not a module!", ".relative", ":Nothing"])
def test_an_installed_entry_point_that_names_no_module_is_broken(here, install, value):
    install("quiz-bad", EDITOR)
    info = here / "quiz_bad-1.0.dist-info"
    (info / "entry_points.txt").write_text(f"[edit_harness]\nx = {value}\n")
    said = {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    (info / "direct_url.json").write_text(json.dumps(said))
    found = Plugins.installed()
    assert [f.package.name for f in found.failures] == ["quiz-bad"]
    assert of("quiz-bad").digest
    assert of("quiz-bad").source == "git+https://example.org/x.git@abc", "with its revision"
    assert found.find("editor", "rome")


def test_a_file_imports_what_lies_beside_it(here, mine):
    """A stranger's review of issue 18: without PYTHONPATH, behind what is installed, and later too."""
    (here / "helper9.py").write_text("RATE = 7\n")
    (here / "json.py").write_text("1 / 0")
    mine("import helper9\nimport json\n" + EDITOR.replace("...", "return helper9.RATE"))
    found = Plugins.installed()
    assert not found.failures
    assert found.find("editor", "nothing").load().edit(None, None, None) == 7
    assert sys.path[-1] == str(here)


@pytest.mark.parametrize("wanted", ["from . import helper9", "from .helper9 import RATE"])
def test_a_file_is_in_no_package(here, mine, wanted):
    """A stranger's review of issue 18: the import is the plugin's own error, or its own to mend."""
    (here / "helper9.py").write_text("RATE = 7\n")
    mine(f"{wanted}\n{EDITOR}")
    (failure,) = Plugins.installed().failures
    assert "attempted relative import with no known parent package" in failure.reason
    mine(f"try:\n    {wanted}\nexcept ImportError:\n    import helper9\n{EDITOR}")
    assert not Plugins.installed().failures


def test_a_class_without_a_file_is_a_package_in_memory():
    """Nobody can tell whether it still does the same: it is another each time."""
    kind = in_memory("class Mine:\n    pass\n").Mine
    package = of_class(kind)
    assert file_of(kind) is None
    assert (package.name, package.version, package.source) == ("Mine", "", "in memory")
    assert package.digest == package.identity["digest"]
    assert package.digest.startswith("unversioned ")
    assert of_class(kind).digest != package.digest


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
        (QUIZ.replace("register_tasks", "register_taks"), "unknown hook 'edit_harness_register_ta"),
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
    install("quiz-a", QUIZ.replace("{__name__}:Quiz", "{__name__}:Quizz"))
    install("quiz-b", QUIZ.replace("{__name__}:Quiz", "{__name__}:__name__"))
    plugins = Plugins.installed()
    with pytest.raises(PluginError) as caught:
        plugins.find("task", "quiz-a/lazy-quiz").load()
    assert "'lazy-quiz' cannot be imported from 'quiz_a:Quizz': AttributeError" in str(caught.value)
    assert "it belongs to quiz-a 1.0" in caught.value.remedy
    with pytest.raises(PluginError, match="'quiz_b:__name__' is no Task"):
        plugins.find("task", "quiz-b/lazy-quiz").load()
