"""Editors whose cases depend on each other are told, before the run begins."""

import itertools

import pytest
import torch
from saboteurs import Honest
from test_beside import NAMES, Few

from edit_harness.edits import Edit
from edit_harness.errors import PluginError
from edit_harness.interfaces import ModelSource
from edit_harness.registry.registry import Plugins
from edit_harness.run import evaluation, loop, trial
from edit_harness.run.assembly import make_benchmark
from edit_harness.run.loop import FailurePolicy
from edit_harness.run.spec import RunSpec
from edit_harness.testing import tiny_model


def assembled(editor):
    plugins = Plugins.installed()
    benchmark = make_benchmark(plugins, Few(), {}, ModelSource(""))
    return evaluation.assemble(plugins, tiny_model(), benchmark, RunSpec(editor, Few()))


class Drifting(Honest):
    """Scales its edits by something; `number` says by what."""

    count = itertools.count(1)

    def edit(self, model, requests):
        edit, size = super().edit(model, requests), 1.0 / (1 + self.number(requests))
        return Edit({name: type(d)(d.left * size, d.right) for name, d in edit.weights.items()})


class Random(Drifting):
    """Draws from the process's own random numbers; a sound editor seeds a generator of its own."""

    def number(self, requests):
        return next(self.count)


class Ordered(Drifting):
    """Looks at where a case stands among those that are edited together."""

    def edit_each(self, model, batches):
        self.places = {requests[0].subject: i for i, requests in enumerate(batches)}
        return super().edit_each(model, batches)

    def number(self, requests):
        return self.places[requests[0].subject]


def test_a_sound_editor_passes_without_a_word():
    told = []
    trial.check_order(assembled(Honest()), told.append)
    assert told == []


def test_what_comes_out_otherwise_a_second_time_is_told():
    told = []
    with pytest.raises(PluginError):
        trial.check_order(assembled(Random()), told.append)
    assert told[0].startswith("the same cases differ by ")


def test_what_depends_on_the_order_ends_the_run_before_it_begins(tmp_path):
    made = assembled(Ordered())
    folder = made.open(tmp_path)
    with pytest.raises(
        PluginError, match=r"editor ordered: cases differ by .* order is turned"
    ) as caught:
        loop.run_all({made: folder}, lambda e, r: None, FailurePolicy(selfcheck=True))
    assert caught.value.code == 3
    assert folder.records() == []


def test_what_is_tried_leaves_no_row(tmp_path):
    made = assembled(Honest())
    folder = made.open(tmp_path)
    (run,) = loop.run_all({made: folder}, lambda e, r: None, FailurePolicy(selfcheck=True))
    assert [r.case for r in folder.records()] == list(NAMES)
    assert run.failures == []
    assert torch.is_grad_enabled()
