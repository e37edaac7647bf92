"""The codebook against a model that is hooked by hand, one text at a time and without a cache."""

from contextlib import ExitStack
from functools import partial

import pytest
import torch

from edit_harness import Choose, Generate
from edit_harness.edits import Edit, Rows
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.grace.codebook import Codebook, nearest
from edit_harness_plugins.editors.grace.grace import inputs_at

KINDS = [("gpt2", "left"), ("llama", "right"), ("gptj", "left"), ("opt", "right")]
PROMPTS = ["Ada", "Ada lives", "Ada lives in", "The mother tongue of Danielle is", "It rains. Ada lives in"]  # fmt: skip
"""One of a single token, and beginnings of one another."""
CANDIDATES = ("Paris", "Zanzibar by the sea", "Zanzibar")


def module_of(model):
    """Below a block whose keys and values carry the change to later tokens.

    And above one with attention: GPT-J's first MLP sees nothing but the token.
    """
    return model.architecture.projection(1).name


def deep_model(family="gpt2", **options):
    depth = "n_layer" if family.startswith("gpt") else "num_hidden_layers"
    return tiny_model(family, **{depth: 3}, **options)


def last_inputs(model, prompts):
    ids = [model.tokens.encode(prompt).ids for prompt in prompts]
    return inputs_at(model, module_of(model), ids)


def book(model, prompts, radius, seed=0):
    keys = last_inputs(model, prompts)
    width = model.architecture.hidden
    values = 3 * torch.randn(len(keys), width, generator=torch.Generator().manual_seed(seed))
    radii = torch.full((len(keys),), float(radius))
    return Edit(adaptors={module_of(model): Codebook(keys, values, radii)})


@torch.no_grad()
def logits_by_hand(model, edit, ids, last):
    """Replace the output at one column of the only row, if its input is within a radius."""

    def hook(book, _, args, output):
        flat = output.reshape(-1, output.shape[-1]).clone()
        inputs = args[0].reshape(-1, args[0].shape[-1])
        distances = [float((inputs[last] - key).norm()) for key in book.keys]
        entry = distances.index(min(distances))
        if distances[entry] <= float(book.radii[entry]):
            flat[last] = book.values[entry]
        return flat.view_as(output)

    with ExitStack() as stack:
        for name, book in edit.adaptors.items():
            module = model.module.get_submodule(name)
            stack.enter_context(module.register_forward_hook(partial(hook, book)))
        return model.module(torch.tensor([ids]), use_cache=False).logits[0].double()


def scores_by_hand(model, edit, prompt, candidate):
    parts = model.tokens.split(prompt, candidate)
    log = logits_by_hand(model, edit, parts.inputs, len(parts.prompt) - 1).log_softmax(-1)
    return [float(log[p, t]) for p, t in zip(parts.places, parts.target, strict=True)]


def text_by_hand(model, edit, prompt, count):
    ids = list(model.tokens.encode(prompt).ids)
    length = len(ids)
    for _ in range(count):
        ids.append(int(logits_by_hand(model, edit, ids, length - 1)[-1].argmax()))
    return model.tokens.decode(ids[length:])


def edits_of(model):
    """Edits that answer one prompt, several, all and none, and no edit."""
    apart = torch.pdist(last_inputs(model, PROMPTS)).min()
    return [
        book(model, PROMPTS[:1], apart / 2, seed=1),
        book(model, PROMPTS[1:4], apart / 2, seed=2),
        book(model, PROMPTS[:2], 1e6, seed=3),
        book(model, ["Bob works at"], 0.0, seed=4),
        Edit(),
    ]


@pytest.mark.parametrize(("family", "padding"), KINDS)
def test_scores_of_many_books_in_a_batch_are_those_by_hand(family, padding):
    """fp32, in another order of sums than by hand: 2e-5, as for other edits."""
    model = deep_model(family, padding=padding)
    edits = edits_of(model)
    questions = [(edit, Choose(prompt, CANDIDATES)) for prompt in PROMPTS for edit in edits]
    answers = model.answer(questions)
    for (edit, query), answer in zip(questions, answers, strict=True):
        for candidate, found in zip(CANDIDATES, answer.logprobs, strict=True):
            expected = scores_by_hand(model, edit, query.prompt, candidate)
            assert found == pytest.approx(expected, abs=2e-5)
    of_all, of_none, plain = (answers[place :: len(edits)] for place in (2, 3, 4))
    assert of_all != plain
    for one, other in zip(of_none, plain, strict=True):
        assert one.nll(0) == pytest.approx(other.nll(0), abs=1e-4)


@pytest.mark.parametrize(("family", "padding"), KINDS)
def test_generations_with_a_cache_are_those_by_hand(family, padding):
    model = deep_model(family, padding=padding)
    edits = edits_of(model)
    questions = [(edit, Generate(prompt, 8)) for prompt in PROMPTS for edit in edits]
    texts = [answer.text for answer in model.answer(questions)]
    assert texts == [text_by_hand(model, edit, q.prompt, 8) for edit, q in questions]
    assert texts[2::5] != texts[4::5]


def test_a_text_is_looked_up_at_the_end_of_its_own_prompt():
    """Also where the prompt of another text with the same tokens ends elsewhere."""
    model = deep_model(dtype=torch.float64)
    edit = book(model, ["Ada lives"], 0.01)
    queries = [Choose("Ada lives", ("in Paris",)), Choose("Ada lives in", ("Paris",))]
    split, whole, plain = model.answer([(edit, q) for q in queries] + [(Edit(), queries[1])])
    by_hand = scores_by_hand(model, edit, "Ada lives", "in Paris")
    assert split.logprobs[0] == pytest.approx(by_hand, abs=1e-12)
    assert whole.logprobs[0] == pytest.approx(plain.logprobs[0], abs=1e-12)
    assert split.logprobs[0][-1] != pytest.approx(whole.logprobs[0][-1], abs=1e-3)


# The look-up alone.


def lookups(rows=6, columns=5, entries=40, width=48, seed=0):
    noise = torch.Generator().manual_seed(seed)
    inputs = 100 * torch.randn(rows, columns, width, generator=noise)
    outputs = torch.randn(rows, columns, 7, generator=noise)
    keys = 100 * torch.randn(entries, width, generator=noise)
    offsets = torch.arange(columns) - torch.arange(rows)[:, None]
    values = torch.randn(entries, 7, generator=noise)
    return inputs, outputs, keys, values, rows_at(offsets)


def rows_at(offsets):
    return Rows(offsets, torch.ones_like(offsets).bool(), torch.zeros_like(offsets), {}, {})


def test_the_nearest_entry_answers_if_it_is_within_its_own_radius():
    inputs, outputs, keys, values, rows = lookups(rows=1, columns=1, entries=2)
    step = torch.nn.functional.one_hot(torch.tensor(0), 48).float()
    keys[0], keys[1] = inputs[0, 0] + 8 * step, inputs[0, 0] - 16 * step
    for radii, answer in [
        ((8, 0), values[0]),
        ((7.9, 100), outputs[0, 0]),  # the other one is wide enough, but not the nearest
        ((7.9, 0), outputs[0, 0]),
    ]:
        found = Codebook(keys, values, torch.tensor(radii))(inputs, outputs, rows)
        assert torch.equal(found[0, 0], answer)
    # A key is at no distance from itself, as it is not where products compute many.
    _, _, keys, *_ = lookups(entries=60)
    distance, entry = nearest(keys, keys)
    assert distance.tolist() == [0] * 60
    assert entry.tolist() == [*range(60)]
    assert float(torch.cdist(keys, keys).diagonal().max()) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_distances_of_half_precision_are_in_single(dtype):
    _, _, keys, _, _ = lookups()
    queries = (keys + 1).to(dtype)
    distance, entry = nearest(keys, queries)
    assert distance.dtype == torch.float32
    exact = (queries.double() - keys.double()).norm(dim=1)
    torch.testing.assert_close(distance.double(), exact, rtol=1e-5, atol=0)
    assert entry.tolist() == [*range(40)]


@pytest.mark.parametrize("shapes", [((2, 3), (3, 4), (2,)), ((0, 3), (0, 4), (0,))])
def test_tensors_that_make_no_book(shapes):
    with pytest.raises(ValueError, match="codebook"):
        Codebook(*map(torch.ones, shapes))
