"""The search for values: many at once and at any token, against one that knows no shortcut."""

from contextlib import ExitStack
from dataclasses import replace
from typing import get_args

import pytest
import torch
from support.builders import recording
from support.editors import REQUESTS

from edit_harness import Request
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search import suffix
from edit_harness_plugins.editors._search.texts import FactToken, fact_token
from edit_harness_plugins.editors.locate import value_search
from edit_harness_plugins.editors.locate.value_search import EASED, Row, Settings, alike, search

TOKENS = get_args(FactToken)
CONTEXTS = ("{}", "It rains. {}", "Ann plays the piano in Rome. {}")
SETTINGS = Settings(steps=8, lr=0.5, weight_decay=0.5, clamp=4.0, kl_factor=0.0625, stop=5e-2)


def place_in(model, token, before, request):
    """Return a token's place by encoding the beginnings of a text, as the papers' code does."""
    start = before + request.prompt.partition("{}")[0]
    end = start + request.subject
    whole = before + request.text
    counted = {text: len(model.tokens.encode(text).ids) for text in (end, whole)}
    first = len(model.tokens.encode(start.rstrip()).ids) if start.strip() else 0
    return {
        "subject_first": first,
        "subject_last": counted[end] - 1,
        "subject_first_after_last": min(counted[end], counted[whole] - 1),
        "last": counted[whole] - 1,
    }[token]


@pytest.mark.parametrize("token", TOKENS)
def test_where_a_token_is(model, token):
    for request in (*REQUESTS, Request("The mother tongue of {}", "Ada Lovelace", "French")):
        for before in ("", "It rains. "):
            text, expected = before + request.text, place_in(model, token, before, request)
            for target in ("", request.target_new):
                assert fact_token(model.tokens, token, request, text, target) == expected


def test_the_first_token_of_a_subject_may_be_a_byte(model):
    request = Request("In {} it rains", "éa", "Paris")
    first, start = fact_token(model.tokens, "subject_first", request), len("In ")
    spans = model.tokens.encode(request.text).spans
    assert spans[first][0] <= start < spans[first][1]
    assert all(end <= start for _, end in spans[:first])


def naive(model, request, token, settings):
    """Search a value with whole rows, one text after the other, and a hook at the token."""
    projection = model.architecture.projection(0).module
    rows, essence_text = [], Request("{} is a", request.subject, request.target_new)
    for context in CONTEXTS:
        before = context.partition("{}")[0]
        parts = model.tokens.split(before + request.text, request.target_new)
        rows.append((parts.inputs, place_in(model, token, before, request), parts))
    essence = model.tokens.encode(essence_text.text).ids
    essence_place = place_in(model, token, "", essence_text)

    def logits(ids, place, delta):
        def change(module, args, output):
            moved = output.clone()
            moved[0, place] = moved[0, place] + delta
            return moved

        handle = projection.register_forward_hook(change)
        try:
            return model.module(torch.tensor([ids])).logits[0]
        finally:
            handle.remove()

    with torch.no_grad(), recording(projection, 1) as seen:
        model.module(torch.tensor([rows[0][0]]))
    norm = seen.outputs[0, rows[0][1]].norm()
    delta, losses = torch.zeros_like(seen.outputs[0, 0], requires_grad=True), []
    optimizer = torch.optim.Adam([delta], lr=settings.lr)
    clean, since = None, -1
    for step in range(settings.steps):
        nll, likeliest = 0, True
        for ids, place, parts in rows:
            found = logits(ids, place, delta).log_softmax(-1)
            each = [-found[p, t] for p, t in zip(parts.places, parts.target, strict=True)]
            nll = nll + sum(each) / len(each) / len(rows)
            likeliest &= found.argmax(-1)[list(parts.places)].tolist() == list(parts.target)
        now = logits(essence, essence_place, delta)[essence_place].log_softmax(-1)
        clean = now.detach() if clean is None else clean
        drift = settings.kl_factor * (now.exp() * (now - clean)).sum()
        loss = nll + drift + settings.weight_decay * delta.norm() / norm**2
        losses.append(loss.item())
        since += since >= 0 or likeliest
        if (
            loss < settings.stop
            or (settings.patience and since >= settings.patience)
            or step == settings.steps - 1
        ):
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            longest = settings.clamp * norm
            delta.mul_(longest / delta.norm() if delta.norm() > longest else 1.0)
    return delta.detach(), losses


@pytest.mark.parametrize(
    ("token", "whole"), [(token, False) for token in TOKENS] + [("subject_last", True)]
)
def test_many_searches_at_once_are_each_what_a_naive_one_finds(token, whole, monkeypatch):
    """Also as they end at different steps, and where whole rows are run instead of their ends."""
    model = tiny_model(dtype=torch.float64)
    assert suffix.fits_suffix(model, 0, 16)
    if whole:
        monkeypatch.setattr(suffix, "fits_suffix", lambda *_: False)
    given = replace(SETTINGS, fact_token=token, stop=5.3, clamp=1.0)
    together = search(model, 0, REQUESTS, CONTEXTS, given)
    for request, found in zip(REQUESTS, together, strict=True):
        delta, losses = naive(model, request, token, given)
        torch.testing.assert_close(found.delta, delta, rtol=1e-6, atol=1e-8)
        assert [loss for loss, *_ in found.losses] == pytest.approx(losses, rel=1e-8)
    assert len({len(found.losses) for found in together}) > 1


@pytest.mark.parametrize(("patience", "passes"), [(1, [4, 5, 8, 4]), (3, [6, 7, 8, 6])])
def test_a_search_may_end_some_steps_after_the_target_is_the_likeliest(patience, passes):
    model = tiny_model(dtype=torch.float64)
    given = replace(SETTINGS, weight_decay=0.0, patience=patience, fact_token="last")
    together = search(model, 0, REQUESTS, CONTEXTS, given)
    assert [len(found.losses) for found in together] == passes
    for request, found in zip(REQUESTS, together, strict=True):
        delta, losses = naive(model, request, "last", given)
        torch.testing.assert_close(found.delta, delta, rtol=1e-6, atol=1e-8)
        assert [loss for loss, *_ in found.losses] == pytest.approx(losses, rel=1e-8)


def test_a_loss_that_is_no_number_does_not_pass_for_a_low_one(model, monkeypatch):
    plain = value_search.Objective.__call__

    def broken(objective, *args):
        return plain(objective, *args) * torch.tensor([1.0, float("nan"), 1.0, 1.0])[:, None]

    expected = search(model, 0, REQUESTS, CONTEXTS, SETTINGS)
    monkeypatch.setattr(value_search.Objective, "__call__", broken)
    found = search(model, 0, REQUESTS, CONTEXTS, SETTINGS)
    assert found[1].delta.isnan().all()
    for i in (0, 2, 3):
        torch.testing.assert_close(found[i].delta, expected[i].delta)


def test_requests_are_grouped_by_what_there_is_to_run(model):
    groups = alike(model, REQUESTS * 2, len(CONTEXTS))
    assert sorted(i for group in groups for i in group) == list(range(8))
    assert all(i + 4 in group for group in groups for i in group if i < 4)
    assert len(groups) > 1
    model.batch_rows = 2 * len(CONTEXTS)
    assert sorted(alike(model, REQUESTS * 2, len(CONTEXTS))) == [[i] for i in range(8)]


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
        assert ending.reached(terms).tolist() == ends
        torch.testing.assert_close(terms[:, 1], nll * torch.tensor([EASED, 1.0]))
        whole = plain(delta, targets, essence)
        assert not plain.reached(whole).any()
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
