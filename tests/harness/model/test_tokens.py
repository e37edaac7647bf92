import pytest
from tokenizers import decoders, processors

from edit_harness import DataError, Request
from edit_harness.model.tokens import Tokens, TooLongError
from edit_harness.testing.tiny import tiny_model, tiny_tokenizer

KINDS = ["gpt2", "llama2", "llama3", "qwen2"]
BOS = {"llama2": "<s>", "llama3": "<|begin_of_text|>"}

PAIRS = [
    ("Where is the Eiffel Tower?", "Zürich"),
    ("Das Café heißt", "日本"),
    ("A = πr²; B =", "\\frac{1}{2}xy"),
    ("{} and {0} and {x}", "{}"),
    ("two  spaces", "two  spaces"),
]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def tokens(kind):
    return Tokens(tiny_tokenizer(kind))


def appending_eos(kind):
    tokenizer = tiny_tokenizer(kind)
    eos = tokenizer.eos_token
    front = f"{BOS[kind]} " if kind in BOS else ""
    special = [(t, tokenizer.convert_tokens_to_ids(t)) for t in {eos, BOS.get(kind, eos)}]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{front}$A {eos}", special_tokens=special
    )
    assert tokenizer("Ada")["input_ids"][-1] == tokenizer.eos_token_id
    return tokenizer


def pieces(tokens, ids):
    return tokens.tokenizer.convert_ids_to_tokens(list(ids))


@pytest.mark.parametrize(("prompt", "target"), PAIRS)
def test_a_split_is_one_encoding_cut_in_two(tokens, prompt, target):
    parts = tokens.split(prompt, target)
    whole = parts.prompt + parts.target
    assert whole == tuple(tokens.tokenizer(f"{prompt} {target}").input_ids)
    assert parts.prompt == tuple(tokens.tokenizer(prompt).input_ids)
    assert tokens.decode(parts.target).strip(" ") == target
    assert parts.inputs == whole[:-1]
    assert tuple(whole[place + 1] for place in parts.places) == parts.target


def test_there_is_one_bos_and_only_where_the_tokenizer_puts_it(kind, tokens):
    ids = tokens.encode("Ada lives in").ids
    assert pieces(tokens, ids).count(BOS.get(kind)) == (kind in BOS)
    assert tokens.split("Ada lives", "in").prompt[:2] == ids[:2]


def test_an_eos_behind_the_text_is_left_out(kind):
    tokens, plain = Tokens(appending_eos(kind)), Tokens(tiny_tokenizer(kind))
    for prompt, target in PAIRS:
        assert tokens.split(prompt, target) == plain.split(prompt, target)
        assert tokens.encode(target) == plain.encode(target)


@pytest.mark.parametrize(
    ("prompt", "subject", "held"),
    [
        ("{} lives in", "Ada Lovelace", "Lovelace"),
        ("Where is {}?", "the Eiffel Tower", "Tower"),
        ("{}", "Bob", "Bob"),
        ("Bob works at {} in Rome", "Fiat ", "Fiat"),
        ("{}, and {0} {x}", "Ada", "Ada"),
        ("Ada and Ann and {}", "Ada", "Ada"),
        ("{} is in Paris", "the café", None),
        ("Ada lives in {}", "日本", None),
        ("{} is in Paris", "a\u0301", None),
    ],
)
def test_the_last_token_of_a_subject(tokens, prompt, subject, held):
    request = Request(prompt, subject, "Paris")
    index = tokens.subject_last(request)
    ids = tokens.encode(request.text).ids
    assert held in (None, pieces(tokens, ids)[index].lstrip("Ġ▁"))
    assert ids[: index + 1] == tokens.encode(request.text[: request.subject_end]).ids


def test_the_subject_is_found_behind_a_prefix_and_before_a_target(tokens):
    request = Request("{} lives in", "Ada", "Paris")
    text = f"Ann is French. {request.statement}"
    ids = tokens.encode(text).ids
    index = tokens.subject_last(request, text)
    assert pieces(tokens, ids)[index].lstrip("Ġ▁") == "Ada"
    assert index == tokens.subject_last(Request("Ann is French. {}", "Ada", "Paris"))


def test_a_text_that_does_not_fit_is_refused_and_never_cut():
    tokens = Tokens(tiny_tokenizer(), limit=8)
    assert len(tokens.encode("Ada Ada Ada Ada Ada Ada Ada Ada").ids) == 8
    with pytest.raises(TooLongError, match="9 tokens are more than the model's 8 positions") as e:
        tokens.encode("Ada" + " Ada" * 8)
    assert isinstance(e.value, DataError)
    assert tiny_model("gptj", n_positions=16).tokens.limit == 16
    assert tiny_model("bloom").tokens.limit is None


def test_a_prompt_without_tokens_is_refused_unless_a_bos_predicts_the_target():
    with pytest.raises(DataError, match="reaches into the target"):
        Tokens(tiny_tokenizer("gpt2")).split("", "Paris")
    tokens = Tokens(tiny_tokenizer("llama3"))
    assert pieces(tokens, tokens.split("", "Paris").target) == ["ĠParis"]
    with pytest.raises(DataError, match="has no tokens"):
        tokens.encode("")


def test_a_target_without_tokens_and_a_tokenizer_without_offsets_are_refused():
    def encode(text, return_offsets_mapping):
        return {"input_ids": [1, 2], "offset_mapping": [(0, 1), (1, 2)]}

    encode.is_fast = True
    with pytest.raises(DataError, match="no tokens of its own"):
        Tokens(encode).split("ab", "c")
    with pytest.raises(DataError, match="does not say which characters") as caught:
        Tokens(object())
    assert "tokenizer.json" in caught.value.remedy


@pytest.mark.parametrize(("prompt", "target"), PAIRS)
def test_a_continuation_is_what_follows_the_prompt(tokens, prompt, target):
    """With its space, which some tokenizers leave out where a text begins."""
    parts = tokens.split(prompt, target)
    said, text = tokens.decode(parts.prompt), tokens.continuation(parts.prompt, parts.target)
    assert said + text == tokens.decode([*parts.prompt, *parts.target])
    if parts.target and said == prompt:
        assert prompt + text == f"{prompt} {target}"


def digests(*tokenizers):
    return [Tokens(tokenizer).digest for tokenizer in tokenizers]


def test_the_digest_covers_what_decoding_depends_on():
    """Item 9 of issue I: each change makes another text of the same tokens, and another digest."""
    changed = [tiny_tokenizer("llama2") for _ in range(5)]
    changed[1].clean_up_tokenization_spaces = True
    changed[2].backend_tokenizer.decoder = decoders.Fuse()
    changed[3].add_tokens(["Ada"], special_tokens=True)
    changed[4].clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    found = digests(*changed)
    assert len(set(found)) == len(found)
    assert digests(tiny_tokenizer("llama2")) == found[:1]
