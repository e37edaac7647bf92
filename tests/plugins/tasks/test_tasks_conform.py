"""The bundled tasks pass the suite that third parties run, and so do the plugin modules."""

import pytest
from support.builders import flat, question, record, stored, with_texts

import edit_harness_plugins.editors
import edit_harness_plugins.metrics
import edit_harness_plugins.models
import edit_harness_plugins.tasks
from edit_harness.testing import PluginTests, TaskTests
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.tasks.counterfact.counterfact import CounterFact, CounterFactPlus
from edit_harness_plugins.tasks.mquake import MQuAKE
from edit_harness_plugins.tasks.qaedit import QAEdit
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits
from edit_harness_plugins.tasks.rule_edit.task import (
    RuleEdit,
    RuleEditDescription,
    RuleEditHierarchy,
    RuleEditInstance,
)
from edit_harness_plugins.tasks.unke import Unke
from edit_harness_plugins.tasks.wikibigedit import WikiBigEdit
from edit_harness_plugins.tasks.zsre import ZsRE, ZsREAlternative

FACTS = [*(record(i, subject=f"Ada {i}") for i in (2, 0, 1)), record(3, subject="")]
QUESTIONS = [question(), question(alt="Oslo"), question(loc="")]
TASKS = {
    "counterfact": lambda folder: CounterFact(stored(folder, *FACTS)),
    "counterfact-plus": lambda folder: CounterFactPlus(stored(folder, *FACTS)),
    "easyedit": lambda folder: CounterFactPlus(stored(folder, *map(flat, FACTS))),
    "with texts": lambda folder: with_texts(folder, count=5, generation=2),
    "zsre": lambda folder: ZsRE(stored(folder, *QUESTIONS)),
    "zsre-alt": lambda folder: ZsREAlternative(stored(folder, *QUESTIONS)),
    "zsre in the wild": lambda folder: ZsRE(stored(folder, *QUESTIONS), protocol="both"),
    "qaedit": lambda folder: QAEdit(str(FILES / "qaedit.json")),
    "wikibigedit": lambda folder: WikiBigEdit(str(FILES / "wikibigedit.json")),
    "mquake": lambda folder: MQuAKE(str(FILES / "mquake.json")),
    "rippleedits": lambda folder: RippleEdits(str(FILES / "rippleedits.json")),
    "unke": lambda folder: Unke(str(FILES / "unke.json")),
    "rule-edit": lambda folder: RuleEdit(),
    "rule-edit-description": lambda folder: RuleEditDescription(),
    "rule-edit-instance": lambda folder: RuleEditInstance(),
    "rule-edit-hierarchy": lambda folder: RuleEditHierarchy(),
}


@pytest.mark.parametrize("made", TASKS.values(), ids=TASKS, indirect=True)
class TestTasks(TaskTests):
    sample = 80

    @pytest.fixture(autouse=True)
    def made(self, request, tmp_path, monkeypatch):
        monkeypatch.setattr(self, "task", request.param(tmp_path), raising=False)


GENUINE = [(CounterFactPlus, "counterfact_300"), (ZsRE, "zsre_600"), (ZsREAlternative, "zsre_600")]


@pytest.mark.parametrize("made", GENUINE, ids=lambda it: it[0].__name__, indirect=True)
class TestGenuineTasks(TaskTests):
    sample = 600

    @pytest.fixture(autouse=True)
    def made(self, request, monkeypatch):
        kind, file = request.param
        task = kind(str(request.getfixturevalue(file)))
        monkeypatch.setattr(self, "task", task, raising=False)


class TestEditorPlugins(PluginTests):
    plugin = edit_harness_plugins.editors


class TestMetricPlugins(PluginTests):
    plugin = edit_harness_plugins.metrics


class TestModelPlugins(PluginTests):
    plugin = edit_harness_plugins.models


class TestTaskPlugins(PluginTests):
    plugin = edit_harness_plugins.tasks
