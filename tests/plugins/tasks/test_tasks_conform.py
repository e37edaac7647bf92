"""The bundled tasks pass the suite that third parties run, and so do the plugin modules."""

import json

import pytest
from support.builders import question, record, with_texts

import edit_harness_plugins.editors
import edit_harness_plugins.metrics
import edit_harness_plugins.models
import edit_harness_plugins.tasks
from edit_harness.testing import PluginTests, TaskTests
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.tasks.counterfact.counterfact import CounterFact, CounterFactPlus
from edit_harness_plugins.tasks.mquake import MQuAKE
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits
from edit_harness_plugins.tasks.rule_edit.task import (
    RuleEdit,
    RuleEditDescription,
    RuleEditHierarchy,
    RuleEditInstance,
)
from edit_harness_plugins.tasks.zsre import ZsRE, ZsREAlternative


class TestCounterFact(TaskTests):
    kind = CounterFact

    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        path = tmp_path / "facts.json"
        records = [record(i, subject=f"Ada {i}") for i in (2, 0, 1)]
        records.append(record(3, subject=""))
        path.write_text(json.dumps(records), encoding="utf-8")
        monkeypatch.setattr(self, "task", self.kind(str(path)), raising=False)


class TestCounterFactPlus(TestCounterFact):
    kind = CounterFactPlus


class TestCounterFactWithTexts(TaskTests):
    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        monkeypatch.setattr(
            self, "task", with_texts(tmp_path, count=5, generation=2), raising=False
        )


class TestGenuineCounterFactPlus(TaskTests):
    sample = 300

    @pytest.fixture(autouse=True)
    def _genuine(self, counterfact_300, monkeypatch):
        monkeypatch.setattr(self, "task", CounterFactPlus(str(counterfact_300)), raising=False)


class TestZsRE(TaskTests):
    kind = ZsRE

    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        path = tmp_path / "zsre.json"
        path.write_text(
            json.dumps([question(), question(alt="Oslo"), question(loc="")]), encoding="utf-8"
        )
        monkeypatch.setattr(self, "task", self.kind(str(path)), raising=False)


class TestZsREAlternative(TestZsRE):
    kind = ZsREAlternative


class TestGenuineZsRE(TaskTests):
    sample = 600
    kind = ZsRE

    @pytest.fixture(autouse=True)
    def _genuine(self, zsre_600, monkeypatch):
        monkeypatch.setattr(self, "task", self.kind(str(zsre_600)), raising=False)


class TestGenuineZsREAlternative(TestGenuineZsRE):
    kind = ZsREAlternative


class TestMQuAKE(TaskTests):
    task = MQuAKE(str(FILES / "mquake.json"))


class TestRippleEdits(TaskTests):
    task = RippleEdits(str(FILES / "rippleedits.json"))


class TestEditorPlugins(PluginTests):
    plugin = edit_harness_plugins.editors


class TestMetricPlugins(PluginTests):
    plugin = edit_harness_plugins.metrics


class TestModelPlugins(PluginTests):
    plugin = edit_harness_plugins.models


class TestTaskPlugins(PluginTests):
    plugin = edit_harness_plugins.tasks


class TestRuleEdit(TaskTests):
    task = RuleEdit()
    sample = 80


class TestRuleEditDescription(TaskTests):
    task = RuleEditDescription()


class TestRuleEditInstance(TaskTests):
    task = RuleEditInstance()


class TestRuleEditHierarchy(TaskTests):
    task = RuleEditHierarchy()
