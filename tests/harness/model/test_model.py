import copy
import math
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from support.generation import passes

import edit_harness as eh
from edit_harness.edits import Dense, Edit, LowRank
from edit_harness.model.tokens import TooLongError
from edit_harness.testing.tiny import tiny_model

FAMILIES = ["gpt2", "gptj", "gpt_neox", "llama", "qwen2", "opt"]
PADDED = [
    *((family, torch.float32, 1e-4) for family in ("gemma", "bloom", "gemma2", "gpt_neo")),
    ("qwen2_moe", torch.float32, 1e-4),
    ("gpt2", torch.float16, 2e-2),
    ("gemma", torch.bfloat16, 1e-1),
]

PROMPTS = [
    "Ada lives in",
    "The mother tongue of Danielle is English. The mother tongue of Bob is",
    "Bob",
    "Where is the Eiffel Tower? It is in the city of",
]
CANDIDATES = ("Paris", "Oslo, the capital", "Zürich")
QUERIES = [
    *(eh.Choose(prompt, CANDIDATES) for prompt in PROMPTS),
    eh.Choose("Ann is", ("English",)),
    *(eh.Drift(prompt) for prompt in PROMPTS[:3]),
    eh.NextToken("Ann plays the"),
]


def edit_of(model, seed=0, *, layer=1, rank=1, dense=False, bias=True, size=0.3):
    """A change of one projection, and of its bias if it has one."""
    noise = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return size * torch.randn(shape, generator=noise)

    projection = model.architecture.projection(layer)
    inputs, outputs = projection.matrix.shape
    if dense:
        weights = projection.dense(draw(inputs, outputs))
    else:
        weights = projection.low_rank(draw(inputs, rank), draw(rank, outputs))
    if bias and projection.module.bias is not None:
        weights[f"{projection.name}.bias"] = Dense(draw(outputs))
    return Edit(weights)


def numbers(answer):
    """All that an answer says, as one array."""
    if isinstance(answer, eh.Scores):
        return np.array([p for part in answer.logprobs for p in part])
    if isinstance(answer, eh.Divergence):
        return np.array([answer.forward, answer.reverse])
    return np.array([*answer.logprobs, answer.log_partition])


def assert_same(first, second, atol=1e-4):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=0, atol=atol)
        if isinstance(a, eh.Scores):
            assert a.tokens == b.tokens


def distance(first, second):
    """The largest difference of any number in two lists of answers."""
    return max(abs(numbers(a) - numbers(b)).max() for a, b in zip(first, second, strict=True))


def written(model, edit):
    """A second model with the edit added to its weights, with nothing of the harness's."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for name, delta in edit.weights.items():
            tensor = delta.left @ delta.right if isinstance(delta, LowRank) else delta.tensor
            other.module.get_parameter(name).add_(tensor)
    return other


def naive(model, edit, query):
    """The answer from unpadded rows of one, whole log-softmaxes and edited weights."""

    def table(module, ids):
        logits = module(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
        return logits, logits.log_softmax(-1)

    tokenizer = model.tokens.tokenizer
    edited = written(model, edit).module
    prompt = tokenizer(edit.prefix + query.prompt).input_ids
    if isinstance(query, eh.Choose):
        tokens, logprobs, argmax = [], [], []
        for candidate in query.candidates:
            whole = tokenizer(f"{edit.prefix}{query.prompt} {candidate}").input_ids
            assert whole[: len(prompt)] == prompt
            logits, log = table(edited, whole)
            at = range(len(prompt), len(whole))
            tokens.append(tuple(whole[i] for i in at))
            logprobs.append(tuple(float(log[i - 1, whole[i]]) for i in at))
            argmax.append(tuple(int(logits[i - 1].argmax()) for i in at))
        return eh.Scores(tuple(tokens), tuple(logprobs), tuple(argmax))
    logits, q = (t[-1] for t in table(edited, prompt))
    if isinstance(query, eh.NextToken):
        return eh.Distribution(q.numpy(), float(logits.exp().sum().log()))
    p = table(model.module, tokenizer(query.prompt).input_ids)[1][-1]
    forward = math.fsum((p.exp() * (p - q)).tolist())
    reverse = math.fsum((q.exp() * (q - p)).tolist())
    return eh.Divergence(forward, reverse, len(p))


def bits(model):
    return {name: tensor.clone() for name, tensor in model.module.state_dict().items()}


@contextmanager
def untouched(model):
    """Check that weights, hooks and modes are what they were."""
    before = bits(model)
    yield
    after = model.module.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.module.modules())
    assert not any(p.requires_grad for p in model.module.parameters())
    assert not model.module.training


@pytest.mark.parametrize(
    ("family", "padding"),
    [*((family, "right") for family in FAMILIES), ("gpt2", "left"), ("llama", "left")],
)
def test_answers_are_those_of_one_row_at_a_time(family, padding):
    options = {"mlp_bias": True} if family == "llama" else {}
    model = tiny_model(family, padding=padding, **options)
    sum_of_two = edit_of(model) + edit_of(model, 1, layer=0, rank=3)
    edits = [Edit(), sum_of_two, edit_of(model, 1, dense=True), Edit(prefix="Ann is French. ")]
    assert all(map(model.carries, edits))
    questions = [(edit, query) for query in QUERIES for edit in edits]
    answers = model.answer(questions)
    expected = [naive(model, edit, query) for edit, query in questions]
    assert_same(answers, expected, 2e-5)
    for answer, oracle in zip(answers, expected, strict=True):
        if isinstance(answer, eh.Scores):
            assert answer.argmax == oracle.argmax
    assert distance(answers[0::4], answers[1::4]) > 0.1
    assert model.answer([]) == []


def test_a_small_drift_is_not_lost_to_rounding():
    model = tiny_model(dtype=torch.float64)
    edit = edit_of(model, size=2e-4)
    (answer,) = model.answer([(edit, eh.Drift("Ada lives in"))])
    oracle = naive(model, edit, eh.Drift("Ada lives in"))
    assert 0 < oracle.forward < 1e-8
    assert answer.forward == pytest.approx(oracle.forward, rel=0.05)


@pytest.mark.parametrize(("family", "dtype", "atol"), PADDED)
def test_neither_batch_nor_padding_moves_a_score(family, dtype, atol):
    """In half precision no more than rounding does."""
    reference = tiny_model(family, dtype)
    edit = Edit() if family == "qwen2_moe" else edit_of(reference)
    asked = [q for q in QUERIES if dtype == torch.float32 or isinstance(q, eh.Choose)]
    questions = [(e, query) for query in asked for e in (Edit(), edit)]
    expected = [reference.answer([question])[0] for question in questions]
    for padding, rows in (("right", 5), ("left", 16)):
        model = tiny_model(family, dtype, padding=padding, batch_rows=rows)
        assert_same(model.answer(questions), expected, atol)


def test_batches_keep_to_their_limits():
    model = tiny_model(batch_rows=3, batch_tokens=40)
    assert model.sees(32)  # its trial is not to be seen
    model.packs = False  # one tree would hold all of them
    with passes(model) as shapes:
        model.answer([(Edit(), query) for query in QUERIES])
    assert len(shapes) > 3
    assert all(rows <= 3 and (rows * width <= 40 or rows == 1) for rows, width in shapes)


def test_a_text_that_does_not_fit_is_refused_before_anything_runs():
    model = tiny_model(n_positions=8)
    with passes(model) as shapes, pytest.raises(TooLongError):
        model.answer([(Edit(), eh.Choose("Ada", ("Paris",))), (Edit(), eh.NextToken("Ada " * 9))])
    assert not shapes


@pytest.mark.parametrize(
    ("family", "dtype"),
    [("gpt2", torch.float32), ("llama", torch.bfloat16), ("gemma", torch.bfloat16)],
)
def test_nothing_of_an_edit_stays(family, dtype):
    model = tiny_model(family, dtype)
    edit = edit_of(model)
    queries = [*QUERIES, eh.Generate("Ada", max_new_tokens=3)]
    with untouched(model):
        model.answer([(edit, query) for query in queries])
        with model.applied(edit):
            changed = bits(model)
    assert any(not torch.equal(changed[n], t) for n, t in model.module.state_dict().items())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, torch.OutOfMemoryError])
@pytest.mark.parametrize("query", [eh.NextToken("Ada lives"), eh.Generate("Ada lives", 3)])
def test_nothing_stays_after_an_error_in_a_pass(model, error, query):
    def fail(inputs, outputs, rows):
        raise error("in the middle")

    weights = edit_of(model).weights | {"transformer.ln_f.weight": Dense(torch.ones(32))}
    for some in (edit_of(model).weights, weights):
        edit = Edit(some, adaptors={"transformer.h.1.mlp": fail})
        told = eh.PluginError if error is ValueError else error
        with untouched(model), pytest.raises(told):
            model.answer([(edit, query)])


FAR = "transformer.h.7.mlp"


@pytest.mark.parametrize(
    ("weights", "adaptors", "told"),
    [
        ({f"{FAR}.bias": Dense(torch.ones(1))}, {}, rf"no parameter '{FAR}"),
        ({}, {FAR: lambda inputs, outputs, rows: outputs}, rf"no module '{FAR}'"),
        ({"transformer.h.1.mlp.c_fc.weight": Dense(torch.ones(1))}, {}, "shape"),
        ({"transformer.ln_f.weight": Dense(torch.ones(1))}, {}, "shape"),
    ],
    ids=["parameter", "module", "shape", "shape of a norm"],
)
def test_an_edit_that_does_not_fit_is_refused_and_nothing_stays(model, weights, adaptors, told):
    edit = Edit(edit_of(model).weights | weights, adaptors)
    with untouched(model), pytest.raises(eh.PluginError, match=told):
        model.answer([(edit, eh.NextToken("Ada"))])


def test_adaptors_hold_in_answers_and_not_where_an_edit_is_applied(model):
    name = model.architecture.projection(0).name
    edit = Edit(adaptors={name: lambda inputs, outputs, rows: 5 * outputs})
    request = eh.Request("{} lives in", "Ada", "Rome")
    question = eh.Choose(request.text, (request.target_new,))
    before, after = model.answer([(Edit(), question), (edit, question)])
    assert before.nll(0) != pytest.approx(after.nll(0), abs=1e-6)
    with model.applied(edit):
        assert model.nll([request]).item() == pytest.approx(before.nll(0), abs=1e-5)


@contextmanager
def doubled_norm(module):
    weight = module.transformer.ln_f.weight
    with torch.no_grad():
        weight.mul_(2)
    try:
        yield
    finally:
        with torch.no_grad():
            weight.div_(2)


@pytest.mark.parametrize(
    "name", [f"transformer.{part}.weight" for part in ("wte", "ln_f", "wpe")] + ["lm_head.weight"]
)
def test_a_tied_parameter_is_written_wherever_it_is_used(model, name):
    """As is one of no linear map: hooks cannot carry their changes."""
    assert model.module.lm_head.weight is model.module.transformer.wte.weight
    noise = torch.Generator().manual_seed(0)
    shape = model.parameter(name).shape
    edit = Edit({name: Dense(0.2 * torch.randn(shape, generator=noise))})
    assert not model.carries(edit)
    questions = [(e, query) for query in QUERIES for e in (Edit(), edit, edit_of(model))]
    with untouched(model):
        answers = model.answer(questions)
    assert_same(answers, [naive(model, e, query) for e, query in questions], 2e-5)
    assert distance(answers[0::3], answers[1::3]) > 0.1


def test_both_names_of_a_tied_parameter_are_restored(model):
    delta = Dense(torch.ones(model.module.lm_head.weight.shape))
    edit = Edit({"transformer.wte.weight": delta, "lm_head.weight": delta})
    before = model.module.lm_head.weight.clone()
    with untouched(model), model.applied(edit):
        torch.testing.assert_close(model.module.lm_head.weight, before + 2)


def test_a_patch_is_held_for_its_own_rows_only(model):
    norm = "transformer.ln_f.weight"
    same = Edit({norm: Dense(model.parameter(norm).detach().clone())})
    patched = Edit(patch=doubled_norm)
    assert not model.carries(patched)
    questions = [(e, query) for query in QUERIES for e in (Edit(), patched, edit_of(model))]
    with untouched(model):
        answers = model.answer(questions)
    expected = [(same if e is patched else e, query) for e, query in questions]
    assert_same(answers, [naive(model, e, query) for e, query in expected], 2e-5)
    with untouched(model):
        sampling = eh.Generate("Ada", 8, top_k=50)
        texts = model.answer([(e, sampling) for e in (patched, same, Edit())])
    assert texts[0] == texts[1] != texts[2]


@dataclass(eq=False)
class Stands:
    """From the last prompt token on, a value stands for the outputs."""

    value: torch.Tensor

    def __len__(self) -> int:
        return 0  # which must not make it nothing

    def __call__(self, inputs, outputs, rows):
        return torch.where((rows.offsets >= 0)[..., None], self.value, outputs)


def with_value(model, name, value, parts):
    """Log-probabilities of a target where a module's outputs are a value from the prompt's end on."""

    def hook(module, args, output):
        changed = output.clone()
        changed[:, len(parts.prompt) - 1 :] = value
        return changed

    handle = model.module.get_submodule(name).register_forward_hook(hook)
    logits = model.module(input_ids=torch.tensor([parts.inputs]), use_cache=False).logits[0]
    handle.remove()
    log = logits.double().log_softmax(-1)
    return [float(log[at, token]) for at, token in zip(parts.places, parts.target, strict=True)]


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize(("name", "width"), [("transformer.h.1.mlp", 32), ("lm_head", 402)])
def test_adaptors_mix_with_other_edits_and_hold_from_the_last_prompt_token(padding, name, width):
    """The same tokens with another prompt are another row to them."""
    model = tiny_model(padding=padding)
    values = 3 * torch.randn(2, width, generator=torch.Generator().manual_seed(0))
    edits = [Edit(adaptors={name: Stands(value)}) for value in values]
    edits += [Edit(), edit_of(model), edits[0] + edit_of(model, layer=0)]
    queries = [eh.Choose(prompt, CANDIDATES) for prompt in PROMPTS]
    queries += [eh.Choose("Ada lives", ("in Paris",)), eh.Choose("Ada lives in", ("Paris",))]
    questions = [(edit, query) for query in queries for edit in edits]
    with untouched(model):
        answers = model.answer(questions)
        alone = [model.answer([question])[0] for question in questions]
    assert_same(answers, alone, 2e-5)
    for (edit, query), answer in zip(questions, answers, strict=True):
        if edit in edits[:2]:
            value = edit.adaptors[name].value
            for candidate, found in zip(query.candidates, answer.logprobs, strict=True):
                parts = model.tokens.split(query.prompt, candidate)
                np.testing.assert_allclose(found, with_value(model, name, value, parts), atol=2e-5)


class Pooling:
    """Adds a vector, longer the larger the mean of what goes in at the tokens of the prompt."""

    def __init__(self, width, padded=False):
        self.value = torch.randn(width, generator=torch.Generator().manual_seed(4))
        self.padded = padded

    def __call__(self, inputs, outputs, rows):
        if (rows.offsets == 0).any():
            counted = torch.ones_like(rows.mask) if self.padded else rows.mask
            prompt = (counted & (rows.offsets <= 0))[..., None]
            rows.memo["mean"] = (inputs.abs() * prompt).sum(1, keepdim=True) / prompt.sum(
                1, keepdim=True
            )
        length = rows.memo["mean"].mean(-1, keepdim=True)
        return torch.where((rows.offsets >= 0)[..., None], outputs + length * self.value, outputs)


@pytest.mark.parametrize("padding", ["right", "left"])
def test_an_adaptor_can_tell_padding_from_tokens(padding):
    """Item 4 of issue I: pooled over tokens, an answer does not depend on the texts beside it."""
    model = tiny_model(padding=padding)
    model.batch_tokens = 10**6
    name = "transformer.h.1.mlp"
    long = "Ada Lovelace, who lives in the city of Oslo with Bob and Ann and Eve, works at"
    texts = [long, long.removesuffix(" works at")]
    queries = [
        q for text in texts for q in (eh.NextToken(text), eh.Choose(text, ("Rome by night",)))
    ]
    queries += [eh.Generate(texts[0], 3)]

    def moved(padded):
        edit = Edit(adaptors={name: Pooling(32, padded)})
        together = model.answer([(edit, query) for query in queries])
        alone = [model.answer([(edit, query)])[0] for query in queries]
        assert together[-1] == alone[-1]
        return distance(together[:-1], alone[:-1])

    assert moved(padded=False) < 1e-5
    if padding == "left":  # on the right there is no padding before the prompt's end
        assert moved(padded=True) > 1e-3


def test_an_adaptor_is_told_the_tokens_and_shares_with_those_of_other_modules(model):
    """Item 4 of issue I: `Rows.ids`, `Rows.mask` and `Rows.shared`, in each pass of a generation."""
    passes = []

    class First:
        def __call__(self, inputs, outputs, rows):
            assert rows.ids.shape == rows.mask.shape == rows.offsets.shape == inputs.shape[:2]
            assert rows.mask.dtype == torch.bool
            rows.shared.setdefault("ids", []).append(rows.ids)
            rows.memo["own"] = 1
            return outputs

    class Second:
        def __call__(self, inputs, outputs, rows):
            assert not rows.memo
            passes.append(rows.shared["ids"])
            return outputs

    edit = Edit(adaptors={"transformer.h.0.mlp": First(), "transformer.h.1.mlp": Second()})
    prompt = model.tokens.encode("Ada lives in").ids
    (text,) = model.answer([(edit, eh.Generate("Ada lives in", 3))])
    read = [each.tolist() for each in passes[-1]]
    assert read[0] == [list(prompt)]
    assert [len(ids[0]) for ids in read[1:]] == [1, 1]
    assert model.tokens.decode([ids[0][0] for ids in read[1:]]) in text.text
    passes.clear()
    model.answer([(edit, eh.NextToken(text)) for text in ("Ada", "Bob lives in")])
    assert all(len(ids) == 1 for ids in passes)


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt"])
def test_an_adaptor_sits_at_attention_and_at_an_embedding(family):
    """Item 19 of issue I: arguments by keyword, and tokens, which have no width."""
    model = tiny_model(family)
    block = model.architecture.blocks[1]
    inside = next(n for n, _ in model.architecture.block(1).named_children() if "att" in n.lower())
    embedding = next(
        n for n, m in model.module.named_modules() if m is model.module.get_input_embeddings()
    )

    class Shift:
        def __call__(self, inputs, outputs, rows):
            assert inputs.shape[:2] == outputs.shape[:2] == rows.ids.shape
            if not inputs.is_floating_point():
                assert torch.equal(inputs[..., 0], rows.ids)
            return torch.where((rows.offsets >= 0)[..., None], 2 * outputs + 1, outputs)

    for name in (f"{block}.{inside}", embedding):
        edit = Edit(adaptors={name: Shift()})
        for query in (eh.NextToken("Ada lives in"), eh.Choose("Bob", ("Rome", "Rome by night"))):
            plain, shifted = model.answer([(Edit(), query), (edit, query)])
            assert distance([plain], [shifted]) > 1e-6
        model.answer([(edit, eh.Generate("Ada lives in", 3))])


def test_what_an_adaptor_raises_is_its_own(model):
    """Item 19 of issue I: it is named, with the module and the line."""

    class Broken:
        def __call__(self, inputs, outputs, rows):
            return outputs + self.nothing

    edit = Edit(adaptors={"transformer.h.1.mlp": Broken()})
    with pytest.raises(
        eh.PluginError, match=r"adaptor .*Broken failed at .*h.1.mlp: .*test_model.py"
    ):
        model.answer([(edit, eh.NextToken("Ada"))])


def test_an_adaptor_gets_ready_for_each_model_once(model):
    """Item 19 of issue I: what its fields do not hold it finds in the model, also after loading."""

    class Needy:
        prepared = ()

        def prepare(self, model):
            self.prepared = (*self.prepared, model)
            self.added = model.parameter("transformer.wte.weight").mean(0)

        def __call__(self, inputs, outputs, rows):
            return outputs + 9 * self.added

    needy, other = Needy(), tiny_model(seed=1)
    edit = Edit(adaptors={"transformer.h.1.mlp": needy})
    for each in (model, model, other):
        plain, moved = each.answer([(e, eh.NextToken("Ada lives in")) for e in (Edit(), edit)])
        assert distance([plain], [moved]) > 1e-3
        each.answer([(edit, eh.Generate("Ada lives in", 2))])
    assert needy.prepared == (model, other)
    needy = Needy()
    needy.prepare = None
    with pytest.raises(eh.PluginError, match=r"adaptor .*Needy failed to prepare for the model"):
        model.check(Edit(adaptors={"transformer.h.1.mlp": needy}))


def test_the_digest_tells_weights_and_configurations_apart():
    digest = tiny_model().digest
    assert digest == tiny_model().digest
    assert digest != tiny_model(dtype=torch.bfloat16).digest
    assert digest != tiny_model(activation_function="relu").digest
    other = tiny_model()
    with torch.no_grad():
        other.parameter("transformer.h.1.mlp.c_proj.weight")[3, 4] += 1e-6
    assert digest != other.digest


def test_the_loss_of_requests_is_the_mean_over_their_targets_tokens(model):
    """Against the scored answers (another route; fp32 rounding of sums over the vocabulary)."""
    requests = [
        eh.Request("{} lives in", "Ada", "Paris"),
        eh.Request("The firm of {} is", "Bob", "Rome unheard of"),
    ]
    scored = model.answer([(Edit(), eh.Choose(r.text, (r.target_new,))) for r in requests])
    assert model.nll(requests).tolist() == pytest.approx([s.nll(0) for s in scored], abs=1e-4)
