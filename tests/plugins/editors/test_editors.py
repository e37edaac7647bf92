"""Prompt, fine-tuning and ROME: the conformance suite, ROME's closed form, and what its fields do."""

import pytest
import torch
from support.builders import REQUEST, recording
from support.editors import TEXTS, OnBothKinds, relative

from edit_harness import Choose, DataError, Generate, Request, UsageError
from edit_harness.edits import Edit
from edit_harness.model.generate import samples
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors._search.covariance import Covariance, Provenance, collect, save
from edit_harness_plugins.editors.in_context.prompt import WORDINGS, Prompt
from edit_harness_plugins.editors.locate import value_search as contexts
from edit_harness_plugins.editors.locate.rome import Rome
from edit_harness_plugins.editors.locate.value_search import Settings, search
from edit_harness_plugins.editors.none import Unedited
from edit_harness_plugins.editors.tuning.ft import ConstrainedFineTuning, FineTuning

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

    def test_changes_nothing(self, model):
        edit = Unedited().edit(model, [REQUEST])
        assert edit.touches_nothing
        assert not edit.prefix


class TestPrompt(EditorTests):
    editor = Prompt()
    trains = False


class TestFineTuning(OnBothKinds):
    editor = ft()


class TestFineTuningByGuess(EditorTests):
    editor = FineTuning(steps=3)


class TestFineTuningWithTeacher(EditorTests):
    editor = ft(position="teacher", chunk=1)


class TestConstrainedFineTuning(EditorTests):
    editor = ft(ConstrainedFineTuning, epsilon=2e-3)
    family = "gptj"


class TestRome(OnBothKinds):
    editor = rome()


class TestRomeWithBareKey(EditorTests):
    """In a random model two large changes of one matrix spoil each other."""

    editor = rome(key_mode="bare", clamp=1.0)
    family = "gptj"


class TestRomeByGuess(EditorTests):
    """All of the model's shape comes from the guess, and the contexts are sampled."""

    editor = Rome(steps=5, covariance=False, context_lengths=(3,), context_count=2)

    @pytest.fixture
    def model(self):
        return tiny_model(n_layer=4)

    def test_guesses_the_relative_depth_of_gpt2(self, model):
        assert self.ready(model).layer == 1


class TestRomeWithMoment(EditorTests):
    editor = rome(covariance=True)

    @pytest.fixture
    def model(self, tmp_path, monkeypatch):
        model = tiny_model("qwen2")
        editor = rome(covariance=True, clamp=1.0, moments=moments_of(model, tmp_path))
        monkeypatch.setattr(self, "editor", editor)
        return model

    def test_the_moment_matters_and_is_recorded(self, model):
        editor = self.ready(model)
        assert len(editor.provenance["moments"]) == 64
        with_c, without = (e.edit(model, [REQUEST]) for e in (editor, rome(clamp=1.0)))
        (one,), (two,) = with_c.weights.values(), without.weights.values()
        assert relative(one.dense(), two.dense()) > 0.1


# Oracles: f(k) is the projection's output at the subject's last token under the edit.


def found_by(editor, model, request=REQUEST):
    editor.prepare(model)
    (found,) = search(model, editor.layer, [request], editor.contexts, Settings.of(editor))
    return found


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
    found = found_by(editor, model)
    value = found.values[0] + found.delta
    assert found.delta.norm() > 0.1 * found.values[0].norm()
    before, after = written(model, Edit()), written(model, editor.edit(model, [REQUEST]))
    assert relative(before[0], value) > 1e-2
    aimed, other = (after[0], after.mean(0)) if key_mode != "mean" else (after.mean(0), after[0])
    assert relative(aimed, value) < 1e-12
    assert relative(other, value) > 1e-6


def test_several_requests_of_rome_are_written_one_after_another():
    model = tiny_model(dtype=torch.float64)
    other = Request("{} works at", "Bob", "Fiat")
    editor = rome()
    both = editor.edit(model, [REQUEST, other])
    step = editor.extend(model, editor.edit(model, [REQUEST]), [other])
    (one,), (two,) = both.weights.values(), step.weights.values()
    assert torch.equal(one.dense(), two.dense())
    assert one.left.shape[1] == 2
    with model.applied(editor.edit(model, [REQUEST])):
        found = found_by(editor, model, other)
    assert relative(written(model, both, other)[0], found.values[0] + found.delta) < 1e-12


def test_the_loss_has_the_terms_of_the_paper():
    model = tiny_model(dtype=torch.float64)
    editor = rome(steps=4, weight_decay=0.5, kl_factor=0.0625, stop=0.0)
    found = found_by(editor, model)
    assert len(found.losses) == 4
    for total, *terms in found.losses:
        assert total == pytest.approx(sum(terms), rel=1e-6)
    first = found.losses[0]
    # With no change yet there is no drift and no norm, and the likelihood is that of the contexts.
    texts = [contexts.fill(context, REQUEST.text) for context in CONTEXTS]
    answers = model.answer([(Edit(), Choose(text, (REQUEST.target_new,))) for text in texts])
    assert first[1] == pytest.approx(sum(a.nll(0) for a in answers) / len(answers), rel=1e-5)
    assert first[2:] == pytest.approx((0.0, 0.0), abs=1e-9)
    assert found.losses[-1][2] > 0
    # Adam's first step is lr in every direction.
    step = editor.lr * model.architecture.hidden**0.5
    expected = 0.5 * step / float(found.values[0].norm()) ** 2
    assert found.losses[1][3] == pytest.approx(expected, rel=1e-4)


def test_rome_stops_early(model):
    assert rome(stop=1e3).edit(model, [REQUEST]).info["steps"] == 0
    assert rome(steps=5, stop=0.0).edit(model, [REQUEST]).info["steps"] == 4
    first, last = (rome(steps=n, stop=0.0).edit(model, [REQUEST]).info["loss"] for n in (1, 15))
    halfway = (first + last) / 2
    some = rome(steps=15, stop=halfway).edit(model, [REQUEST])
    assert 0 < some.info["steps"] < 14
    assert some.info["loss"] < halfway


def test_an_edit_says_how_long_its_change_is(model):
    info = rome(clamp=0.25, lr=1.0).edit(model, [REQUEST]).info
    assert info["delta_norm"] == pytest.approx(0.25 * info["value_norm"], rel=1e-5)


def test_variants_name_the_departures_from_the_paper():
    assert Rome().variant == ""
    assert rome(key_mode="mean").variant == "C=I, key=mean"
    assert Rome(layer=3).moment_layers == (3,)
    assert Rome(layer=3, covariance=False).moment_layers == ()


def test_a_singular_moment_is_refused_before_any_edit(model, tmp_path):
    path = tmp_path / "flat.safetensors"
    made = Provenance(model.digest, "flat", "", 1000, 100)
    save({0: Covariance(torch.ones(128, 128), made, "")}, path)
    with pytest.raises(DataError, match="not positive definite"):
        rome(covariance=True, moments=str(path)).prepare(model)


# Contexts.


def test_sampled_contexts_are_deterministic_and_free_of_braces(monkeypatch):
    model = tiny_model()
    first = contexts.sampled(model, (3, 6), 4, seed=0)
    torch.manual_seed(5)
    assert contexts.sampled(tiny_model(), (3, 6), 4, seed=0) == first
    assert contexts.sampled(model, (3, 6), 4, seed=1) != first
    assert first[0] == "{}"
    assert len(first) == 9
    assert all(c.endswith(". {}") and c.count("{") == 1 for c in first[1:])
    braces = [model.tokens.encode(brace).ids[-1] for brace in "{}"]
    monkeypatch.setattr(contexts, "samples", lambda *_: [[*braces, *braces]])
    (_, context) = contexts.sampled(model, (5,), 1)
    assert context.count("{") == context.count("}") == 1


def test_sampled_contexts_have_the_given_length_first_token_included(model, monkeypatch):
    drawn = []

    def counting(model, prompts):
        new = samples(model, prompts)
        drawn.extend(len(p.ids) + len(tokens) for p, tokens in zip(prompts, new, strict=True))
        return new

    monkeypatch.setattr(contexts, "samples", counting)
    contexts.sampled(model, (5, 10), 2)
    assert drawn == [5, 5, 10, 10]
    assert Generate("", 1, contexts.TOP_K).top_k == 5


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [("a\nb", "a b"), ("{0} x}", "0  x"), ("  a ", "a"), ("ﬁn", "fin"), ("", "")],
)
def test_sampled_text_is_cleaned(dirty, clean):
    assert contexts.clean(dirty) == clean


def test_a_context_is_filled_as_text():
    assert contexts.fill("A {b}. {}", "x {} y") == "A {b}. x {} y"


@pytest.mark.parametrize("given", [("foo",), ("Today. {}",), ("{}", "no place"), ("{}", "{} {}")])
def test_contexts_without_a_place_for_the_prompt_are_refused(given, model):
    with pytest.raises(UsageError, match=r"needs one place \{\} for the prompt"):
        rome(contexts=given).prepare(model)


# The editor by a prompt.


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_prompt_keeps_the_order_of_the_facts(wording, model):
    editor, words = Prompt(wording), WORDINGS[wording]
    other = Request("{} works at", "Bob", "Fiat")
    both = editor.edit(model, [REQUEST, other])
    assert editor.extend(model, editor.edit(model, [REQUEST]), [other]).prefix == both.prefix
    assert both.prefix == (
        f"{words.opening}{words.before}Ada lives in Paris{words.after}"
        f"{words.before}Bob works at Fiat{words.after}{words.closing}"
    )


def test_the_wordings_of_a_prompt_are_those_of_easyedit(model):
    """Of its documentation and of its code, letter by letter."""
    prefixes = [Prompt(wording).edit(model, [REQUEST]).prefix for wording in WORDINGS]
    assert prefixes == [
        "Please acknowledge the following new facts and use them to answer the question:"
        + "\nNew Fact:Ada lives in Paris.\nPrompt:",
        "New Fact: Ada lives in Paris\nPrompt: ",
        "Imagine that Ada lives in Paris. ",
    ]
    variants = [Prompt(wording).variant for wording in WORDINGS]
    assert variants == ["", "wording=fact", "wording=imagine"]


# Published numbers.


FT_PUBLISHED = {
    FineTuning: {
        "gpt2-xl": (1, None, True), "gpt-j-6b": (21, None, True),
        "llama-2-7b": (21, None, False), "llama-3-8b": (21, None, False),
        "qwen2-7b": (27, None, False), "qwen2.5-7b": (27, None, False),
    },
    ConstrainedFineTuning: {
        "gpt2-medium": (0, 2e-3, True), "gpt2-large": (0, 1e-3, True), "gpt2-xl": (0, 5e-4, True),
        "gpt-j-6b": (0, 5e-5, True), "gpt-neox-20b": (0, 5e-5, True),
        "mistral-7b": (21, 5e-5, False),
    },
}  # fmt: skip
"""Layer, half-width of the box, and whether the bias is trained, from the authors' files."""


@pytest.mark.parametrize("cls", FT_PUBLISHED)
def test_ft_has_the_published_hyperparameters(cls):
    names = {n for published in FT_PUBLISHED.values() for n in published}
    assert cls.presets.keys() == names | {"pocket"}
    found = {n: p for n, p in cls.presets.items() if p.origin in ("paper", "ported")}
    assert found.keys() == FT_PUBLISHED[cls].keys()
    for name, preset in found.items():
        editor = cls(**preset.values)
        assert (editor.layer, editor.bound(), editor.bias) == FT_PUBLISHED[cls][name]
        assert (editor.steps, editor.lr, editor.weight_decay) == (25, 5e-4, 0)
        assert (editor.position, editor.stop) == ("last", 1e-2)
