"""GRACE: the conformance suite, its rules on given keys, and its search against a plain one."""

from functools import partial

import pytest
import torch
from support.editors import REQUESTS, OnBothKinds

from edit_harness import Choose, PluginError, Request
from edit_harness.edits import Edit
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors.grace.codebook import PADDING, Book
from edit_harness_plugins.editors.grace.grace import Grace


def grace(**fields):
    return Grace(**{"layer": 1, "module": "down", "steps": 8, "epsilon": 0.5} | fields)


class TestGrace(OnBothKinds):
    editor = grace()


class TestGraceOnGptj(EditorTests):
    editor = grace()
    family = "gptj"


class TestGraceBeforeTheNonlinearity(EditorTests):
    editor = grace(module="up", start="warm")


def book_of(edit):
    (book,) = edit.adaptors.values()
    return book


# The search.


def searched_plainly(model, editor, request, start, name):
    """Replace the output of one module at the last prompt token, one whole text at a time."""
    parts = model.tokens.split(request.text, request.target_new)
    value, last = start.clone().requires_grad_(), len(parts.prompt) - 1
    optimizer = torch.optim.Adam([value], lr=editor.lr)

    def hook(module, args, output):
        flat = output.reshape(-1, output.shape[-1])
        return torch.cat([flat[:last], value[None], flat[last + 1 :]]).view_as(output)

    losses = []
    for _ in range(editor.steps):
        with model.module.get_submodule(name).register_forward_hook(hook):
            logits = model.module(torch.tensor([parts.inputs]), use_cache=False).logits[0, last:]
        loss = torch.nn.functional.cross_entropy(logits.double(), torch.tensor(parts.target))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return value.detach(), losses


def test_a_cold_start_is_of_the_request_and_the_seed_alone():
    request, width = REQUESTS[0], torch.empty(40)
    first = grace().first_value(request, width)
    torch.manual_seed(5)
    assert torch.equal(grace(lr=0.1).first_value(request, width), first)
    assert 0 <= first.min() < 0.2
    assert 0.8 < first.max() < 1
    for other in (grace(seed=1), request), (grace(), REQUESTS[1]):
        assert not torch.equal(other[0].first_value(other[1], width), first)


# The rules, on keys that stand on a line.


def taken(places, labels):
    """Return entries (place, radius, label) and what became of each request."""
    keys = torch.zeros(len(places), 3)
    keys[:, 1] = torch.tensor(places)
    book = Book(Edit(), "m", keys, 1.0, torch.float32)
    became = [book.take(label) for label in labels]
    near = partial(pytest.approx, abs=3e-6)
    entries = zip(book._keys[:, 1].tolist(), book.radii, book.labels, strict=False)
    return [(near(place), near(radius), label) for place, radius, label in entries], became


A, B = (10, 12), (11, 11)
"""Labels with one mean, which the published comparison takes for equal."""


RULES = {
    "only a distance beyond both radii is far": (
        ([0.0, 2.1, -2.5], [A, A, B]),
        [(0, 1, A), (2.1, 1, A), (-2.5, 1, B)],
    ),
    "two labels share the way between them": (
        ([0.0, 1.5], [A, B]),
        [(0, 0.75 - 1e-5, A), (1.5, 0.75, B)],
    ),
    "at the sum of the radii it is not beyond them": (
        ([0.0, 2.0], [A, B]),
        [(0, 1 - 1e-5, A), (2, 1, B)],
    ),
    "the nearest entry is the one that is split": (
        ([0.0, 3.0, 2.0], [A, A, B]),
        [(0, 1, A), (3, 0.5 - 1e-5, A), (2, 0.5, B)],
    ),
    "a label is compared with all its tokens": (
        ([0.0, 1.0], [A, (*A, 1)]),
        [(0, 0.5 - 1e-5, A), (1, 0.5, (*A, 1))],
    ),
    "an equal label expands an entry": (([0.0, 1.5], [A, A]), [(0, 1.5, A)]),
    "from its own key, which stays": (([0.0, 1.5, -0.5, -2.0], [A] * 4), [(0, 2, A)]),
    "and never to less": (([0.0, 0.5], [A, A]), [(0, 1, A)]),
    "another label for the same key takes its place": (([1.0, 1.0 + 1e-6], [A, B]), [(1, 1, B)]),
}


@pytest.mark.parametrize(("requests", "entries"), RULES.values(), ids=RULES)
def test_the_rules_of_entries(requests, entries):
    assert taken(*requests)[0] == entries


def test_each_request_is_told_its_entry_and_whether_that_learns_anew():
    assert taken([0.0, 1.5, -2.5], [A, B, A])[1] == [(0, True), (1, True), (2, True)]
    assert taken([0.0, 1.5], [A, A])[1] == [(0, True), (0, False)]
    assert taken([1.0, 1.0 + 1e-6], [A, B])[1] == [(0, True), (0, True)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_of_half_precision_makes_no_second_key(dtype):
    """The same prompt is seen alone, and then in a pass with others."""
    model = tiny_model(dtype=dtype)
    editor = grace()
    first, last = (Request("{} lives in", "Ada", city) for city in ("Paris", "Rome"))
    edit = editor.extend(model, editor.edit(model, [first]), [last, *REQUESTS[:2]])
    assert len(book_of(edit)) == 3
    assert book_of(edit).radii.tolist() == [0.5] * 3
    query = Choose(last.text, ("Rome",))
    after, before = model.answer([(edit, query), (Edit(), query)])
    assert after.nll(0) < before.nll(0) - 0.1


# Several requests in a model.


def test_one_after_another_is_all_at_once(model, tmp_path):
    """Also where a value is learned from several requests, and with a file in between."""
    requests = [*REQUESTS, Request("{} plays the", "Ann", "guitar"), REQUESTS[2], REQUESTS[0]]
    editor = grace(epsilon=2.0)
    step = Edit()
    for request in requests:
        step = editor.extend(model, step, [request])
        step.save(tmp_path / "edit")
        step = Edit.load(tmp_path / "edit")
    whole = editor.edit(model, requests)
    (labels,), (others,) = step.state.values(), whole.state.values()
    assert torch.equal(labels, others)
    assert PADDING in labels, "those of one token beside longer ones"
    for part, tensor in vars(book_of(step)).items():
        torch.testing.assert_close(tensor, getattr(book_of(whole), part), rtol=1e-5, atol=1e-4)
    assert 1 < len(book_of(whole)) < len(requests)
    assert whole.info["entries"] == len(book_of(whole))


def test_an_expanded_entry_learns_on_from_what_it_has(model):
    near = [Request("{} plays the", name, "guitar") for name in ("Ann", "Bob")]
    editor = grace(epsilon=50.0)
    first, edit = editor.edit(model, near[:1]), editor.edit(model, near)
    ((name, book),) = edit.adaptors.items()
    value, _ = searched_plainly(model, editor, near[1], book_of(first).values[0], name)
    torch.testing.assert_close(book.values, value[None], rtol=0, atol=1e-4)
    torch.testing.assert_close(book.keys, book_of(first).keys)


# What it refuses.


def test_an_edit_of_others_is_not_extended(model):
    edit = grace().edit(model, REQUESTS[:1])
    (module,) = edit.adaptors
    assert module == "transformer.h.1.mlp.c_proj"
    for editor, previous in (
        (grace(layer=0), edit),
        (grace(), Edit(adaptors=edit.adaptors)),
        (grace(), Edit(adaptors={module: lambda inputs, outputs, rows: outputs})),
    ):
        with pytest.raises(PluginError, match="grace cannot extend it"):
            editor.extend(model, previous, REQUESTS[1:2])
