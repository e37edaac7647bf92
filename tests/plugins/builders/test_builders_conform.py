"""The bundled builders pass the suite that third parties run."""

import pytest
from support.own_facts import TEMPLATES, TRIPLES, lines, people, stored

import edit_harness_plugins.builders
from edit_harness.testing import PluginTests
from edit_harness_plugins.builders.counterfact import CounterFact
from edit_harness_plugins.builders.seesaw import Seesaw
from edit_harness_plugins.commands.authoring import Material
from edit_harness_plugins.commands.authoring.builder_suite import BuilderTests


class TestCounterFact(BuilderTests):
    builder = CounterFact(size=9)

    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        facts = lines(tmp_path / "facts.jsonl", TRIPLES)
        made = Material(facts, stored(tmp_path / "words.json", TEMPLATES))
        monkeypatch.setattr(self, "material", made, raising=False)


class TestSeesaw(BuilderTests):
    builder = Seesaw(cases=3, people=2)

    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        made = Material(lines(tmp_path / "facts.jsonl", people()))
        monkeypatch.setattr(self, "material", made, raising=False)


class TestBuilderPlugins(PluginTests):
    plugin = edit_harness_plugins.builders
