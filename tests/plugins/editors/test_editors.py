"""The conformance suite of the simple editors, ROME's closed form, and what no editor takes."""

import pytest
import torch
from support.builders import REQUEST, recording
from support.editors import TEXTS, OnBothKinds, relative

from edit_harness import Generate, PluginError, Request, UsageError
from edit_harness.edits import Edit
from edit_harness.model.generate import samples
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import Named, configure, shape_of
from edit_harness.run.assembly import check_requests
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors import EDITORS
from edit_harness_plugins.editors._search import contexts
from edit_harness_plugins.editors.covariance import collect, find, save
from edit_harness_plugins.editors.grace.grace import Grace
from edit_harness_plugins.editors.in_context.prompt import WORDINGS, Prompt
from edit_harness_plugins.editors.locate.rome import Rome, RRome
from edit_harness_plugins.editors.locate.value_search import Settings, search
from edit_harness_plugins.editors.none import Unedited
from edit_harness_plugins.editors.tuning.ft import ConstrainedFineTuning, FineTuning
from edit_harness_plugins.editors.tuning.locft import LocalizedFineTuning

CONTEXTS = ("{}", "The sun rose. {}", "Today. {}")


def rome(**fields):
    chosen = {"layer": 0, "steps": 8, "weight_decay": 0.5, "clamp": 4.0, "covariance": False}
    return Rome(**chosen | {"contexts": CONTEXTS} | fields)


def ft(cls=FineTuning, **fields):
    return cls(**{"layer": 1, "steps": 6, "lr": 5e-4, "bias": True} | fields)


def moments_of(model, folder):
    path = folder / "moments.safetensors"
    save(collect(model, TEXTS, [0], corpus="texts", max_tokens=10_000), path)
    return str(path)


class TestUnedited(EditorTests):
    editor = Unedited()
    trains = False


class TestPrompt(EditorTests):
    editor = Prompt()
    trains = False


class TestFineTuning(OnBothKinds):
    editor = ft()


class TestConstrainedFineTuning(EditorTests):
    editor = ft(ConstrainedFineTuning, epsilon=2e-3)
    family = "gptj"


class TestLocalizedFineTuning(EditorTests):
    editor = ft(LocalizedFineTuning)
    family = "llama"


class TestRome(OnBothKinds):
    editor = rome()


class TestRomeWithBareKey(EditorTests):
    """In a random model two large changes of one matrix spoil each other."""

    editor = rome(key_mode="bare", clamp=1.0)
    family = "gptj"


# Oracles: f(k) is the projection's output at the subject's last token under the edit.


def written(model, edit, request=REQUEST):
    """Run the edited model over the contexts, and return f(k) for each of them."""
    outputs = []
    projection = model.architecture.projection(rome().layer)
    for context in CONTEXTS:
        text = contexts.fill(context, request.text)
        ids = model.tokens.encode(text).ids
        place = model.tokens.subject_last(request, text)
        with torch.no_grad(), model.applied(edit), recording(projection.module, 1) as seen:
            model.module(input_ids=torch.tensor([ids]))
        outputs.append(seen.outputs[0, place])
    return torch.stack(outputs)


@pytest.mark.parametrize("moment", [False, True], ids=["C=I", "C"])
@pytest.mark.parametrize("key_mode", ["rome", "bare", "mean"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_key_is_given_exactly_the_value(family, key_mode, moment, tmp_path):
    """The bare prompt's key, and the mean key in R-ROME; those of other contexts get something else."""
    model, editor = tiny_model(family, torch.float64), rome(key_mode=key_mode)
    if moment:
        editor = rome(key_mode=key_mode, covariance=True, moments=moments_of(model, tmp_path))
    edit = editor.edit(model, [REQUEST])
    (found,) = search(model, editor.layer, [REQUEST], CONTEXTS, Settings.of(editor))
    value = found.values[0] + found.delta
    assert edit.info["delta_norm"] > 0.1 * edit.info["value_norm"]
    before, after = written(model, Edit()), written(model, edit)
    assert relative(before[0], value) > 1e-2
    aimed, other = (after[0], after.mean(0)) if key_mode != "mean" else (after.mean(0), after[0])
    assert relative(aimed, value) < 1e-12
    assert relative(other, value) > 1e-6
    # The change goes along C⁻¹k.
    key = found.keys[0] if key_mode == "bare" else found.keys.mean(0)
    (change,) = edit.weights.values()
    along = change.left[:, 0] if family == "gpt2" else change.right[0]
    inverse = find(model, 0, editor.moments).solver() if moment else torch.Tensor.double
    cosine = torch.cosine_similarity(along, inverse(key), dim=0)
    assert float(cosine) == pytest.approx(1, abs=1e-12)


def test_several_requests_of_rome_are_written_one_after_another():
    model = tiny_model(dtype=torch.float64)
    other = Request("{} works at", "Bob", "Fiat")
    editor = rome()
    first, both = editor.edit(model, [REQUEST]), editor.edit(model, [REQUEST, other])
    (one,), (two,) = both.weights.values(), editor.extend(model, first, [other]).weights.values()
    assert torch.equal(one.dense(), two.dense())
    with model.applied(first):
        (found,) = search(model, 0, [other], CONTEXTS, Settings.of(editor))
    assert relative(written(model, both, other)[0], found.values[0] + found.delta) < 1e-12


@pytest.mark.parametrize(("editor", "layer"), [(Rome(), 1), (FineTuning(), 1), (Grace(), 3)])
def test_the_layer_of_an_unknown_model_is_guessed_by_depth(editor, layer):
    shape = shape_of(tiny_model(n_layer=4).module.config)
    assert configure(editor, shape, "").editor.layer == layer


def test_tables_name_the_departures_from_the_paper():
    assert rome(key_mode="mean", fact_token="last").variant == "C=I, key=mean, token=last"
    assert Rome().variant == RRome().variant == Prompt().variant == ""
    assert Prompt("imagine").variant == "wording=imagine"
    assert Settings.of(rome(fact_token="last")).fact_token == "last"


# Contexts.


def test_sampled_contexts_depend_on_the_seed_alone_and_have_the_given_length(monkeypatch):
    """The first token, which is not sampled, counts."""
    drawn, model = [], tiny_model()

    def counting(model, prompts):
        new = samples(model, prompts)
        drawn.extend(len(p.ids) + len(tokens) for p, tokens in zip(prompts, new, strict=True))
        return new

    monkeypatch.setattr(contexts, "samples", counting)
    first = contexts.sampled(model, (3, 6), 4, seed=0)
    assert drawn == [3] * 4 + [6] * 4
    torch.manual_seed(5)
    assert contexts.sampled(tiny_model(), (3, 6), 4, seed=0) == first
    assert contexts.sampled(model, (3, 6), 4, seed=1) != first
    assert first[0] == "{}"
    assert len(set(first[5:])) > 1
    assert all(c.endswith(". {}") and c.count("{") == 1 for c in first[1:])
    assert Generate("", 1, contexts.TOP_K).top_k == 5


def test_sampled_text_is_cleaned_and_a_given_one_kept():
    assert contexts.clean(" {0} x}\nﬁn ") == "0  x  fin"
    assert contexts.fill("A {b}. {}", "x {} y") == "A {b}. x {} y"


@pytest.mark.parametrize("given", [("Today. {}",), ("{}", "no place"), ("{}", "{} {}")])
def test_contexts_without_a_place_for_the_prompt_are_refused(given, model):
    with pytest.raises(UsageError, match=r"needs one place \{\} for the prompt"):
        rome(contexts=given).prepare(model)


# The editor by a prompt.


def test_the_wordings_of_a_prompt_are_those_of_easyedit(model):
    """Of its documentation and of its code, letter by letter; facts keep their order."""
    other = Request("{} works at", "Bob", "Fiat")
    prefixes = [Prompt(w).edit(model, [REQUEST, other]).prefix for w in WORDINGS]
    assert prefixes == [
        "Please acknowledge the following new facts and use them to answer the question:"
        + "\nNew Fact:Ada lives in Paris.\nNew Fact:Bob works at Fiat.\nPrompt:",
        "New Fact: Ada lives in Paris\nNew Fact: Bob works at Fiat\nPrompt: ",
        "Imagine that Ada lives in Paris. Imagine that Bob works at Fiat. ",
    ]
    first = Prompt().edit(model, [REQUEST])
    assert Prompt().extend(model, first, [other]).prefix == prefixes[0]


FT_PUBLISHED = {
    FineTuning: {"gpt2-xl": (1, None, True), "gpt-j-6b": (21, None, True)},
    ConstrainedFineTuning: {
        "gpt2-medium": (0, 2e-3, True), "gpt2-large": (0, 1e-3, True), "gpt2-xl": (0, 5e-4, True),
        "gpt-j-6b": (0, 5e-5, True), "gpt-neox-20b": (0, 5e-5, True),
    },
}  # fmt: skip
"""Layer, half-width of the box, and whether the bias is trained, from the papers' files."""


@pytest.mark.parametrize("cls", FT_PUBLISHED)
def test_ft_has_the_published_hyperparameters(cls):
    found = {name: cls(**p.values) for name, p in cls.presets.items() if p.origin == "paper"}
    shown = {name: (each.layer, each.bound(), each.bias) for name, each in found.items()}
    assert shown == FT_PUBLISHED[cls]
    for each in found.values():
        assert (each.steps, each.lr, each.weight_decay) == (25, 5e-4, 0)
        assert (each.position, each.stop) == ("last", 1e-2)


# What cannot be edited is refused before anything is prepared.


def refused_by(family):
    """Return the error that each editor meets a tiny model of a family with."""
    model, errors = tiny_model(family), {}
    for name in EDITORS:
        made = Plugins.installed().find("editor", name).load()()
        editor = configure(made, shape_of(model.module.config), name).editor
        try:
            editor.check(model)
        except PluginError as error:
            errors[name] = f"{error.cause} | {error.remedy}"
    return errors


def test_a_mixture_of_experts_has_no_mlp_to_write_into():
    errors = refused_by("mixtral")
    assert errors.keys() == EDITORS.keys() - {"none", "prompt", "memory", "ike", "lora"}
    for said in errors.values():
        assert "was found in block" in said
        assert "choose an editor that needs none" in said


@pytest.mark.parametrize("name", sorted(EDITORS))
def test_a_fact_without_a_subject_is_refused_before_the_run_or_written(name):
    named = Named(name, "", Plugins.installed().find("editor", name).load()())
    fact = Request.of("What is {this}?", "a fact")
    if name in ("rome", "r-rome", "memit", "emmet", "pmet", "alphaedit"):
        with pytest.raises(UsageError, match=f"{name} needs a subject in each request; 1 of 2"):
            check_requests(named, [REQUEST, fact])
    else:
        check_requests(named, [REQUEST, fact])


def test_a_norm_behind_the_mlp_is_none_of_the_editors_that_add_up_layers():
    errors = refused_by("gemma2")
    assert errors.keys() == {"memit", "emmet", "pmet", "alphaedit"}
    for said in errors.values():
        assert "normalises it before it reaches the residual stream" in said
        assert "such as rome" in said
