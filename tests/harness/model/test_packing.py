"""Trees of texts: built right, and answered as the texts alone."""

import copy
import random

import pytest
import torch
from support.generation import edit_of as push
from support.oracles import logprobs

from edit_harness import Choose, Drift, NextToken
from edit_harness.edits import Edit
from edit_harness.model.batch import TokenRow, Wanted
from edit_harness.model.model import Model
from edit_harness.model.packing import SPREAD, batches, grow, padded_trees
from edit_harness.testing import tiny_model

FOLLOWS_MASKS = ["gpt2", "gptj", "llama", "mistral", "gemma2", "phi", "opt", "falcon"]
NAMED = ["Bob lives in", "Ann lives in", "Danielle is a citizen of the city of"]
FACT = "Ada Lovelace lives in Oslo. "

QUERIES = [
    query(prompt)
    for prompt in (*NAMED, *(FACT + p for p in NAMED), FACT.strip())
    for query in (lambda p: Choose(p, ("Paris", "Rome by night", "Rome")), Drift, NextToken)
]


def row(ids) -> TokenRow:
    return TokenRow(Edit(), tuple(ids), len(ids), {len(ids) - 1: Wanted(whole=True)})


def texts(count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Random texts of few tokens, so that many begin in the same way."""
    draw = random.Random(seed)
    return [tuple(draw.choices(range(3), k=draw.randint(1, 8))) for _ in range(count)]


def test_a_tree_has_every_text_and_each_beginning_once_with_its_reads_joined():
    chosen = texts(40)
    (tree,) = grow([row(ids) for ids in chosen], limit=10_000)
    beginnings = {ids[:n] for ids in chosen for n in range(1, len(ids) + 1)}
    assert len(tree) == len(beginnings)
    for member, path in tree.rows:
        assert tuple(tree.tokens[node] for node in path) == member.ids
        assert [tree.depths[node] for node in path] == list(range(len(path)))
    assert sorted(member.ids for member, _ in tree.rows) == sorted(chosen)
    one, other = row((1, 2, 3)), row((1, 2, 4))
    one.wanted[1], other.wanted[1] = Wanted({5}), Wanted({6}, whole=True)
    (tree,) = grow([one, other])
    joined = tree.wanted
    assert len(joined) == 3
    assert (joined[1].tokens, joined[1].whole) == ({5, 6}, True)
    assert one.wanted[1] == Wanted({5})


@pytest.mark.parametrize("limit", [8, 20, 60])
def test_trees_keep_to_their_limit(limit):
    rows = [row(ids) for ids in texts(50, seed=2)]
    trees = grow(rows, limit)
    assert all(len(tree) <= limit for tree in trees)
    assert sum(len(tree.rows) for tree in trees) == len(rows)
    (long,) = grow([row(range(100))], limit)
    assert len(long) == 100
    assert len(grow([row((1, 2)), row((1, 3))], limit=3)) == 1


@pytest.mark.parametrize(("tokens", "most"), [(50, None), (1000, 2), (10, None)])
def test_batches_have_trees_of_nearly_one_size(tokens, most):
    trees = [grow([row(range(n))])[0] for n in (30, 3, 29, 12, 11, 12, 28, 3, 3)]
    found = list(batches(trees, tokens, most))
    assert sorted(len(t) for batch in found for t in batch) == sorted(map(len, trees))
    for batch in found:
        sizes = [len(tree) for tree in batch]
        assert len(batch) == 1 or max(sizes) * len(batch) <= tokens
        assert max(sizes) <= SPREAD * min(sizes)
        assert most is None or len(batch) <= most


def test_padding_sees_itself_alone():
    trees = grow([row((1, 2))]) + grow([row((3, 4, 5, 6))])
    batch = padded_trees(trees, torch.float32, torch.device("cpu"))
    assert batch.ids.tolist() == [[1, 2, 0, 0], [3, 4, 5, 6]]
    assert (batch.mask[0, 0] == 0).tolist()[1:3] == [
        [True, True, False, False],
        [False, False, True, False],
    ]


@pytest.mark.parametrize(
    ("family", "side", "dtype", "atol"),
    [
        *((family, "right", torch.float32, 1e-4) for family in FOLLOWS_MASKS),
        ("gpt2", "left", torch.float32, 1e-4),
        ("llama", "left", torch.float32, 1e-4),
        ("gpt2", "right", torch.float64, 1e-5),
        ("gpt2", "right", torch.bfloat16, 0.2),
    ],
)
def test_a_tree_is_answered_as_its_texts_alone(family, side, dtype, atol):
    """Sums in another order; the attention's softmax is fp32 whatever the weights are."""
    model = tiny_model(family, dtype, padding=side)
    assert model.packs
    edits = [Edit(), push(model), push(model, 1), Edit(prefix="Ann lives in Rome. ")]
    asked = [q for q in QUERIES if dtype == torch.float32 or not isinstance(q, Drift)]
    questions = [(edit, query) for edit in edits for query in asked]
    packed = logprobs(model.answer(questions))
    model.packs = False
    torch.testing.assert_close(packed, logprobs(model.answer(questions)), rtol=0, atol=atol)
    assert packed.std() > 0.1


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_tokens_that_cross_from_prompt_to_target_part_the_tree(family):
    """One candidate's first token takes in the prompt's end, the other's does not."""
    plain = tiny_model(family)
    tokenizer = copy.deepcopy(plain.tokens.tokenizer)
    tokenizer.add_tokens(["s P", "n R"])
    plain.module.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model = Model(plain.module, tokenizer)
    prompts = [f"{FACT}{name} {verb}" for name in ("Ann", "Bob") for verb in ("speaks", "lives in")]
    for prompt, target in ((prompts[0], "Paris"), (prompts[1], "Rome")):
        crossing = model.tokens.split(prompt, target)
        assert crossing.prompt != model.tokens.encode(prompt).ids
        assert tokenizer.convert_ids_to_tokens(crossing.target[0]) in ("s P", "n R")
    pair = ("Paris", "Rome")
    questions = [(e, Choose(p, pair)) for p in prompts for e in (Edit(), push(model))]
    packed = model.answer(questions)
    for (edit, query), answer in zip(questions, packed, strict=True):
        for i, target in enumerate(query.candidates):
            parts = model.tokens.split(query.prompt, target)
            with model.applied(edit):
                logits = model.module(input_ids=torch.tensor([parts.inputs])).logits[0]
            log = logits.log_softmax(-1)
            places = zip(parts.places, parts.target, strict=True)
            expected = [float(log[at, token]) for at, token in places]
            assert answer.logprobs[i] == pytest.approx(expected, abs=1e-4)


def test_a_model_that_does_not_follow_masks_gets_plain_rows():
    assert not tiny_model("bloom").packs


@pytest.mark.parametrize(
    ("family", "window"), [("gpt_neo", {"window_size": 16}), ("mistral", {"sliding_window": 16})]
)
def test_texts_beyond_a_window_are_run_alone(family, window):
    """Prompts that fit a tree together, though a window hides their early tokens, as a tree's mask would not."""
    model, wide = tiny_model(family, **window), tiny_model(family)
    texts = ["Ada Lovelace lives in Paris", "Bob works at Fiat in Rome, and Ann lives in Oslo"]
    long = [f"{' '.join(texts)} {prompt}" for prompt in NAMED]
    questions = [(Edit(), Choose(prompt, ("Paris", "Rome"))) for prompt in (*NAMED, *long)]
    together = logprobs(model.answer(questions))
    alone = logprobs([model.answer([question])[0] for question in questions])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-4)
    assert not torch.allclose(together, logprobs(wide.answer(questions)))
    assert model.sees(8)
    assert not model.sees(24)


def test_counted_work(model):
    """Tokens that the blocks run over: a fact before ten prompts is run once, not twenty times."""
    prompts = [f"{FACT}{name} {verb} in" for name in ("Bob", "Ann", "Ada", "Danielle", "Paris")
               for verb in ("lives", "works")]  # fmt: skip
    queries = [Choose(prompt, ("Paris", "Rome")) for prompt in prompts]
    counted = []
    assert model.packs  # its trial is not to be counted
    model.architecture.block(0).register_forward_hook(
        lambda module, args, output: counted.append(args[0].shape[:2].numel())
    )
    model.answer([(Edit(), query) for query in queries])
    packed, counted[:] = sum(counted), []
    model.packs = False
    model.answer([(Edit(), query) for query in queries])
    fact = len(model.tokens.encode(FACT.strip()).ids)
    assert packed == fact + 5 * 1 + 10 * 2
    assert sum(counted) == 10 * (fact + 3)
