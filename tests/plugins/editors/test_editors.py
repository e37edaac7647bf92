"""The bundled editors: the conformance suite, closed-form oracles, and what their fields do."""

import copy

import pytest
import torch
from support.builders import REQUEST, recording

from edit_harness import Choose, DataError, Generate, Request, UsageError
from edit_harness.edits import Dense, Edit
from edit_harness.model.generate import samples
from edit_harness.model.model import Model
from edit_harness.testing import EditorTests, tiny_model
from edit_harness_plugins.editors._search.covariance import Covariance, Provenance, collect, save
from edit_harness_plugins.editors.in_context.prompt import WORDINGS, Prompt
from edit_harness_plugins.editors.locate import value_search as contexts
from edit_harness_plugins.editors.locate.rome import Rome
from edit_harness_plugins.editors.locate.value_search import Settings, search
from edit_harness_plugins.editors.none import Unedited
from edit_harness_plugins.editors.tuning.ft import ConstrainedFineTuning, FineTuning
from edit_harness_plugins.editors.tuning.lora import Lora

CONTEXTS = ("{}", "The sun rose. {}", "Today. {}")
FAMILIES = ("gpt2", "llama")
TEXTS = [f"Text {i} says that number {i * i} is the square of {i}." for i in range(30)]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def rome(**fields):
    chosen = {"layer": 0, "steps": 8, "weight_decay": 0.5, "clamp": 4.0, "covariance": False}
    return Rome(**chosen | {"contexts": CONTEXTS} | fields)


def ft(cls=FineTuning, **fields):
    return cls(**{"layer": 1, "steps": 6, "lr": 5e-4, "bias": True} | fields)


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


class TestPromptOnLlama(TestPrompt):
    family = "llama"


class TestPromptOnQwen(TestPrompt):
    family = "qwen2"


class TestPromptOnGptJ(TestPrompt):
    family = "gptj"


class TestFineTuning(EditorTests):
    editor = ft()


class TestFineTuningOnLlama(TestFineTuning):
    family = "llama"


class TestFineTuningOnQwen(TestFineTuning):
    family = "qwen2"


class TestFineTuningOnGptJ(TestFineTuning):
    family = "gptj"


class TestFineTuningByGuess(EditorTests):
    editor = FineTuning(steps=3)


class TestFineTuningWithTeacher(EditorTests):
    editor = ft(position="teacher", chunk=1)


class TestConstrainedFineTuning(EditorTests):
    editor = ft(ConstrainedFineTuning, epsilon=2e-3)


class TestConstrainedFineTuningOnLlama(TestConstrainedFineTuning):
    family = "llama"


class TestConstrainedFineTuningOnQwen(TestConstrainedFineTuning):
    family = "qwen2"


class TestConstrainedFineTuningOnGptJ(TestConstrainedFineTuning):
    family = "gptj"


class TestRome(EditorTests):
    editor = rome()


class TestRomeOnLlama(TestRome):
    family = "llama"


class TestRomeOnQwen(TestRome):
    """In a random model two large changes of one matrix spoil each other."""

    family = "qwen2"
    editor = rome(clamp=1.0)


class TestRomeOnGptJ(TestRome):
    """In a random model two large changes of one matrix spoil each other."""

    family = "gptj"
    editor = rome(clamp=1.0)


class TestRRome(EditorTests):
    editor = rome(key_mode="mean")


class TestRomeWithBareKey(EditorTests):
    editor = rome(key_mode="bare")


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
        model = tiny_model(self.family)
        path = tmp_path / "moments.safetensors"
        save(collect(model, TEXTS, [0], corpus="texts", max_tokens=10_000), path)
        monkeypatch.setattr(self, "editor", rome(covariance=True, moments=str(path)))
        return model

    def test_the_moment_matters_and_is_recorded(self, model):
        editor = self.ready(model)
        assert len(editor.provenance["moments"]) == 64
        with_c, without = (e.edit(model, [REQUEST]) for e in (editor, rome()))
        (one,), (two,) = with_c.weights.values(), without.weights.values()
        assert (one.dense() - two.dense()).norm() > 0.1 * two.dense().norm()


class TestRomeWithMomentOnLlama(TestRomeWithMoment):
    family = "llama"


def test_rome_without_a_moment_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="no second moment of layer 0") as caught:
        rome(covariance=True).prepare(tiny_model())
    assert "edit-harness prepare" in caught.value.remedy
    assert "covariance=false" in caught.value.remedy


# Oracles: f(k) is the projection's output at the subject's last token under the edit.


def found_by(editor, model, request=REQUEST):
    editor.prepare(model)
    settings = Settings(
        editor.steps, editor.lr, editor.weight_decay, editor.clamp, editor.kl_factor, editor.stop
    )
    (found,) = search(model, editor.layer, [request], editor.contexts, settings)
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


def relative(one, two):
    return float((one - two).norm() / two.norm())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("key_mode", ["rome", "bare"])
def test_rome_gives_the_bare_key_exactly_the_value(family, key_mode):
    model, editor = tiny_model(family, torch.float64), rome(key_mode=key_mode)
    found = found_by(editor, model)
    value = found.values[0] + found.delta
    assert found.delta.norm() > 0.1 * found.values[0].norm()
    assert relative(written(model, Edit())[0], value) > 1e-2
    after = written(model, editor.edit(model, [REQUEST]))
    assert relative(after[0], value) < 1e-12
    # The keys of the other contexts get something else.
    assert relative(after.mean(0), value) > 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_r_rome_gives_the_mean_key_exactly_the_value(family):
    model, editor = tiny_model(family, torch.float64), rome(key_mode="mean")
    found = found_by(editor, model)
    after = written(model, editor.edit(model, [REQUEST]))
    assert relative(after.mean(0), found.values[0] + found.delta) < 1e-12


def test_rome_is_exact_with_a_moment_too(tmp_path):
    model = tiny_model(dtype=torch.float64)
    path = tmp_path / "c.safetensors"
    save(collect(model, TEXTS, [0], corpus="texts", max_tokens=10_000), path)
    editor = rome(covariance=True, moments=str(path))
    found = found_by(editor, model)
    after = written(model, editor.edit(model, [REQUEST]))
    assert relative(after[0], found.values[0] + found.delta) < 1e-12


@pytest.mark.parametrize("family", FAMILIES)
def test_ft_l_stays_in_its_box_and_reaches_its_walls(family):
    model = tiny_model(family)
    epsilon, lr = 1e-3, 5e-3
    editor = ft(ConstrainedFineTuning, epsilon=epsilon, lr=lr, steps=1)
    edit = editor.edit(model, [REQUEST])
    for name, delta in edit.weights.items():
        original = model.parameter(name)
        # The box is laid around the rounded weight, so its walls are exact in the sums only.
        assert delta.dense().abs().max() <= epsilon + 1e-7, name
        at_wall = (delta.dense().abs() - epsilon).abs() < 1e-7
        assert at_wall.float().mean() > 0.9, name
        assert delta.dense().shape == original.shape
    free = ft(lr=lr, steps=1).edit(model, [REQUEST])
    assert max(d.dense().abs().max() for d in free.weights.values()) > 2 * epsilon


def linear_twin(model):
    """Return the same GPT-2 with torch's Linear in the place of every Conv1D."""
    module = copy.deepcopy(model.module)
    for name, child in list(module.named_modules()):
        if type(child).__name__ == "Conv1D":
            inputs, outputs = child.weight.shape
            twin = torch.nn.Linear(inputs, outputs, dtype=child.weight.dtype)
            twin.weight.data = child.weight.data.T.clone()
            twin.bias.data = child.bias.data.clone()
            parent, _, last = name.rpartition(".")
            setattr(module.get_submodule(parent), last, twin)
    return Model(module, model.tokens.tokenizer)


@pytest.mark.parametrize(
    "editor",
    [rome(), rome(key_mode="mean"), ft(), ft(ConstrainedFineTuning, epsilon=1e-3, bias=False)],
    ids=["rome", "r-rome", "ft", "ft-l"],
)
def test_both_orientations_of_a_weight_give_the_same_model(editor):
    model = tiny_model(dtype=torch.float64)
    twin = linear_twin(model)
    queries = [Choose(REQUEST.text, ("Paris", "Rome")), Choose("Bob works at", ("Fiat", "Saab"))]
    shapes, answers = [], []
    for each in (model, twin):
        edit = copy.copy(editor).edit(each, [REQUEST])
        shapes.append(
            edit.weights[f"{each.architecture.projection(editor.layer).name}.weight"].dense().shape
        )
        answers.append(each.answer([(e, q) for e in (Edit(), edit) for q in queries]))
    assert shapes[0] == shapes[1][::-1] != shapes[1]
    for one, two in zip(*answers, strict=True):
        for left, right in zip(one.logprobs, two.logprobs, strict=True):
            assert left == pytest.approx(right, abs=1e-4)
    assert answers[0][0] != answers[0][2], "the edit must matter"


# What the fields do.


def test_ft_trains_the_bias_only_if_asked():
    model = tiny_model()
    names = [set(ft(bias=bias).edit(model, [REQUEST]).weights) for bias in (True, False)]
    projection = model.architecture.projection(1).name
    assert names == [{f"{projection}.weight", f"{projection}.bias"}, {f"{projection}.weight"}]
    assert set(ft().edit(tiny_model("llama"), [REQUEST]).weights) == {
        "model.layers.1.mlp.down_proj.weight"
    }


def test_ft_stops_early_and_takes_no_step_below_the_threshold():
    model = tiny_model()
    edit = ft(steps=5, stop=1e3).edit(model, [REQUEST])
    assert edit.info["steps"] == 1
    assert all(not delta.dense().any() for delta in edit.weights.values())
    assert ft(steps=5).edit(model, [REQUEST]).info["steps"] == 5
    first, last = (ft(steps=n, lr=1e-2).edit(model, [REQUEST]).info["loss"] for n in (1, 20))
    halfway = (first + last) / 2
    some = ft(steps=20, lr=1e-2, stop=halfway).edit(model, [REQUEST])
    assert 1 < some.info["steps"] < 20
    assert some.info["loss"] < halfway


def test_ft_scores_all_tokens_at_the_last_prompt_token_unless_taught():
    """With one step and one-token targets both positions are the same; with more they differ."""
    model = tiny_model()
    plain, taught = ft(steps=1), ft(steps=1, position="teacher")
    one = Request("{} lives in", "Ada", "Paris")
    several = Request("{} lives in", "Ada", "Zanzibar")
    tokens = model.tokens.split(several.text, several.target_new)
    assert len(model.tokens.split(one.text, one.target_new).target) == 1 < len(tokens.target)
    losses = [e.edit(model, [one]).info["loss"] for e in (plain, taught)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    (answer,) = model.answer([(Edit(), Choose(several.text, (several.target_new,)))])
    assert taught.edit(model, [several]).info["loss"] == pytest.approx(answer.nll(0), rel=1e-5)
    with torch.no_grad():
        whole = model.module(torch.tensor([tokens.prompt])).logits[0, -1].log_softmax(-1)
    expected = -float(whole[list(tokens.target)].mean())
    assert plain.edit(model, [several]).info["loss"] == pytest.approx(expected, rel=1e-5)


def test_ft_takes_chunks_one_after_another():
    model = tiny_model()
    facts = [Request("{} lives in", name, "Paris") for name in ("Ada", "Bob", "Cleo")]
    losses = {chunk: ft(steps=1, chunk=chunk).edit(model, facts).info["loss"] for chunk in (1, 64)}
    assert losses[1] < losses[64], "the second chunk sees the first one's step"


def test_rome_stops_early():
    model = tiny_model()
    assert rome(stop=1e3).edit(model, [REQUEST]).info["steps"] == 0
    never = rome(steps=5, stop=0.0).edit(model, [REQUEST])
    assert never.info["steps"] == 4
    first, last = (rome(steps=n, stop=0.0).edit(model, [REQUEST]).info["loss"] for n in (1, 15))
    halfway = (first + last) / 2
    some = rome(steps=15, stop=halfway).edit(model, [REQUEST])
    assert 0 < some.info["steps"] < 14
    assert some.info["loss"] < halfway


@pytest.mark.parametrize("clamp", [0.25, 1.0])
def test_rome_respects_the_clamp(clamp):
    info = rome(clamp=clamp, lr=1.0).edit(tiny_model(), [REQUEST]).info
    assert info["delta_norm"] == pytest.approx(clamp * info["value_norm"], rel=1e-5)
    wide = rome(clamp=1e6, lr=1.0).edit(tiny_model(), [REQUEST]).info
    assert wide["delta_norm"] > 2 * clamp * wide["value_norm"]


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


def test_sampled_contexts_are_deterministic_and_free_of_braces(monkeypatch):
    model = tiny_model()
    first = contexts.sampled(model, (3, 6), 4, seed=0)
    torch.manual_seed(5)
    assert contexts.sampled(tiny_model(), (3, 6), 4, seed=0) == first
    assert contexts.sampled(model, (3, 6), 4, seed=1) != first
    assert first[0] == "{}"
    assert len(first) == 9
    assert all(c.endswith(". {}") and c.count("{") == 1 for c in first[1:])
    braces = [i for i in range(300) if set("{}") & set(decoded(model, i))]
    assert braces, "the tokenizer must know braces for this test"
    monkeypatch.setattr(contexts, "samples", lambda *_: [[*braces, *braces]])
    (_, context) = contexts.sampled(model, (5,), 1)
    assert context.count("{") == context.count("}") == 1


def decoded(model, token):
    try:
        return model.tokens.decode([token])
    except (IndexError, KeyError, OverflowError):
        return ""


def test_sampled_contexts_have_the_given_length_first_token_included():
    model = tiny_model()
    drawn = []

    def counting(model, prompts):
        new = samples(model, prompts)
        drawn.extend(len(p.ids) + len(tokens) for p, tokens in zip(prompts, new, strict=True))
        return new

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contexts, "samples", counting)
        contexts.sampled(model, (5, 10), 2)
    assert drawn == [5, 5, 10, 10]
    assert Generate("", 1, contexts.TOP_K).top_k == 5


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [("a\nb", "a b"), ("{0} x}", "0  x"), ("  a ", "a"), ("ﬁn", "fin"), ("", "")],
)
def test_clean(dirty, clean):
    assert contexts.clean(dirty) == clean


BRACES = Request("The set {} is {0} {", "{A}, {}", "{x}", "}{")


@pytest.mark.parametrize(
    "editor",
    [
        rome(),
        ft(),
        ft(ConstrainedFineTuning, epsilon=1e-3),
        Lora(targets=(), steps=3, lr=5e-3),
        Prompt(),
    ],
    ids=["rome", "ft", "ft-l", "lora", "prompt"],
)
def test_braces_in_the_data_are_only_text(editor):
    model = tiny_model()
    assert BRACES.text == "The set {A}, {} is {0} {"
    edit = editor.edit(model, [BRACES])
    query = Choose(BRACES.text, (BRACES.target_new, BRACES.target_true))
    before, after = model.answer([(Edit(), query), (edit, query)])
    assert before != after


def test_a_context_is_filled_as_text():
    assert contexts.fill("A {b}. {}", "x {} y") == "A {b}. x {} y"


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_prompt_keeps_the_order_of_the_facts(wording):
    model, editor = tiny_model(), Prompt(wording)
    other = Request("{} works at", "Bob", "Fiat")
    both = editor.edit(model, [REQUEST, other])
    assert editor.extend(model, editor.edit(model, [REQUEST]), [other]).prefix == both.prefix
    words = WORDINGS[wording]
    assert both.prefix == (
        f"{words.opening}{words.before}Ada lives in Paris{words.after}"
        f"{words.before}Bob works at Fiat{words.after}{words.closing}"
    )
    query = Choose("Ada lives in", ("Paris", "Rome"))
    asked = Choose(both.prefix + query.prompt, query.candidates)
    (with_prefix, spelt_out) = model.answer([(both, query), (Edit(), asked)])
    assert with_prefix == spelt_out


def test_the_wordings_of_a_prompt_are_those_of_easyedit():
    """Of its documentation and of its code, letter by letter."""
    prefixes = [Prompt(wording).edit(tiny_model(), [REQUEST]).prefix for wording in WORDINGS]
    assert prefixes == [
        "Please acknowledge the following new facts and use them to answer the question:"
        + "\nNew Fact:Ada lives in Paris.\nPrompt:",
        "New Fact: Ada lives in Paris\nPrompt: ",
        "Imagine that Ada lives in Paris. ",
    ]
    assert [Prompt(wording).variant for wording in WORDINGS] == [
        "", "wording=fact", "wording=imagine",
    ]  # fmt: skip


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


def test_ft_gives_the_whole_change_as_a_dense_one():
    (delta, *_) = ft().edit(tiny_model(), [REQUEST]).weights.values()
    assert isinstance(delta, Dense)


def test_variants_name_the_departures_from_the_paper():
    assert Rome().variant == ""
    assert rome().variant == "C=I"
    assert rome(key_mode="mean").variant == "C=I, key=mean"
    assert Rome(layer=3).moment_layers == (3,)
    assert Rome(layer=3, covariance=False).moment_layers == ()


def test_a_moment_of_a_singular_matrix_is_refused(tmp_path):
    model = tiny_model()
    path = tmp_path / "flat.safetensors"
    flat = torch.ones(128, 128)
    made = Provenance(model.digest, "flat", "", 1000, 100)
    save({0: Covariance(flat, made, "")}, path)
    with pytest.raises(DataError, match="not positive definite"):
        rome(covariance=True, moments=str(path)).prepare(model)


@pytest.mark.parametrize("given", [("foo",), ("Today. {}",), ("{}", "no place"), ("{}", "{} {}")])
def test_contexts_without_a_place_for_the_prompt_are_refused(given):
    with pytest.raises(UsageError, match=r"needs one place \{\} for the prompt"):
        rome(contexts=given).prepare(tiny_model())
