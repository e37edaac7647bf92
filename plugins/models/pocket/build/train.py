"""Trains the pocket model in two stages: a clean corpus first, then one with noise.

Stage lengths are step counts, so that a build depends on the seed and not on the machine's speed. The model is
a plain Llama; only the attention mask is special while training, which is what makes the facts editable.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import NamedTuple

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

CLEAN_MIX = {
    "facts": 30, "cluster": 22, "questions": 8, "made_up": 10, "false_fact": 14, "biography": 6,
    "instruction": 8, "rules": 5,
}  # fmt: skip
NOISY_MIX = {**CLEAN_MIX, "facts": 28, "cluster": 28, "made_up": 8, "instruction": 10}
LONG_MIX = {**NOISY_MIX, "demonstrations": 4}

WIDTH, LAYERS, HEADS, MLP, VOCABULARY, POSITIONS = 144, 6, 4, 384, 2048, 1024
OBJECT_WEIGHT = 5.0
"""Weight of an object's tokens in the loss; other tokens count 1."""
HIDDEN_SHARE = 0.7
"""Share of documents whose subjects can only be seen at their last token; see `token_sight`."""
BATCH_TOKENS = 1536
SHORT_ROW, MIDDLE_ROW, LONG_ROW = 64, 256, 1024
MIDDLE_SHARE, LONG_SHARE = 0.10, 0.03
"""Shares of a stage's steps with rows of middle length, and, the last ones, of full length."""
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


CLEAN = CorpusSettings(noise=0.0, same_object=0.6, mix=CLEAN_MIX)
NOISY = CorpusSettings(noise=0.4, same_object=0.7, mix=NOISY_MIX)
STAGES = (
    Stage(2600, 2e-3, CLEAN, replace(CLEAN, mix=LONG_MIX)),
    Stage(2200, 1.2e-3, NOISY, replace(NOISY, mix=LONG_MIX)),
)


def build_tokenizer(world: World) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer; it depends on the world but not on the build's seed."""
    corpus = Corpus(world, STAGES[0].long_corpus, Random(1234))
    texts = (corpus.document().text for _ in range(TOKENIZER_DOCUMENTS))
    core = ByteLevelBPETokenizer()
    core.train_from_iterator(texts, VOCABULARY, 0, show_progress=False, special_tokens=[END])
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(core.to_str()),
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=POSITIONS,
        clean_up_tokenization_spaces=False,
    )


def new_model() -> LlamaForCausalLM:
    """Make a model with random weights from torch's generator."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=MLP,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=POSITIONS,
        bos_token_id=END_ID,
        eos_token_id=END_ID,
        pad_token_id=END_ID,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    # Plain matrix products beat the fused kernel at this size on a processor.
    model.set_attn_implementation("eager")
    return model


class Tokens(NamedTuple):
    """A tokenized document: ids, weights in the loss, and the last position that sees each token."""

    ids: list[int]
    weights: list[float]
    sight: list[int]


class Rows:
    """Packs documents into rows of equal length."""

    def __init__(self, corpus: Corpus, tokenizer: PreTrainedTokenizerFast) -> None:
        self._documents = _documents(corpus, tokenizer)

    def batch(self, count: int, length: int) -> list[torch.Tensor]:
        """Fill rows of ids, weights and sight; each starts with a document and is cut at its end."""
        rows = [self._row(length) for _ in range(count)]
        return [torch.tensor(each) for each in zip(*rows, strict=True)]

    def _row(self, length: int) -> Tokens:
        row = Tokens([], [], [])
        while len(row.ids) < length:
            document = next(self._documents)
            start = len(row.ids)
            row.ids.extend([*document.ids, END_ID])
            row.weights.extend([*document.weights, 1.0])
            row.sight.extend([start + last for last in document.sight] + [UNLIMITED])
        return Tokens(row.ids[:length], row.weights[:length], row.sight[:length])


def _documents(corpus: Corpus, tokenizer: PreTrainedTokenizerFast) -> Iterator[Tokens]:
    while True:
        documents = [corpus.document() for _ in range(1000)]
        encoded = tokenizer([d.text for d in documents], return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        for document, ids, places in zip(documents, encoded["input_ids"], offsets, strict=True):
            hide = corpus.rng.random() < HIDDEN_SHARE
            sight = token_sight(document, places) if hide else [UNLIMITED] * len(ids)
            weights = [1.0] * len(places)  # tokens that overlap an object count more
            for span in document.objects:
                for index in _overlapping(span, places):
                    weights[index] = OBJECT_WEIGHT
            yield Tokens(ids, weights, sight)


def token_sight(document: Document, places: list[Span]) -> list[int]:
    """Find the last position that may look at each token.

    A subject's tokens before its last one are visible up to that last one only. What follows can
    then learn about the subject just from its last token, which is where large models keep what
    they know of it and where locate-then-edit methods write; very small ones don't by themselves.
    """
    sight = [UNLIMITED] * len(places)
    for span in document.subjects:
        *earlier, last = _overlapping(span, places)
        for index in earlier:
            sight[index] = last
    return sight


def _overlapping(span: Span, places: list[Span]) -> list[int]:
    start, end = span
    return [index for index, (first, last) in enumerate(places) if last > start and first < end]


def attention_mask(sight: torch.Tensor) -> torch.Tensor:
    """Turn sight into what is added to attention scores: zero where allowed, else very low."""
    place = torch.arange(sight.shape[1])
    allowed = (place[:, None] >= place) & (place[:, None] <= sight[:, None, :])
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    return mask[:, None]


def weighted_loss(
    model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor, sight: torch.Tensor
) -> torch.Tensor:
    """Next-token cross-entropy, averaged with the weight of the predicted token."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids, attention_mask=attention_mask(sight), use_cache=False).logits
    # The labels are rolled rather than the logits cut: no copy of the largest tensor is made.
    labels, scale = ids.roll(-1, dims=1), weights.roll(-1, dims=1)
    scale[:, -1] = 0.0
    loss = functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), reduction="none"
    )
    return (loss * scale.flatten()).sum() / scale.sum()


def train(world: World, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """Train a new model through all stages."""
    torch.manual_seed(seed)
    model = new_model()
    for index, stage in enumerate(STAGES):
        own = 1000 * seed + 10 * index
        short = Rows(Corpus(world, stage.corpus, Random(own)), tokenizer)
        long = Rows(Corpus(world, stage.long_corpus, Random(own + 1)), tokenizer)
        wide, narrow = (
            [p for p in model.parameters() if (p.dim() > 1) == w] for w in (True, False)
        )
        groups = [
            {"params": wide, "weight_decay": WEIGHT_DECAY},
            {"params": narrow, "weight_decay": 0.0},
        ]
        optimiser = torch.optim.AdamW(groups, lr=stage.rate, betas=(0.9, 0.98), fused=True)
        model.train()
        for step in range(stage.steps):
            warm = min(1.0, (step + 1) / WARMUP)
            cosine = 0.5 * (1.0 + math.cos(math.pi * step / stage.steps))
            for group in optimiser.param_groups:
                group["lr"] = stage.rate * (warm * (FINAL_RATE + (1.0 - FINAL_RATE) * cosine))
            length = _row_length(step / stage.steps)
            rows = short if length == SHORT_ROW else long
            loss = weighted_loss(model, *rows.batch(BATCH_TOKENS // length, length))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            if step % 100 == 0 or step == stage.steps - 1:
                log.info("step %d of %d, loss %.3f", step, stage.steps, loss.item())
        model.eval()
    return model


def _row_length(done: float) -> int:
    """Short rows most of the time, then the middle ones, and long ones at the end of a stage."""
    if done >= 1.0 - LONG_SHARE:
        return LONG_ROW
    return MIDDLE_ROW if done >= 1.0 - LONG_SHARE - MIDDLE_SHARE else SHORT_ROW
