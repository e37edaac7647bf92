"""What is traced: facts, the states that are put back, and the noise."""

import pytest
import torch
from test_passes import REQUESTS, deep

from edit_harness import PluginError, UsageError
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.studies.trace import method as ways
from edit_harness_plugins.commands.studies.trace import passes
from edit_harness_plugins.commands.studies.trace.method import KINDS, Fact, Method


@pytest.mark.parametrize("family", ["gpt2", "gemma"])
def test_noise_has_the_spread_of_what_the_embeddings_put_out(family):
    model = deep(family)
    embedding = model.module.get_input_embeddings()
    every = embedding(torch.arange(model.architecture.config.vocab_size))
    assert ways.spread(model) == pytest.approx(float(every.std(unbiased=False)), rel=1e-9)
    drawn = ways.noise(Fact.of(model, REQUESTS[1]), Method(samples=500), 32)
    assert float(drawn.mean()) == pytest.approx(0, abs=0.02)
    assert float(drawn.std()) == pytest.approx(1, abs=0.02)


def test_a_fact_that_the_model_tells_is_of_its_likeliest_token():
    model = deep()
    fact = Fact.recalled(model, REQUESTS[0])
    logits = model.module(input_ids=torch.tensor([fact.parts.prompt])).logits[0, -1]
    assert fact.parts.target == (int(logits.argmax()),)
    (one,) = passes.trace(model, [fact], Method(samples=1))
    assert one.clean == pytest.approx(float(logits.softmax(-1).max()))


@pytest.mark.parametrize(
    ("window", "layer", "expected"),
    [(1, 0, [0]), (2, 0, [0]), (2, 3, [2, 3]), (3, 3, [2, 3, 4]), (4, 5, [3, 4, 5])],
)
def test_windows_lie_as_those_of_rome(window, layer, expected):
    model = deep(layers=6)
    site = next(s for s in ways.sites(model, ["mlp"], window) if s.layer == layer)
    assert site.modules == tuple(model.architecture.down(at) for at in expected)


def test_the_default_window_is_that_of_rome_in_proportion():
    assert [ways.default_window(n) for n in (1, 6, 12, 28, 48)] == [1, 1, 2, 6, 10]


def test_states_that_a_model_has_not_and_windows_beyond_it_are_refused():
    model = tiny_model("mixtral")
    with pytest.raises(PluginError, match="no MLP output projection") as error:
        ways.sites(model, KINDS, 1)
    assert error.value.remedy == "trace what it has, such as --kinds hidden"
    assert len(ways.sites(model, ["hidden", "attention"], 1)) == 4
    with pytest.raises(UsageError, match="a window of 3 is wider than the model's 2 layers"):
        ways.sites(model, KINDS, 3)
