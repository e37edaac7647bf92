"""MEMIT, EMMET, AlphaEdit and PMET: the conformance suite, and each paper's formula, done naively.

Naively: one batch at a time, whole passes of a model whose weights hold the change so far, and a
dense system as large as the layer is wide.
"""

from dataclasses import replace
from math import sqrt

import pytest
import torch
from support.builders import recording
from support.editors import REQUESTS, TEXTS, relative

from edit_harness import DataError, Request, UsageError
from edit_harness.edits import Edit
from edit_harness.files import sha256_of
from edit_harness.interfaces import Making
from edit_harness.registry.settings import settings
from edit_harness.testing import EditorTests, tiny_model
from edit_harness.testing.fixtures import gain
from edit_harness_plugins.editors._search.contexts import fill
from edit_harness_plugins.editors.covariance import collect, find, save
from edit_harness_plugins.editors.locate import alphaedit as alphaedit_module
from edit_harness_plugins.editors.locate import regular as regular_module
from edit_harness_plugins.editors.locate.alphaedit import AlphaEdit, NullSpace
from edit_harness_plugins.editors.locate.emmet import Emmet
from edit_harness_plugins.editors.locate.memit import STARTS, Memit
from edit_harness_plugins.editors.locate.pmet import Pmet
from edit_harness_plugins.editors.locate.regular import Metric
from edit_harness_plugins.editors.locate.rome import Rome, RRome

CONTEXTS = ("{}", "The sun rose. {}", "Today. {}")
FIELDS = {"steps": 5, "lr": 0.5, "weight_decay": 0.5, "clamp": 2.0, "contexts": CONTEXTS}
EDITORS = {
    "memit": Memit(layers=(0, 1), moment_weight=2.0, **FIELDS),
    "emmet": Emmet(layers=(1,), **FIELDS),
    "alphaedit": AlphaEdit(layers=(0, 1), l2=0.01, threshold=0.3, **FIELDS),
    "pmet": Pmet(layers=(0, 1), moment_weight=2.0, **FIELDS),
    "r-rome": RRome(layer=0, steps=5, weight_decay=0.5, clamp=2.0, contexts=CONTEXTS),
}
SPREADING = ["memit", "emmet", "alphaedit", "pmet"]


@pytest.fixture(scope="module")
def moments(tmp_path_factory):
    """The folder of second moments, which are collected once for each model."""
    return tmp_path_factory.mktemp("moments")


def with_moments(model, folder, editor):
    """Return the editor as it finds second moments of all layers of the tiny model."""
    path = folder / f"{model.digest}.safetensors"
    if not path.exists():
        found = collect(model, TEXTS, [0, 1, 2], corpus="texts", max_tokens=10_000)
        save({layer: regular(moment) for layer, moment in found.items()}, path)
    return replace(editor, moments=str(path) if isinstance(editor, Rome) else (str(path),))


def regular(moment):
    """Return a moment of full rank: so few texts do not fill GPT-J's layers."""
    return replace(moment, matrix=moment.matrix + 0.01 * torch.eye(len(moment.matrix)))


def prepared(model, folder, name, **fields):
    editor = replace(with_moments(model, folder, EDITORS[name]), **fields)
    editor.check(model)
    editor.prepare(model)
    return editor


def deep(family="gpt2", dtype=torch.float32):
    """Return a tiny model of three layers: behind the last one nothing looks at the subject."""
    return tiny_model(family, dtype, num_hidden_layers=3)


class Conformance(EditorTests):
    @pytest.fixture
    def model(self, moments, monkeypatch):
        model = deep(self.family)
        monkeypatch.setattr(self, "editor", with_moments(model, moments, type(self).editor))
        return model


class TestMemit(Conformance):
    editor = EDITORS["memit"]


class TestMemitWithFields(Conformance):
    editor = replace(EDITORS["memit"], encore=1.0, patience=2, rect=0.4, prune=True)


class TestMemitWithWindows(Conformance):
    editor = replace(EDITORS["memit"], window=2)
    family = "llama"


class TestEmmet(Conformance):
    editor = EDITORS["emmet"]
    family = "gptj"


class TestAlphaEdit(Conformance):
    editor = EDITORS["alphaedit"]


class TestPmet(Conformance):
    editor = EDITORS["pmet"]
    family = "llama"
    trains = False  # the share that attention took on in the search is dropped


class TestRRome(Conformance):
    editor = EDITORS["r-rome"]
    family = "qwen2"


# Closed forms against dense systems, in fp64: what is left is rounding times a condition number.


def keys_and_moment(count, width=24):
    draw = torch.Generator().manual_seed(count)
    keys = torch.randn(width, count, generator=draw, dtype=torch.float64)
    root = torch.randn(width, 3 * width, generator=draw, dtype=torch.float64)
    return keys, root @ root.T / (3 * width)


def dense(name, editor, keys, moment, earlier=None):
    """Return A as the papers write it, with systems as large as the layer is wide."""
    gram, width = keys @ keys.T, torch.eye(len(keys), dtype=keys.dtype)
    if earlier is not None:
        gram = gram + earlier @ earlier.T
    if name in ("memit", "pmet"):
        metric = editor.moment_weight * moment + editor.encore * width + gram
        return metric.inverse() @ keys
    if name == "emmet":
        inverse = moment.inverse()
        ridge = (0.1 if keys.shape[1] > 1 else 0.0) * torch.eye(keys.shape[1], dtype=keys.dtype)
        return inverse @ keys @ (keys.T @ inverse @ keys + ridge).inverse()
    values, vectors = torch.linalg.eigh(moment)
    free = vectors[:, values < editor.threshold]
    projector = free @ free.T
    return torch.linalg.solve(projector @ gram + editor.l2 * width, projector @ keys)


def solver_of(editor, moment):
    """Return what `solver` would, for a moment at hand."""
    if isinstance(editor, AlphaEdit):
        return Metric(NullSpace.of(moment, editor.threshold).project, editor.l2)
    weight = editor.moment_weight if isinstance(editor, Memit) else 1.0
    return lambda keys: torch.linalg.solve(moment, keys) / weight


@pytest.mark.parametrize("count", [1, 7, 40])
@pytest.mark.parametrize("name", SPREADING)
def test_the_closed_form_is_the_dense_one(name, count):
    """Also of more keys than the layer is wide."""
    editor = EDITORS[name]
    if name == "alphaedit":
        editor = replace(editor, threshold=0.6)
    keys, moment = keys_and_moment(count)
    ours = editor.directions(keys, solver_of(editor, moment)(keys))
    assert relative(ours, dense(name, editor, keys, moment)) < 1e-9


# Whole edits against a loop of whole passes.


def aims(model, editor, request):
    """Return the places of each value, as tokens and a position: at the subject, or before a window."""
    for context in CONTEXTS:
        text = fill(context, request.text)
        if editor.window:
            parts = model.tokens.split(text, request.target_new)
            whole = parts.prompt + parts.target
            yield [(whole, at - 1) for at in range(len(parts.prompt), len(whole), editor.window)]
        else:
            yield [(model.tokens.encode(text).ids, model.tokens.subject_last(request, text))]


def passed(model, edit, ids, place, module):
    """Return input and output of a module at a place, in a model that holds the edit."""
    with torch.no_grad(), model.applied(edit), recording(module, 1) as seen:
        model.module(input_ids=torch.tensor([ids]))
    return seen.inputs[0, place], seen.outputs[0, place]


def naive(name, model, editor, requests, previous=Edit(), earlier=(None, None)):  # noqa: B008
    """Return the changes of all layers, inputs by outputs, and the keys, with those of earlier requests."""
    with model.applied(previous):
        wanted = [found.wanted for found in editor._search(model, requests)]
    last, edit, changes, known = editor.layers[-1], previous, [], []
    aim = model.architecture.block(last)
    if name == "pmet":
        aim = model.architecture.projection(last).module
    for i, layer in enumerate(editor.layers):
        projection = model.architecture.projection(layer)
        keys, missing = [], []
        places = [each for r in requests for each in zip(*aims(model, editor, r), strict=True)]
        for own, z in zip(places, wanted, strict=True):
            bare, *others = (passed(model, edit, *each, projection.module)[0] for each in own)
            keys.append(0.5 * bare + 0.5 * torch.stack(others).mean(0))
            left = len(editor.layers) - i
            divisor = sqrt(left) if name == "pmet" else left
            missing.append((z - passed(model, edit, *own[0], aim)[1]) / divisor)
        moment = find(model, layer, editor.moments[0]).matrix.double()
        a = dense(name, editor, torch.stack(keys, 1), moment, earlier[i])
        with model.applied(previous):
            changes.append(rected(a @ torch.stack(missing), projection.matrix, editor.rect))
        known.append(
            torch.cat([torch.stack(keys, 1), *(earlier[i : i + 1] if previous.weights else [])], 1)
        )
        edit = edit + Edit(projection.dense(changes[-1]))
    return changes, known


def rected(change, weight, share):
    """Return a change with all but the share of its entries that are largest beside the weight's."""
    if not share:
        return change
    order = (change / (weight + 1e-8)).abs().flatten().argsort(descending=True)
    mask = torch.zeros_like(order, dtype=torch.bool)
    mask[order[: int(share * len(order))]] = True
    return change * mask.view_as(change)


def as_used(model, edit, layer):
    """Return an edit's change of a layer, inputs by outputs."""
    projection = model.architecture.projection(layer)
    change = edit.weights[f"{projection.name}.weight"].dense()
    return change.T if projection.out_in else change


@pytest.mark.parametrize("family", ["gpt2", "llama", "gptj"])
@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("name", SPREADING)
def test_an_edit_is_what_the_paper_says(name, family, window, moments):
    """All but GPT-2 compute norms or angles in fp32, whatever their weights are."""
    model = deep(family, torch.float64)
    editor = prepared(model, moments, name, window=window)
    edit = editor.edit(model, REQUESTS[:3])
    expected, _ = naive(name, model, editor, REQUESTS[:3])
    assert len(edit.weights) == len(editor.layers)
    for layer, change in zip(editor.layers, expected, strict=True):
        limit = 1e-8 if family == "gpt2" else 1e-5
        assert relative(as_used(model, edit, layer), change) < limit
        assert change.norm() > 1e-3


@pytest.mark.parametrize("name", SPREADING)
def test_the_last_block_can_be_edited(name, moments):
    """What is behind it is read at the last norm; only a subject that ends the prompt feels it."""
    model = deep()
    editor = prepared(model, moments, name, layers=(1, 2))
    request = Request("The mother tongue is that of {}", "Danielle", "French")
    assert gain(model, editor.edit(model, [request]), request) > 0


def test_r_rome_is_rome_with_the_mean_key(moments):
    model = deep(dtype=torch.float64)
    editor = prepared(model, moments, "r-rome")
    rome = Rome(**settings(editor))
    assert rome.variant == "key=mean"
    (ours,), (theirs,) = (e.edit(model, REQUESTS[:1]).weights.values() for e in (editor, rome))
    assert torch.equal(ours.dense(), theirs.dense())


# Sequences: what is remembered, and what keeps changes small.

SEQUENCES = [
    ("memit", {"past": True}),
    ("memit", {"encore": 3.0, "patience": 1}),
    ("memit", {"past": True, "rect": 0.4}),
    ("memit", {"past": True, "window": 2}),
    ("alphaedit", {}),
    ("alphaedit", {"window": 3}),
    ("alphaedit", {"rect": 0.4, "anchor": 1.0}),
]


@pytest.mark.parametrize(("name", "fields"), SEQUENCES)
def test_a_sequence_is_what_the_papers_say(name, fields, moments, tmp_path):
    """Twenty requests one by one, stored in between, and five at once."""
    model = deep(dtype=torch.float64)
    editor = prepared(model, moments, name, steps=3, **fields)
    facts = [Request(REQUESTS[i % 2].prompt, f"Ada {i}", f"Oslo {i}") for i in range(25)]
    edit, known = Edit(), (None, None)
    for batch in [*([fact] for fact in facts[:20]), facts[20:]]:
        expected, known = naive(name, model, editor, batch, edit, known)
        after = editor.extend(model, edit, batch)
        for i, (layer, change) in enumerate(zip(editor.layers, expected, strict=True)):
            before = as_used(model, edit, layer) if edit.weights else 0.0
            assert relative(as_used(model, after, layer) - before, change) < 1e-9
            stored = after.state[f"keys.{layer}"]
            assert relative(stored @ stored.T, known[i] @ known[i].T) < 1e-12
        after.save(tmp_path / "edit.safetensors")
        edit = Edit.load(tmp_path / "edit.safetensors")
    assert (stored.shape[1] > 25) == (editor.window > 0)


@pytest.mark.parametrize("name", ["memit", "alphaedit", "r-rome"])
def test_prune_lowers_the_largest_singular_values_of_the_sum(name, moments):
    model = deep("llama", torch.float64)
    editor = prepared(model, moments, name, prune=True)
    weight = model.architecture.projection(0).matrix
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(n, 5, generator=draw).double() for n in weight.shape)
    largest = torch.linalg.svdvals(weight)[0]
    left *= largest / torch.linalg.svdvals(left @ right.T)[2]
    low = Edit(model.architecture.projection(0).low_rank(left, right.T), state={"a": left})
    whole = Edit(model.architecture.projection(0).dense(left @ right.T))
    u, values, v = torch.linalg.svd(left @ right.T, full_matrices=False)
    lower = torch.where(values > largest, values.log() - largest.log() + largest, values)
    assert 2 <= (values > largest).sum() <= 3
    for edit in (low, whole):
        done = editor.finish(model, edit)
        assert relative(as_used(model, done, 0), u @ lower.diag() @ v) < 1e-9
        assert done.state == edit.state
        assert {type(d) for d in done.weights.values()} == {type(d) for d in edit.weights.values()}
        assert replace(editor, prune=False).finish(model, edit) is edit
    (small,) = Edit(model.architecture.projection(0).low_rank(left / 9, right.T)).weights.values()
    assert regular_module.pruned(small, weight) is small


def test_rect_holds_for_rome_and_is_named():
    model = deep(dtype=torch.float64)
    plain = replace(EDITORS["r-rome"], covariance=False)
    rect = replace(plain, rect=0.4)
    ours = as_used(model, rect.edit(model, REQUESTS[:1]), 0)
    expected = as_used(model, plain.edit(model, REQUESTS[:1]), 0)
    assert torch.equal(ours, rected(expected, model.architecture.projection(0).matrix, 0.4))
    assert rect.variant == "C=I, rect"
    memit = EDITORS["memit"]
    assert replace(memit, past=True, rect=0.2, prune=True).variant == "past, rect=0.2, prune"
    assert replace(memit, encore=20, patience=2).variant == "encore=20, patience=2"
    assert replace(EDITORS["alphaedit"], anchor=3.0, window=40).variant == "anchor, window=40"
    assert not memit.variant


def test_an_anchor_shortens_what_is_far_beyond_it(moments):
    model = deep(dtype=torch.float64)
    editor = prepared(model, moments, "alphaedit")
    plain = editor._search(model, REQUESTS)
    norms = [float(found.wanted.norm()) for found in plain]
    noted = prepared(model, moments, "alphaedit", anchor=1e9)
    assert torch.equal(*(as_used(model, e.edit(model, REQUESTS), 1) for e in (editor, noted)))
    assert noted.edit(model, REQUESTS[:1]).info["wanted_norm"] == norms[0]
    anchor = sorted(norms)[1] / 2
    found = prepared(model, moments, "alphaedit", anchor=anchor)._search(model, REQUESTS)
    for own, clean, norm in zip(found, plain, norms, strict=True):
        share = anchor / norm if norm > 2 * anchor else 1.0
        assert relative(own.wanted, share * clean.wanted) < 1e-12


# AlphaEdit's null space and its memory of earlier requests.


def test_alphaedit_keeps_the_keys_of_all_requests(moments):
    model = deep(dtype=torch.float64)
    editor = prepared(model, moments, "alphaedit", layers=(0,))
    first = editor.edit(model, REQUESTS[:1])
    both = editor.extend(model, first, REQUESTS[1:3])
    again = editor.extend(model, both, REQUESTS[3:])
    assert [e.state["keys.0"].shape[1] for e in (first, both, again)] == [1, 3, 4]
    assert torch.equal(again.state["keys.0"][:, :3], both.state["keys.0"])
    # The last change alone, from the dense system with the three earlier keys in it.
    moment = find(model, 0, editor.moments[0]).matrix.double()
    keys = again.state["keys.0"]
    name = f"{model.architecture.projection(0).name}.weight"
    added = again.weights[name].dense() - both.weights[name].dense()
    a = dense("alphaedit", editor, keys[:, 3:], moment, keys[:, :3])
    left = a / a.norm()
    assert relative(left @ (left.T @ added), added) < 1e-9


def test_a_wide_layers_null_space_is_made_by_the_command(moments, tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    model = deep()
    editor = with_moments(model, moments, EDITORS["alphaedit"])
    computed = editor.edit(model, REQUESTS[:1])
    monkeypatch.setattr(alphaedit_module, "QUICK", 8)
    editor = with_moments(model, moments, EDITORS["alphaedit"])
    with pytest.raises(DataError, match="null space of layer 0") as caught:
        editor.prepare(model)
    assert "edit-harness prepare --editor alphaedit" in caught.value.remedy
    lines = []
    making = Making(model.cache("editors"), report=lines.append)
    assert editor.make(model, making)
    stored = editor.edit(model, REQUESTS[:1])
    assert editor.make(model, making)
    # What is stored is not made again.
    assert [line.split(":")[0] for line in lines] == ["layer 0", "layer 1"]
    for one, two in zip(stored.weights.values(), computed.weights.values(), strict=True):
        assert relative(one.dense(), two.dense()) < 1e-4
    with pytest.raises(DataError, match=r"threshold 0\.06"):
        replace(editor, threshold=0.06).prepare(model)


def test_a_stored_null_space_is_part_of_what_identifies_a_run(moments, tmp_path, monkeypatch):
    """Item 6 of issue I: valid noise in its place is another run."""
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    model = deep()
    editor = with_moments(model, moments, EDITORS["alphaedit"])
    editor.prepare(model)
    assert set(editor.provenance) == {"moments.0", "moments.1"}, "which say what is computed"
    editor.make(model, Making(model.cache("editors")))
    editor.prepare(model)
    stored = dict(editor.provenance)
    assert set(stored) == {"moments.0", "moments.1", "null_space.0", "null_space.1"}
    editor.prepare(model)
    assert editor.provenance == stored
    file = next(model.cache("editors").glob("*-l1-*"))
    used = NullSpace.load(file).used
    NullSpace(torch.linalg.qr(torch.randn(used.shape).double()).Q).save(file)
    editor.prepare(model)
    changed = {name for name, value in editor.provenance.items() if stored[name] != value}
    assert changed == {"null_space.1"}


# What is refused, and what is recorded.


def test_what_cannot_be_edited_is_refused(model, tmp_path, monkeypatch):
    for layers in ((1, 0), (0, 0), ()):
        with pytest.raises(UsageError, match="from the lowest on"):
            replace(EDITORS["memit"], layers=layers).check(model)
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    for name, each in EDITORS.items():
        with pytest.raises(DataError, match="no second moment of layer") as caught:
            each.prepare(model)
        assert f"edit-harness prepare --editor {name}" in caught.value.remedy
        assert ("covariance=false" in caught.value.remedy) == (name == "r-rome")


def test_moments_may_come_from_a_file_for_each_layer(tmp_path):
    model = deep()
    found = collect(model, TEXTS, [0, 1], corpus="texts", max_tokens=10_000)
    files = [tmp_path / f"{layer}.safetensors" for layer in found]
    for file, (layer, moment) in zip(files, found.items(), strict=True):
        save({layer: moment}, file)
    editor = replace(EDITORS["memit"], moments=tuple(map(str, files)))
    editor.prepare(model)
    assert editor.moment_layers == (0, 1)
    digests = {f"moments.{layer}": sha256_of(file) for layer, file in enumerate(files)}
    assert editor.provenance == digests
    with pytest.raises(DataError, match="layer 1"):
        replace(editor, moments=(str(files[0]),)).prepare(model)


def test_contexts_begin_as_in_the_published_code_and_are_recorded(moments):
    model = deep()
    editor = prepared(model, moments, "memit", contexts=())
    bare, *others = editor.found["contexts"]
    assert bare == "{}"
    for text, start in zip(others, STARTS, strict=True):
        assert text.startswith(start)
        assert text.endswith(". {}")
