"""Models and cases without downloads: random weights and made-up words of CounterFact's lengths.

The weights are wider than a fresh model's, so that an edit moves probabilities and the comparison
of the two routes is a sensitive one. Lengths, and how many beginnings the texts of a case have in
common, are those of CounterFact under GPT-2's tokenizer: a rewrite prompt has 9 tokens, of which 2
to 9 are run from the subject's last one on, a paraphrase 21, a neighbour 9; one target in seven has
two tokens.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GPT2Config, GPTJConfig, PreTrainedTokenizerFast

from benchmarks.naive import Asked

COMMON: dict[str, Any] = {
    "n_positions": 128,
    "initializer_range": 0.06,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
SHAPES = {
    "tiny": GPT2Config(n_layer=6, n_embd=64, n_head=4, vocab_size=2_000, **COMMON),
    "gpt2-small": GPT2Config(n_layer=12, n_embd=768, n_head=12, **COMMON),
    "gpt2-xl": GPT2Config(n_layer=48, n_embd=1600, n_head=25, **COMMON),
    "gpt-j": GPTJConfig(n_layer=28, n_embd=4096, n_head=16, rotary_dim=64, **COMMON),
}
LAYERS = {"tiny": 2, "gpt2-small": 4, "gpt2-xl": 17, "gpt-j": 5}
"""The layer that ROME edits."""

SUFFIXES = dict(zip(range(2, 10), (105, 136, 236, 158, 138, 48, 28, 6), strict=True))
"""How many cases run so many tokens of the rewrite prompt in the value search."""
LATE_SUBJECTS = 0.25
"""Share of relations whose templates have words before the subject, which neighbours share."""
LONG_TARGETS = 0.15
NEIGHBORS = CONTINUED = 10
SEED = 262
"""Of a draw whose first 2, 4, 6 and 12 cases are nearly as large as the mean of many."""


def module(shape: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
    """Return a random model of a shape, made where it is to run."""
    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(SHAPES[shape], dtype=dtype).eval()


def tokenizer(size: int) -> Any:
    """Return a tokenizer whose words are a full stop and w2, w3, ...; none of them ends a text."""
    words = {f"w{i}" if i != 1 else ".": i for i in range(size)}
    core = Tokenizer(models.WordLevel(words, unk_token="w0"))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=core)


def cases(count: int, vocabulary: int, seed: int = SEED) -> list[Asked]:
    """Return cases with a rewrite prompt, 2 paraphrases, 10 neighbours, and these behind the fact."""
    draw = random.Random(seed)
    return [_case(draw, vocabulary) for _ in range(count)]


def _case(draw: random.Random, vocabulary: int) -> Asked:
    def words(least: int, most: int | None = None) -> str:
        many = draw.randint(least, most or least)
        # One draw a word whatever the vocabulary, so that all shapes have cases of the same lengths.
        return " ".join(f"w{2 + int(draw.random() * (vocabulary - 2))}" for _ in range(many))

    new, true = (words(2 if draw.random() < LONG_TARGETS else 1) for _ in range(2))
    suffix = draw.choices(list(SUFFIXES), list(SUFFIXES.values()))[0]
    tail = max(suffix - len(new.split()), 1)
    late = draw.random() < LATE_SUBJECTS
    templates = [f"{words(4)} {{}} {words(tail)}" if late else f"{{}} {words(tail)}" for _ in "ab"]
    subject = words(3, 7)
    # One subject has a prompt of either template, as happens in the data.
    others = [words(3, 7) for _ in range(NEIGHBORS - 1)]
    neighbors = [templates[i % 2].format(others[i % len(others)]) for i in range(NEIGHBORS)]
    text = templates[0].format(subject)
    prompts = (
        text,
        *(f"{words(5, 19)}. {subject} {words(3)}" for _ in range(2)),
        *neighbors,
        *(f"{text} {new}. {neighbor}" for neighbor in neighbors),
    )
    continued = tuple(f"{subject} {words(2, 6)}" for _ in range(CONTINUED))
    compared = tuple(range(3, len(prompts)))
    return Asked(templates[0], subject, new, true, prompts, compared, continued)
