"""ROME at other tokens than the subject's last, against a search that knows no shortcut."""

from typing import get_args

import pytest
import torch
from support.builders import recording

from edit_harness import Request
from edit_harness.registry.settings import build
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search.texts import FactToken, fact_token
from edit_harness_plugins.editors.locate.rome import Rome, RRome
from edit_harness_plugins.editors.locate.value_search import Settings, alike, search

TOKENS = get_args(FactToken)
CONTEXTS = ("{}", "It rains. {}")


REQUESTS = [
    Request("{} lives in the city of", "Ada Lovelace", "Oslo"),
    Request("Where is {}?", "the Eiffel Tower", "Rome in France"),
    Request("The mother tongue of {}", "Ada Lovelace", "French"),
]
FIELDS = {"steps": 5, "weight_decay": 0.5, "clamp": 4.0}


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
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.prompt)
def test_where_a_token_is(model, token, request_):
    for before in ("", "It rains. "):
        text = before + request_.text
        expected = place_in(model, token, before, request_)
        for target in ("", request_.target_new):
            assert fact_token(model.tokens, token, request_, text, target) == expected


def test_the_first_byte_of_a_subject(model):
    request = Request("In {} it rains", "éa", "Paris")
    first, last = (
        fact_token(model.tokens, which, request) for which in ("subject_first", "subject_last")
    )
    spans = model.tokens.encode(request.text).spans
    assert first < last
    start = request.text.index(request.subject)
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
    delta = torch.zeros_like(seen.outputs[0, 0], requires_grad=True)
    optimizer = torch.optim.Adam([delta], lr=settings.lr)
    clean = None
    for step in range(settings.steps):
        nll = 0
        for ids, place, parts in rows:
            found = logits(ids, place, delta).log_softmax(-1)
            each = [-found[p, t] for p, t in zip(parts.places, parts.target, strict=True)]
            nll = nll + sum(each) / len(each) / len(rows)
        now = logits(essence, essence_place, delta)[essence_place].log_softmax(-1)
        clean = now.detach() if clean is None else clean
        drift = settings.kl_factor * (now.exp() * (now - clean)).sum()
        loss = nll + drift + settings.weight_decay * delta.norm() / norm**2
        if loss < settings.stop or step == settings.steps - 1:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            longest = settings.clamp * norm
            delta.mul_(longest / delta.norm() if delta.norm() > longest else 1.0)
    return delta.detach(), loss.item()


def given(token):
    return Settings(lr=0.5, kl_factor=0.0625, stop=5e-2, fact_token=token, **FIELDS)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("request_", REQUESTS[:2], ids=lambda r: r.prompt)
def test_the_search_finds_what_a_naive_one_does(token, request_):
    model = tiny_model(dtype=torch.float64)
    (found,) = search(model, 0, [request_], CONTEXTS, given(token))
    delta, loss = naive(model, request_, token, given(token))
    torch.testing.assert_close(found.delta, delta, rtol=1e-6, atol=1e-8)
    assert found.losses[-1][0] == pytest.approx(loss, rel=1e-8)
    assert delta.norm() > 0.1


@pytest.mark.parametrize("token", ["subject_first", "subject_first_after_last", "last"])
def test_the_pair_is_written_at_the_token(token):
    """ROME's bare key then gives what was searched."""
    model, request = tiny_model(dtype=torch.float64), REQUESTS[0]
    editor = Rome(layer=0, covariance=False, contexts=CONTEXTS, fact_token=token, **FIELDS)
    edit, _ = editor.edit_each(model, [[request], [REQUESTS[1]]])
    (found,) = search(model, 0, [request], CONTEXTS, given(token))
    module = model.architecture.projection(0).module
    with torch.no_grad(), model.applied(edit), recording(module, 1) as seen:
        model.module(torch.tensor([model.tokens.encode(request.text).ids]))
    got = seen.outputs[0, place_in(model, token, "", request)]
    torch.testing.assert_close(got, found.values[0] + found.delta, rtol=1e-9, atol=1e-10)


def test_requests_are_grouped_by_what_is_behind_the_token(model):
    assert len(alike(model, REQUESTS[:2], 2, "last")) == 2  # the targets are of different lengths
    same = [Request("{} lives in", name, "Oslo") for name in ("Ada", "Ada Lovelace")]
    assert len(alike(model, same, 2, "subject_last")) == 1
    assert len(alike(model, same, 2, "subject_first")) == 2


def test_tables_name_a_token_that_is_not_the_papers():
    assert build(Rome, {"fact_token": "last"}, "rome").variant == "token=last"
    assert build(RRome, {}, "r-rome").variant == ""
