"""The bundled metrics pass the suite that third parties run."""

import json
import math

import pytest
from support.builders import question, record, with_texts
from support.seesaw_cases import Invented

from edit_harness.registry.registry import Plugins
from edit_harness.testing import MetricTests
from edit_harness_plugins.metrics.drift import NeighborhoodKL
from edit_harness_plugins.metrics.people.confidence import Confidence
from edit_harness_plugins.metrics.people.cross_property import CrossProperty
from edit_harness_plugins.metrics.people.flaws import Flaws
from edit_harness_plugins.metrics.preference import (
    Accuracy,
    Magnitude,
    Success,
    TokenAccuracy,
    Unchanged,
)
from edit_harness_plugins.metrics.texts import Consistency, Fluency
from edit_harness_plugins.metrics.verdicts.hops import MultiHop
from edit_harness_plugins.metrics.verdicts.judging import Judging
from edit_harness_plugins.metrics.verdicts.ripples import Ripple
from edit_harness_plugins.metrics.verdicts.rules import RuleAnswers, RuleHierarchy, RuleLocality
from edit_harness_plugins.models.pocket import FILES
from edit_harness_plugins.tasks.counterfact.counterfact import CounterFactPlus
from edit_harness_plugins.tasks.mquake import MQuAKE
from edit_harness_plugins.tasks.rippleedits.rippleedits import RippleEdits
from edit_harness_plugins.tasks.rule_edit.task import RuleEdit, RuleEditHierarchy, RuleEditInstance
from edit_harness_plugins.tasks.zsre import ZsRE


@pytest.mark.parametrize(
    ("metric", "name", "measure"),
    [
        (component.name, name, measure)
        for component in Plugins.installed().of_kind("metric")
        if component.distribution == "edit-harness"
        for name, measure in component.load().measures.items()
    ],
)
def test_a_measure_says_what_it_is(metric, name, measure):
    """Formula, range, direction, source and probes, for every bundled one."""
    assert measure.formula
    assert measure.better
    assert measure.source
    assert measure.probes
    low, high = measure.limits
    assert -math.inf < low < high
    # Only a difference can be below nothing.
    assert (low < 0) == (" - " in measure.formula)


def test_every_bundled_metric_has_a_citation():
    metrics = Plugins.installed().of_kind("metric")
    assert [c.name for c in metrics if not c.load().citation] == []


class OnCounterFactPlus(MetricTests):
    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        path = tmp_path / "facts.json"
        records = [record(i, subject=f"Ada {i}") for i in range(12)]
        path.write_text(json.dumps(records), encoding="utf-8")
        monkeypatch.setattr(self, "task", CounterFactPlus(str(path)), raising=False)


class OnZsRE(MetricTests):
    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        path = tmp_path / "zsre.json"
        path.write_text(json.dumps([question() for _ in range(12)]), encoding="utf-8")
        monkeypatch.setattr(self, "task", ZsRE(str(path)), raising=False)


class TestSuccess(OnCounterFactPlus):
    metric = Success()


class TestMagnitude(OnCounterFactPlus):
    metric = Magnitude()


class TestAccuracy(OnCounterFactPlus):
    metric = Accuracy()


class TestNeighborhoodKL(OnCounterFactPlus):
    metric = NeighborhoodKL()


class TestTokenAccuracy(OnZsRE):
    metric = TokenAccuracy()


class TestTokenAccuracyOfPairs(OnCounterFactPlus):
    metric = TokenAccuracy()


class TestExactAnswers(OnZsRE):
    metric = Accuracy()


class TestUnchanged(OnZsRE):
    metric = Unchanged()


class OnTexts(MetricTests):
    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path, monkeypatch):
        monkeypatch.setattr(
            self, "task", with_texts(tmp_path, count=12, generation=1), raising=False
        )


class TestFluency(OnTexts):
    metric = Fluency()


class TestConsistency(OnTexts):
    metric = Consistency()


class TestRuleAnswers(MetricTests):
    metric = RuleAnswers()
    task = RuleEdit()


class TestRuleAnswersOfInstances(MetricTests):
    metric = RuleAnswers()
    task = RuleEditInstance()


class TestRuleLocality(MetricTests):
    metric = RuleLocality()
    task = RuleEdit()


class TestRuleHierarchy(MetricTests):
    metric = RuleHierarchy()
    task = RuleEditHierarchy()


class TestSuccessOfEfficacyAlone(MetricTests):
    metric = Success()
    task = Invented()


class TestConfidence(MetricTests):
    metric = Confidence()
    task = Invented()


class TestCrossProperty(MetricTests):
    metric = CrossProperty()
    task = Invented()


class TestFlaws(MetricTests):
    metric = Flaws()
    task = Invented()


class TestJudging(MetricTests):
    metric = Judging()
    task = Invented()


class TestJudgingOfRules(MetricTests):
    metric = Judging()
    task = RuleEdit()


class TestMultiHop(MetricTests):
    metric = MultiHop()
    task = MQuAKE(str(FILES / "mquake.json"))


class TestRipple(MetricTests):
    metric = Ripple()
    task = RippleEdits(str(FILES / "rippleedits.json"))
