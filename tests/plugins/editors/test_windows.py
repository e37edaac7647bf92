"""AnyEdit's windows: the search against one that knows no shortcut."""

import pytest
import torch
from support.builders import recording

from edit_harness import Request
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.locate.value_search import Settings
from edit_harness_plugins.editors.locate.windows import WindowSearch

CONTEXTS = ("{}", "It rains. {}")
GIVEN = Settings(steps=6, lr=0.5, weight_decay=0.5, clamp=1.0, kl_factor=0.0625, stop=5.3)
REQUESTS = [
    Request.of("Who was Ada?", "Ada lived in Oslo, {} and Rome. She played the guitar"),
    Request("Where does {} live?", "Bob", "In Paris"),
    Request.of("What is it", "It is a long answer, of many words in a row"),
]


def naive(model, request, size):
    """Search window after window with whole texts, the changes found before left in."""
    block, values, known = model.architecture.block(1), [], []
    texts = [
        model.tokens.split(context.replace("{}", request.text, 1), request.target_new)
        for context in CONTEXTS
    ]
    for start in range(0, len(texts[0].target), size):
        ids = [text.prompt + text.target for text in texts]
        with torch.no_grad(), recording(block, 1) as seen:
            model.module(torch.tensor([ids[0]]))
        place = len(texts[0].prompt) + start - 1
        clean = seen.outputs[0, place]
        delta, losses = torch.zeros_like(clean, requires_grad=True), []
        optimizer = torch.optim.Adam([delta], lr=GIVEN.lr)
        for step in range(GIVEN.steps):
            loss = GIVEN.weight_decay * delta.norm() / clean.norm() ** 2
            for text, whole in zip(texts, ids, strict=True):
                first, target = len(text.prompt) - 1, text.target[start : start + size]
                changes = torch.stack([*known, delta])
                where = first + size * torch.arange(len(changes))
                handle = block.register_forward_hook(
                    lambda _, args, out, where=where, changes=changes: out.index_add(
                        1, where, changes[None]
                    )
                )
                found = model.module(torch.tensor([whole])).logits[0].log_softmax(-1)
                handle.remove()
                each = [-found[first + start + i, token] for i, token in enumerate(target)]
                loss = loss + sum(each) / len(each) / len(texts)
            losses.append(loss.item())
            if loss < GIVEN.stop or step == GIVEN.steps - 1:
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                delta.mul_(min(GIVEN.clamp * clean.norm() / delta.norm(), 1.0))
        known.append(delta.detach())
        values.append((clean + known[-1], losses))
    return values


def test_windows_searched_together_are_each_what_a_naive_search_finds():
    """Of texts with equally many windows and others, longer and shorter last ones, and a single window."""
    model = tiny_model("llama", torch.float64, num_hidden_layers=3)
    size, block = 9, model.architecture.blocks[1]
    search = WindowSearch(model, 1, CONTEXTS, GIVEN, [block], size)
    found, expected = iter(search(REQUESTS)), [naive(model, r, size) for r in REQUESTS]
    assert {len(own) for own in expected} >= {1, 3}
    for wanted, losses in (each for own in expected for each in own):
        ours = next(found)
        torch.testing.assert_close(ours.wanted, wanted, rtol=1e-5, atol=1e-7)
        assert [loss for loss, *_ in ours.losses] == pytest.approx(losses, rel=1e-6)
    assert not list(found)
