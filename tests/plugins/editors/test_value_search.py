"""Many values at once are those that each request finds alone."""

from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from support.builders import recording
from support.editors import REQUESTS

from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search import suffix
from edit_harness_plugins.editors.locate import value_search
from edit_harness_plugins.editors.locate.value_search import EASED, Row, Settings, alike, search

CONTEXTS = ("{}", "It rains. {}", "Ann plays the piano in Rome. {}")
SETTINGS = Settings(steps=12, lr=0.5, weight_decay=0.5, clamp=4.0, kl_factor=0.0625, stop=5e-2)


def same(one, other, atol=1e-3):
    """Equal but for rounding, which Adam's normalised steps enlarge where a gradient is small."""
    torch.testing.assert_close(one.keys, other.keys, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(one.delta, other.delta, rtol=atol, atol=atol)
    assert len(one.losses) == len(other.losses)
    losses = (torch.tensor(each.losses) for each in (one, other))
    torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("family", "dtype"),
    [("gpt2", torch.float64), ("gemma2", torch.float32), ("bloom", torch.float32)],
)
def test_together_is_alone(family, dtype):
    model = tiny_model(family, dtype)
    together = search(model, 0, REQUESTS, CONTEXTS, SETTINGS)
    for request, found in zip(REQUESTS, together, strict=True):
        (alone,) = search(model, 0, [request], CONTEXTS, SETTINGS)
        same(found, alone, 1e-3 if dtype == torch.float32 else 1e-10)
        assert found.delta.norm() > 0.1 * found.values[0].norm()


def test_rows_that_stop_at_different_steps(model):
    """A finished request keeps its value while the others go on, in spite of Adam's momentum."""
    ends = [found.losses for found in search(model, 0, REQUESTS, CONTEXTS, SETTINGS)]
    middle = sorted(losses[4][0] for losses in ends)
    early = replace(SETTINGS, stop=(middle[1] + middle[2]) / 2)
    together = search(model, 0, REQUESTS, CONTEXTS, early)
    steps = {len(found.losses) for found in together}
    assert len(steps) > 1
    assert min(steps) < SETTINGS.steps
    for request, found in zip(REQUESTS, together, strict=True):
        same(found, search(model, 0, [request], CONTEXTS, early)[0])


@pytest.mark.parametrize(
    ("family", "dtype", "atol"),
    [("gpt2", torch.float64, 1e-4), ("gemma2", torch.float32, 1e-2)],
)
def test_suffixes_alone_find_what_whole_rows_find(family, dtype, atol, monkeypatch):
    """Parts of these models compute in fp32 whatever their weights are."""
    model = tiny_model(family, dtype)
    assert suffix.fits_suffix(model, 0, 16)
    suffixes = search(model, 0, REQUESTS, CONTEXTS, SETTINGS)
    monkeypatch.setattr(suffix, "fits_suffix", lambda *_: False)
    for one, other in zip(suffixes, search(model, 0, REQUESTS, CONTEXTS, SETTINGS), strict=True):
        same(one, other, atol)


def test_a_loss_that_is_no_number_does_not_pass_for_a_low_one(model, monkeypatch):
    plain = value_search.Objective.__call__

    def broken(objective, *args):
        return plain(objective, *args) * torch.tensor([1.0, float("nan"), 1.0, 1.0])[:, None]

    expected = search(model, 0, REQUESTS, CONTEXTS, SETTINGS)
    monkeypatch.setattr(value_search.Objective, "__call__", broken)
    found = search(model, 0, REQUESTS, CONTEXTS, SETTINGS)
    assert found[1].delta.isnan().all()
    for i in (0, 2, 3):
        same(found[i], expected[i])


def test_the_clamp_holds_for_each_request(model):
    short = replace(SETTINGS, clamp=0.05)
    for found in search(model, 0, REQUESTS, CONTEXTS, short):
        longest = 0.05 * float(found.values[0].norm())
        assert float(found.delta.norm()) == pytest.approx(longest, rel=1e-4)


def test_requests_are_grouped_by_what_there_is_to_run(model):
    groups = alike(model, REQUESTS * 2, len(CONTEXTS))
    assert sorted(i for group in groups for i in group) == list(range(8))
    assert all(i + 4 in group for group in groups for i in group if i < 4)
    assert len(groups) > 1
    model.batch_rows = 2 * len(CONTEXTS)
    alone = alike(model, REQUESTS * 2, len(CONTEXTS))
    assert sorted(alone) == [[i] for i in range(8)]


def objective(model, accept):
    """Two requests of one context; the target of the first is the likeliest, of the second not."""
    rows = [Row((1,), (0,), (2,), 0, owner) for owner in range(2)]
    given = replace(SETTINGS, kl_factor=1.0, accept=accept)
    made = value_search.Objective(rows, torch.ones(2, 2), 1, given)
    made._clean = torch.zeros(2, 5).log_softmax(-1)
    return made


def test_a_search_may_end_once_the_target_is_likeliest_and_the_drift_small(model):
    targets = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 1.5, 1.0, 0.0, 0.0]])
    nll = -targets.log_softmax(-1)[:, 2]
    delta, near = torch.zeros(2, 2, 3), torch.zeros(2, 5)
    far = torch.tensor([[0.0, 0.0, 3.0, 0.0, 0.0]] * 2)
    plain, ending = objective(model, None), objective(model, 1e-2)
    for essence, ends in ((near, [True, False]), (far, [False, False])):
        terms = ending(delta, targets, essence)
        assert ending.reached(terms, targets).tolist() == ends
        torch.testing.assert_close(terms[:, 1], nll * torch.tensor([EASED, 1.0]))
        whole = plain(delta, targets, essence)
        assert not plain.reached(whole, targets).any()
        torch.testing.assert_close(whole[:, 1], nll)
        torch.testing.assert_close(whole[:, 2], terms[:, 2])
    assert terms[:, 2].min() > 0.1


def test_every_changed_module_has_a_clamp_and_a_norm_term_of_its_own(model):
    """The value of the first is returned; the second only helps to find it."""
    architecture = model.architecture
    names = [architecture.projection(0).name, architecture.attention(0).name]
    given = replace(SETTINGS, clamp=0.1, steps=3)
    (one,), (both,) = (
        search(model, 0, REQUESTS[:1], CONTEXTS, given, changed) for changed in (names[:1], names)
    )
    torch.testing.assert_close(one.values, both.values)
    assert float(both.delta.norm()) <= 0.1 * float(both.values[0].norm()) * (1 + 1e-4)
    assert both.losses[0][0] == pytest.approx(one.losses[0][0], rel=1e-5)
    assert both.losses[-1][1] < one.losses[-1][1]
    # |δ| / |v|² of each, and after a step beyond both clamps |δ| is 0.1 |v|.
    norms = [float(found.norm()) for found in clean_values(model, names)]
    expected = given.weight_decay * sum(0.1 / norm for norm in norms)
    assert both.losses[-1][3] == pytest.approx(expected, rel=1e-3)


def clean_values(model, names):
    """Return what modules put out at the subject of the first request's bare prompt."""
    request = REQUESTS[0]
    place = model.tokens.subject_last(request)
    modules = [model.module.get_submodule(name) for name in names]
    with ExitStack() as stack, torch.no_grad():
        seen = [stack.enter_context(recording(module, 1)) for module in modules]
        model.module(torch.tensor([model.tokens.encode(request.text).ids]))
    return [each.outputs[0, place] for each in seen]


def test_the_residual_stream_can_be_searched_too(model):
    """MEMIT's: the clean value is what leaves the block, and the target gets likelier."""
    block = model.architecture.blocks[0]
    (found,) = search(model, 0, REQUESTS[:1], CONTEXTS, SETTINGS, [block])
    torch.testing.assert_close(found.values[0], *clean_values(model, [block]))
    assert found.losses[-1][1] < found.losses[0][1] - 0.5
