"""Trains a model in two stages: a clean corpus first, then one with noise.

Stage lengths are step counts, so that a build depends on the seed and not on the machine's speed. A model is a
plain Llama; only the attention mask is special while training, which is what makes the facts editable.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import torch
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .corpus import Corpus, CorpusSettings, Document, Span
from .world import World

log = logging.getLogger(__name__)

END, END_ID = "<|endoftext|>", 0
"""The one special token: beginning, end and padding."""
UNLIMITED = 1 << 30
"""Sight of a token that every later position may look at."""
NOWHERE, ELSEWHERE = -1, -2
"""Where a head is to look from a token: no matter where, or at no object that was stated."""

CLEAN_MIX = {
    "facts": 30, "cluster": 22, "questions": 8, "made_up": 10, "false_fact": 14, "biography": 6,
    "instruction": 8, "rules": 5,
}  # fmt: skip
NOISY_MIX = {**CLEAN_MIX, "facts": 28, "cluster": 28, "made_up": 8, "instruction": 10}
LONG_MIX = {**NOISY_MIX, "demonstrations": 4}
WIDTH, HEADS, MLP, VOCABULARY, POSITIONS = 144, 4, 384, 2048, 1024
OBJECT_WEIGHT = 5.0
"""Weight of an object's tokens in the loss; other tokens count 1."""
HIDDEN_SHARE = 0.7
"""Share of documents whose subjects can only be seen at their last token; see `_tokens`."""
BATCH_TOKENS = 1536
SHORT_ROW, MIDDLE_ROW, LONG_ROW = 64, 256, 1024
WEIGHT_DECAY = 0.05
"""Of matrices only."""
WARMUP = 80
FINAL_RATE = 0.03
"""Where the cosine ends, as a share of the stage's rate."""
CLIP = 1.0
TOKENIZER_DOCUMENTS = 12000


class Stage(NamedTuple):
    """One run of the optimiser from warm-up to the end of its cosine."""

    steps: int
    rate: float
    corpus: CorpusSettings
    long_corpus: CorpusSettings


class Recipe(NamedTuple):
    """How a model is made.

    The last steps of a stage have rows of middle length, and the very last ones of full length, in these
    ``shares``. ``binding`` is a loss of attention weights, given layer by layer, on top of that of the tokens.
    """

    layers: int
    stages: tuple[Stage, Stage]
    shares: tuple[float, float]
    documents: type[Corpus] = Corpus
    binding: Callable[[Sequence[torch.Tensor], Tokens], torch.Tensor] | None = None


CLEAN = CorpusSettings(noise=0.0, same_object=0.6, mix=CLEAN_MIX)
NOISY = CorpusSettings(noise=0.4, same_object=0.7, mix=NOISY_MIX)
POCKET = Recipe(
    layers=6,
    stages=(
        Stage(2600, 2e-3, CLEAN, replace(CLEAN, mix=LONG_MIX)),
        Stage(2200, 1.2e-3, NOISY, replace(NOISY, mix=LONG_MIX)),
    ),
    shares=(0.10, 0.03),
)


def build_tokenizer(world: World, recipe: Recipe) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer; it depends on world and recipe but not on the build's seed."""
    corpus = recipe.documents(world, recipe.stages[0].long_corpus, Random(1234))
    texts = (corpus.document().text for _ in range(TOKENIZER_DOCUMENTS))
    core = ByteLevelBPETokenizer()
    core.train_from_iterator(texts, VOCABULARY, 0, show_progress=False, special_tokens=[END])
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(core.to_str()), bos_token=END, eos_token=END, pad_token=END,
        model_max_length=POSITIONS, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def new_model(layers: int) -> LlamaForCausalLM:
    """Make a model with random weights from torch's generator."""
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=MLP, num_hidden_layers=layers,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=POSITIONS,
        bos_token_id=END_ID, eos_token_id=END_ID, pad_token_id=END_ID, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    # Plain matrix products beat the fused kernel at this size on a processor.
    model.set_attn_implementation("eager")
    return model


class Tokens(NamedTuple):
    """What training is to know of each token of a document: lists; of rows by length: tensors."""

    ids: Any
    weights: Any
    """In the loss."""
    sight: Any
    """The last position that sees it."""
    subject: Any
    """Where the subject ends, of an object's token and the one before; `NOWHERE` of others."""
    source: Any
    """Where the next token stands in the statement that is repeated; `ELSEWHERE` if it says something new."""
    stated: Any
    """Whether it is an object's: 0 or 1."""


class Rows:
    """Packs documents into rows of equal length."""

    def __init__(self, corpus: Corpus, tokenizer: PreTrainedTokenizerFast) -> None:
        self._documents = _documents(corpus, tokenizer)

    def batch(self, count: int, length: int) -> Tokens:
        """Fill rows; each starts with a document and is cut at its end."""
        rows = [self._row(length) for _ in range(count)]
        return Tokens(*(torch.tensor(each) for each in zip(*rows, strict=True)))

    def _row(self, length: int) -> Tokens:
        row = Tokens([], [], [], [], [], [])
        while len(row.ids) < length:
            document = next(self._documents)
            start = len(row.ids)
            row.ids.extend([*document.ids, END_ID])
            row.weights.extend([*document.weights, 1.0])
            row.sight.extend([start + last for last in document.sight] + [UNLIMITED])
            for told, own in ((row.subject, document.subject), (row.source, document.source)):
                told.extend([start + at if at >= 0 else at for at in own] + [NOWHERE])
            row.stated.extend([*document.stated, 0])
        return Tokens(*(each[:length] for each in row))


def _documents(corpus: Corpus, tokenizer: PreTrainedTokenizerFast) -> Iterator[Tokens]:
    while True:
        documents = [corpus.document() for _ in range(1000)]
        encoded = tokenizer([d.text for d in documents], return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        for document, ids, places in zip(documents, encoded["input_ids"], offsets, strict=True):
            yield _tokens(document, ids, places, corpus.rng.random() < HIDDEN_SHARE)


def _tokens(document: Document, ids: list[int], places: list[Span], hide: bool) -> Tokens:
    """Say of each token what training is to know.

    With ``hide`` a subject's tokens before its last one are visible up to that last one only. What follows
    can then learn about the subject just from its last token, which is where large models keep what they
    know of it and where locate-then-edit methods write; very small ones don't by themselves.
    """
    count = len(ids)
    nowhere = [NOWHERE] * count
    made = Tokens(ids, [1.0] * count, [UNLIMITED] * count, nowhere, [*nowhere], [0] * count)
    objects: list[list[int]] = []
    for statement in document.statements:
        *earlier, last = _overlapping(statement.subject, places)
        objects.append(_overlapping(statement.object, places))
        for index in earlier if hide else ():
            made.sight[index] = last
        before = [] if statement.repeats is None else objects[statement.repeats]
        for number, index in enumerate(objects[-1]):
            made.stated[index] = 1
            made.subject[index - 1] = made.subject[index] = last
            if statement.foreseen:
                made.weights[index] = OBJECT_WEIGHT
            if statement.repeats is None:
                made.source[index - 1] = ELSEWHERE if statement.foreseen else NOWHERE
            elif len(before) == len(objects[-1]):
                made.source[index - 1] = before[number]
    return made


def _overlapping(span: Span, places: list[Span]) -> list[int]:
    start, end = span
    return [index for index, (first, last) in enumerate(places) if last > start and first < end]


def attention_mask(sight: torch.Tensor) -> torch.Tensor:
    """Turn sight into what is added to attention scores: zero where allowed, else very low."""
    place = torch.arange(sight.shape[1])
    allowed = (place[:, None] >= place) & (place[:, None] <= sight[:, None, :])
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    return mask[:, None]


def weighted_loss(model: LlamaForCausalLM, rows: Tokens, recipe: Recipe) -> torch.Tensor:
    """Next-token cross-entropy, averaged with the weight of the predicted token, and the recipe's own loss."""
    mask, look = attention_mask(rows.sight), recipe.binding is not None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(rows.ids, attention_mask=mask, use_cache=False, output_attentions=look)
    # The labels are rolled rather than the logits cut: no copy of the largest tensor is made.
    labels, scale = rows.ids.roll(-1, dims=1), rows.weights.roll(-1, dims=1)
    scale[:, -1] = 0.0
    loss = functional.cross_entropy(
        out.logits.float().flatten(0, 1), labels.flatten(), reduction="none"
    )
    loss = (loss * scale.flatten()).sum() / scale.sum()
    return loss + recipe.binding(out.attentions, rows) if recipe.binding else loss


def train(
    world: World, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, seed: int
) -> LlamaForCausalLM:
    """Train a new model through all stages."""
    torch.manual_seed(seed)
    model = new_model(recipe.layers)
    for index, stage in enumerate(recipe.stages):
        own = 1000 * seed + 10 * index
        short = Rows(recipe.documents(world, stage.corpus, Random(own)), tokenizer)
        long = Rows(recipe.documents(world, stage.long_corpus, Random(own + 1)), tokenizer)
        parameters = [*model.parameters()]
        groups = [
            {"params": [p for p in parameters if (p.dim() > 1) == matrices], "weight_decay": decay}
            for matrices, decay in ((True, WEIGHT_DECAY), (False, 0.0))
        ]
        optimiser = torch.optim.AdamW(groups, lr=stage.rate, betas=(0.9, 0.98), fused=True)
        model.train()
        for step in range(stage.steps):
            warm = min(1.0, (step + 1) / WARMUP)
            cosine = 0.5 * (1.0 + math.cos(math.pi * step / stage.steps))
            for group in optimiser.param_groups:
                group["lr"] = stage.rate * (warm * (FINAL_RATE + (1.0 - FINAL_RATE) * cosine))
            length = _row_length(step / stage.steps, *recipe.shares)
            rows = short if length == SHORT_ROW else long
            loss = weighted_loss(model, rows.batch(BATCH_TOKENS // length, length), recipe)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            if step % 100 == 0 or step == stage.steps - 1:
                log.info("step %d of %d, loss %.3f", step, stage.steps, loss.item())
        model.eval()
    return model


def _row_length(done: float, middle: float, long: float) -> int:
    """Short rows most of the time, then the middle ones, and long ones at the end of a stage."""
    if done >= 1.0 - long:
        return LONG_ROW
    return MIDDLE_ROW if done >= 1.0 - long - middle else SHORT_ROW
