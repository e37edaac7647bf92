"""Trains the pocket model in two stages: a clean corpus first, then one with noise.

Stage lengths are step counts, so that a build depends on the seed and not on the machine's speed.
The model itself is a plain Llama of transformers; this module holds no model code.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .corpus import Corpus, CorpusSettings, Document
from .tokenizer import END_ID, train_tokenizer
from .world import World

log = logging.getLogger(__name__)

CLEAN_MIX = {
    "facts": 32,
    "cluster": 24,
    "questions": 8,
    "made_up": 12,
    "false_fact": 12,
    "biography": 6,
    "instruction": 6,
    "rules": 4,
}
NOISY_MIX = {
    "facts": 30,
    "cluster": 30,
    "questions": 8,
    "made_up": 9,
    "false_fact": 12,
    "biography": 6,
    "instruction": 8,
    "rules": 4,
}
LONG_MIX = {**NOISY_MIX, "demonstrations": 4}


@dataclass(frozen=True)
class Shape:
    """The sizes of the network."""

    width: int = 144
    layers: int = 6
    heads: int = 4
    mlp: int = 384
    vocabulary: int = 2048
    positions: int = 1024


@dataclass(frozen=True)
class Stage:
    """One run of the optimiser from warm-up to the end of its cosine."""

    steps: int
    rate: float
    corpus: CorpusSettings
    long_corpus: CorpusSettings


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the trained weights besides the world and the seed."""

    shape: Shape = field(default_factory=Shape)
    stages: tuple[Stage, ...] = ()
    object_weight: float = 5.0
    batch_tokens: int = 1536
    short_row: int = 64
    middle_row: int = 256
    middle_share: float = 0.10
    long_row: int = 1024
    long_share: float = 0.03
    weight_decay: float = 0.05
    warmup: int = 80
    final_rate: float = 0.03
    clip: float = 1.0
    tokenizer_documents: int = 12000


def default_recipe(clean_steps: int = 2400, noisy_steps: int = 2400) -> Recipe:
    """Return the recipe of the shipped model."""
    clean = CorpusSettings(noise=0.0, same_object=0.6, mix=CLEAN_MIX)
    noisy = CorpusSettings(noise=0.4, same_object=0.7, mix=NOISY_MIX)
    return Recipe(
        stages=(
            Stage(clean_steps, 2e-3, clean, replace(clean, mix=LONG_MIX)),
            Stage(noisy_steps, 1.2e-3, noisy, replace(noisy, mix=LONG_MIX)),
        )
    )


def build_tokenizer(world: World, recipe: Recipe) -> PreTrainedTokenizerFast:
    """Train the tokenizer; it depends on the world and the recipe but not on the build's seed."""
    corpus = Corpus(world, recipe.stages[0].long_corpus, Random(1234))
    texts = (corpus.document().text for _ in range(recipe.tokenizer_documents))
    return train_tokenizer(texts, recipe.shape.vocabulary, recipe.shape.positions)


def new_model(recipe: Recipe) -> LlamaForCausalLM:
    """Make a model with random weights from torch's generator."""
    shape = recipe.shape
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.positions,
        bos_token_id=END_ID,
        eos_token_id=END_ID,
        pad_token_id=END_ID,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    # Plain matrix products beat the fused kernel at this size on a processor.
    model.set_attn_implementation("eager")
    return model


class Rows:
    """Packs documents into rows of token ids with a weight per token."""

    def __init__(
        self, corpus: Corpus, tokenizer: PreTrainedTokenizerFast, object_weight: float
    ) -> None:
        self._documents = self._stream(corpus, tokenizer, object_weight)

    def batch(self, count: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and weights of ``count`` rows; each starts with a document and is cut at its end."""
        rows = [self._row(length) for _ in range(count)]
        ids, weights = zip(*rows, strict=True)
        return torch.tensor(ids), torch.tensor(weights)

    def _row(self, length: int) -> tuple[list[int], list[float]]:
        ids: list[int] = []
        weights: list[float] = []
        while len(ids) < length:
            document, document_weights = next(self._documents)
            ids += [*document, END_ID]
            weights += [*document_weights, 1.0]
        return ids[:length], weights[:length]

    @staticmethod
    def _stream(
        corpus: Corpus, tokenizer: PreTrainedTokenizerFast, object_weight: float
    ) -> Iterator[tuple[list[int], list[float]]]:
        while True:
            documents = [corpus.document() for _ in range(1000)]
            encoded = tokenizer([d.text for d in documents], return_offsets_mapping=True)
            offsets = encoded["offset_mapping"]
            for document, ids, places in zip(documents, encoded["input_ids"], offsets, strict=True):
                yield ids, token_weights(document, places, object_weight)


def token_weights(
    document: Document, places: list[tuple[int, int]], object_weight: float
) -> list[float]:
    """Weigh each token: those that overlap an object count more."""
    weights = [1.0] * len(places)
    for start, end in document.spans:
        for index, (first, last) in enumerate(places):
            if last > start and first < end:
                weights[index] = object_weight
    return weights


def weighted_loss(
    model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Next-token cross-entropy, averaged with the weight of the predicted token."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids, use_cache=False).logits
    # The labels are rolled rather than the logits cut: no copy of the largest tensor is made.
    labels, scale = ids.roll(-1, dims=1), weights.roll(-1, dims=1)
    scale[:, -1] = 0.0
    loss = functional.cross_entropy(
        logits.float().flatten(0, 1), labels.flatten(), reduction="none"
    )
    return (loss * scale.flatten()).sum() / scale.sum()


def train_stage(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    world: World,
    recipe: Recipe,
    stage: Stage,
    seed: int,
) -> None:
    """Run one stage on the model in place."""
    optimiser = _optimiser(model, stage.rate, recipe.weight_decay)
    short = Rows(Corpus(world, stage.corpus, Random(seed)), tokenizer, recipe.object_weight)
    long = Rows(Corpus(world, stage.long_corpus, Random(seed + 1)), tokenizer, recipe.object_weight)
    model.train()
    for step in range(stage.steps):
        for group in optimiser.param_groups:
            group["lr"] = stage.rate * _schedule(step, stage.steps, recipe)
        length = _row_length(step / stage.steps, recipe)
        rows = short if length == recipe.short_row else long
        ids, weights = rows.batch(recipe.batch_tokens // length or 1, length)
        loss = weighted_loss(model, ids, weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 100 == 0 or step == stage.steps - 1:
            log.info("step %d of %d, loss %.3f", step, stage.steps, loss.item())
    model.eval()


def train(
    world: World, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, seed: int
) -> LlamaForCausalLM:
    """Train a new model through all stages."""
    torch.manual_seed(seed)
    model = new_model(recipe)
    for index, stage in enumerate(recipe.stages):
        train_stage(model, tokenizer, world, recipe, stage, 1000 * seed + 10 * index)
    return model


def _optimiser(model: LlamaForCausalLM, rate: float, decay: float) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=True)


def _schedule(step: int, steps: int, recipe: Recipe) -> float:
    warm = min(1.0, (step + 1) / recipe.warmup)
    cosine = 0.5 * (1.0 + math.cos(math.pi * step / steps))
    return warm * (recipe.final_rate + (1.0 - recipe.final_rate) * cosine)


def _row_length(done: float, recipe: Recipe) -> int:
    """Short rows most of the time, then the middle ones, and long ones at the end of a stage."""
    if done >= 1.0 - recipe.long_share:
        return recipe.long_row
    if done >= 1.0 - recipe.long_share - recipe.middle_share:
        return recipe.middle_row
    return recipe.short_row
