"""Many prompts at once against each of them alone and without a cache.

Tokens are compared for equality: batching moves the logits of these random models by less than
1e-4, and seeds are fixed, so that no text hangs on a tie.
"""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from support.generation import FAMILIES, TEXTS, edit_of, passes, switched, tied, uncached
from torch import nn

from edit_harness import Generate
from edit_harness.edits import UNEDITED, Edit
from edit_harness.model.generate import Prompt, samples
from edit_harness.testing.tiny import tiny_model


def mixed(model):
    """Prompts that differ in whatever a prompt can differ in."""
    edits = [edit_of(model), UNEDITED, edit_of(model, 1), tied(model), switched(model)]
    edits.append(edit_of(model, 2) + Edit(prefix="Ann is French. "))
    prompts = []
    for i, edit in enumerate(edits):
        for j, text in enumerate(TEXTS):
            query = Generate(text, 5 + 3 * ((i + j) % 3), top_k=1 + 9 * (j % 2), seed=i)
            prompts.append(Prompt(model.tokens.encode(edit.prefix + text).ids, query, edit))
    return prompts


def alone(model, prompt):
    """The oracle: one prompt, the weights written, no cache."""
    with applied_and_switched(model, prompt):
        new = uncached(model.module, prompt.ids, prompt.query)
    return new[: new.index(prompt.stop)] if prompt.stop in new else new


@contextmanager
def applied_and_switched(model, prompt):
    """The edit, its adaptor a hook of our own that finds the prompt's end by its column."""
    handles = []
    for name, adaptor in prompt.edit.adaptors.items():
        last = len(prompt.ids) - 1

        def hook(_, args, output, value=adaptor.value, last=last):
            flat = output.view(-1, output.shape[-1]).clone()
            inputs = args[0].reshape(-1, args[0].shape[-1])
            flat[last:] += inputs[: last + 1, 0].mean().sign() * value
            return flat.view_as(output)

        handles.append(model.module.get_submodule(name).register_forward_hook(hook))
    try:
        with model.applied(prompt.edit):
            yield
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.parametrize(
    ("family", "padding"),
    [*((family, "right") for family in FAMILIES), ("gpt2", "left"), ("llama", "left")],
)
def test_together_is_as_alone(family, padding):
    model = tiny_model(family, padding=padding)
    assert model.pads
    prompts = mixed(model)
    assert len({len(p.ids) for p in prompts}) >= 4
    expected = [alone(model, prompt) for prompt in prompts]
    assert samples(model, prompts) == expected
    plain = [uncached(model.module, p.ids, p.query) for p in prompts]
    felt = {p.edit for p, a, b in zip(prompts, expected, plain, strict=True) if a != b}
    assert felt == {p.edit for p in prompts} - {UNEDITED}


def test_each_text_ends_at_its_own_stop(model):
    free = mixed(model)
    long = samples(model, free)
    stops = [new[i % len(new)] for i, new in enumerate(long)]
    stopped = [replace(p, stop=s) for p, s in zip(free, stops, strict=True)]
    cut = [new[: new.index(stop)] for new, stop in zip(long, stops, strict=True)]
    assert samples(model, stopped) == cut
    assert len({len(new) for new in cut}) > 3
    assert [] in cut


@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_each_text_ends_where_the_model_is_full(family):
    positions = "n_positions" if family == "gpt2" else "max_position_embeddings"
    model = tiny_model(family, **{positions: 16})
    ids = model.tokens.encode("Ada lives in Paris").ids * 4
    lengths = [16, 15, 12, 5, 3, 1]
    prompts = [Prompt(ids[:n], Generate("", 14, top_k=5)) for n in lengths]
    new = samples(model, prompts)
    assert list(map(len, new)) == [0, 1, 4, 11, 13, 14]
    fitting = [
        replace(p, query=Generate("", len(n), top_k=5)) for p, n in zip(prompts, new, strict=True)
    ]
    assert new == [alone(model, p) for p in fitting]


@pytest.mark.parametrize(("rows", "tokens"), [(3, 4096), (None, 60), (None, 1), (1, 4096)])
def test_batches_keep_the_budget(rows, tokens):
    model = tiny_model(batch_rows=rows, batch_tokens=tokens)
    prompts = mixed(model)
    expected = samples(tiny_model(), prompts)
    assert model.pads
    with passes(model) as seen:
        assert samples(model, prompts) == expected
    firsts = [(n, width) for n, width in seen if width > 1]
    assert max(n for n, _ in seen) <= (rows or 4096)
    shortest = min(p.query.max_new_tokens for p in prompts)
    assert all(n == 1 or n * (width + shortest) <= tokens for n, width in firsts)
    assert (max(n for n, _ in firsts) > 1) == (rows != 1 and tokens > 1)


class Unpadded(nn.Module):
    """A module that heeds neither mask nor positions; or, ``lonely``, whose rows get mixed up."""

    def __init__(self, module, *, lonely):
        super().__init__()
        self.transformer, self.lm_head = module.transformer, module.lm_head
        self.config, self.lonely = module.config, lonely
        object.__setattr__(self, "whole", module)

    def forward(self, input_ids, attention_mask=None, past_key_values=None, use_cache=False):
        out = self.whole(input_ids=input_ids, past_key_values=past_key_values, use_cache=use_cache)
        if self.lonely and len(input_ids) > 1:
            out.logits = out.logits.flip(0)
        return out


@pytest.mark.parametrize("lonely", [False, True])
def test_a_model_that_fails_the_trial_is_right_all_the_same(lonely):
    model = tiny_model()
    prompts = mixed(model)
    expected = samples(model, prompts)
    model.module = Unpadded(model.module, lonely=lonely)
    model.takes = frozenset()
    del model.pads
    assert not model.pads
    with passes(model) as seen:
        assert samples(model, prompts) == expected
    assert max(n for n, _ in seen) == 1
    lengths = {len(p.ids) for p in prompts}
    assert {width for _, width in seen} <= lengths | {1}
