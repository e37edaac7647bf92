"""What is traced, and tracing in shared passes against one pass of the whole model for each state."""

import numpy as np
import pytest
import torch

from edit_harness import PluginError, Request, UsageError
from edit_harness.model.model import Model
from edit_harness.model.weights import of_module
from edit_harness.testing.tiny import tiny_model
from edit_harness_plugins.commands.studies.trace import patching
from edit_harness_plugins.commands.studies.trace.patching import KINDS, Fact, Method
from edit_harness_plugins.loading.chat import chat_frame

REQUESTS = [
    Request("The mother tongue of {} is", "Danielle", "French"),
    Request("{} lives in", "Ada Lovelace", "Paris, the capital"),
    Request("It rains in the city of {}", "Oslo", "today"),
]
DEPTH = {"gpt2": "n_layer", "gptj": "n_layer", "bloom": "n_layer"}
TOLERANCE = 1e-6
"""Of a probability, relative: models of fp64, some of which attend in fp32 all the same."""


def deep(family="gpt2", layers=4, dtype=torch.float64, **options):
    """A tiny model with layers enough for windows; gpt_neo lists what each of its two is."""
    depth = {} if family == "gpt_neo" else {DEPTH.get(family, "num_hidden_layers"): layers}
    return tiny_model(family, dtype, **depth, **options)


def traced(model, requests=REQUESTS, **method):
    facts = [Fact.of(model, request) for request in requests]
    return list(patching.trace(model, facts, Method(**{"samples": 2, **method})))


def one_by_one(model, requests=REQUESTS, **method):
    naive = pytest.importorskip("benchmarks.tracing", reason="not in a built package")
    made = Method(**{"samples": 2, **method})
    return [naive.one_by_one(model, Fact.of(model, request), made) for request in requests]


def same(ours, theirs, rtol=TOLERANCE):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.clean, other.clean, rtol)
        np.testing.assert_allclose(one.noised, other.noised, rtol)
        assert one.restored.keys() == other.restored.keys()
        for kind, values in one.restored.items():
            np.testing.assert_allclose(values, other.restored[kind], rtol)


FAMILIES = ["gpt2", "gptj", "gpt_neo", "bloom", "llama", "gemma2"]
"""Blocks one after another and side by side, lists of kinds, other positions, a window, norms after."""


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_passes_give_what_one_pass_for_each_state_gives(family):
    model = deep(family, layers=3)
    before = of_module(model.module)
    ours = traced(model, window=2)
    same(ours, one_by_one(model, window=2))
    assert of_module(model.module) == before
    # Or nothing would tell a state that was put back from one that was not.
    assert all(
        np.ptp(values) > 1e-4 * one.clean for one in ours for values in one.restored.values()
    )


@pytest.mark.parametrize(
    "options", [{"padding": "left"}, {"batch_rows": 3}, {"batch_tokens": 20}], ids=str
)
def test_how_rows_are_batched_changes_nothing(options):
    same(traced(deep("llama", layers=3, **options)), traced(deep("llama", layers=3)))


def test_texts_beyond_a_sliding_window_are_run_whole():
    text = "Bob works at Fiat in Rome, and Ann lives in Oslo. It rains in the city of Oslo. {} lives in"
    model = deep("gemma2", sliding_window=8)
    far = [Request(text, "Ada Lovelace", "Paris")]
    assert len(Fact.of(model, far[0])) > 16
    method = {"samples": 1, "kinds": ("hidden",)}
    same(traced(model, far, **method), one_by_one(model, far, **method))


def test_a_batch_that_memory_does_not_hold_is_halved(monkeypatch):
    model, expected = deep(), traced(deep())
    logits = Model.logits

    def limited(self, batch, *args, **kwargs):
        if len(batch.ids) > 5:
            raise torch.OutOfMemoryError
        return logits(self, batch, *args, **kwargs)

    monkeypatch.setattr(Model, "logits", limited)
    same(traced(model), expected)
    assert model.halved


def test_a_chat_template_moves_the_subject_with_its_prompt():
    from support.chats import chatty

    tokenizer = chatty()
    model = deep("llama", tokenizer=tokenizer, frame=chat_frame(tokenizer))
    fact = Fact.of(model, REQUESTS[0])
    assert "Danielle" in model.tokens.decode([fact.parts.prompt[i] for i in fact.subject])
    method = {"requests": REQUESTS[:1], "samples": 1}
    same(traced(model, **method), one_by_one(model, **method))


def test_putting_back_what_the_answer_is_read_at_brings_it_back_and_nothing_else_of_its_layer():
    model = deep()
    fact = Fact.recalled(model, REQUESTS[2])
    assert fact.subject == range(len(fact) - 1, len(fact))  # one token, which the answer is read at
    (one,) = patching.trace(model, [fact], Method(samples=2))
    np.testing.assert_allclose(one.restored["hidden"][:, -1], one.clean, TOLERANCE)
    assert abs(one.noised - one.clean).min() > 1e-4 * one.clean
    (one,) = traced(model, [REQUESTS[0]])
    hidden = one.restored["hidden"][:, :, -1]
    np.testing.assert_allclose(hidden[:, -1], one.clean, TOLERANCE)
    np.testing.assert_allclose(hidden[:, :-1], np.tile(one.noised[:, None], hidden.shape[1] - 1))


def test_a_fact_has_its_own_noise_whatever_it_is_traced_with():
    model = deep()
    alone = [traced(model, [request])[0] for request in REQUESTS]
    same(traced(model), alone)
    assert len({float(one.noised[0]) for one in alone}) == len(alone)
    (other,) = traced(model, REQUESTS[:1], seed=1)
    assert other.clean == pytest.approx(alone[0].clean)
    assert abs(other.noised - alone[0].noised).max() > 1e-4 * other.clean


@pytest.mark.parametrize("family", ["gpt2", "gemma"])
def test_noise_has_the_spread_of_what_the_embeddings_put_out(family):
    model = deep(family)
    embedding = model.module.get_input_embeddings()
    every = embedding(torch.arange(model.architecture.config.vocab_size))
    assert patching.spread(model) == pytest.approx(float(every.std(unbiased=False)), rel=1e-9)
    drawn = patching.noise(Fact.of(model, REQUESTS[1]), Method(samples=500), 32)
    assert float(drawn.mean()) == pytest.approx(0, abs=0.02)
    assert float(drawn.std()) == pytest.approx(1, abs=0.02)


def test_a_fact_that_the_model_tells_is_of_its_likeliest_token():
    model = deep()
    fact = Fact.recalled(model, REQUESTS[0])
    logits = model.module(input_ids=torch.tensor([fact.parts.prompt])).logits[0, -1]
    assert fact.parts.target == (int(logits.argmax()),)
    (one,) = patching.trace(model, [fact], Method(samples=1))
    assert one.clean == pytest.approx(float(logits.softmax(-1).max()))


def test_windows_lie_as_those_of_rome_and_others_or_states_that_are_not_there_are_refused():
    model = deep(layers=6)
    for window, layer, expected in ((1, 0, [0]), (2, 0, [0]), (2, 3, [2, 3]), (4, 5, [3, 4, 5])):
        site = next(s for s in patching.sites(model, ["mlp"], window) if s.layer == layer)
        assert site.modules == tuple(model.architecture.down(at) for at in expected)
    assert [patching.default_window(n) for n in (1, 6, 12, 28, 48)] == [1, 1, 2, 6, 10]
    model = tiny_model("mixtral")
    with pytest.raises(PluginError, match="no MLP output projection") as error:
        patching.sites(model, KINDS, 1)
    assert error.value.remedy == "trace what it has, such as --kinds hidden"
    assert len(patching.sites(model, ["hidden", "attention"], 1)) == 4
    with pytest.raises(UsageError, match="a window of 3 is wider than the model's 2 layers"):
        patching.sites(model, KINDS, 3)
