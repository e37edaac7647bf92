"""Models and cases without downloads: random weights and made-up words of CounterFact's lengths.

The weights are wider than a fresh model's, so that an edit moves probabilities and the comparison
of the two routes is a sensitive one. Lengths are those of CounterFact under GPT-2's tokenizer: the
tokens from the subject's last one on are 2 to 9, the prompts 9, 21 and 9 tokens.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from benchmarks.naive import Asked
from edit_harness import Case, Choose, Drift, Probe, Request

SHAPES = {
    "tiny": {"n_layer": 6, "n_embd": 64, "n_head": 4, "vocab_size": 2_000},
    "gpt2-small": {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50_257},
    "gpt2-xl": {"n_layer": 48, "n_embd": 1600, "n_head": 25, "vocab_size": 50_257},
}
LAYERS = {"tiny": 2, "gpt2-small": 4, "gpt2-xl": 17}
STD = 0.06
SUFFIXES = dict(zip(range(2, 10), (105, 136, 236, 158, 138, 48, 28, 6), strict=True))
NEIGHBORS = 10


def model(shape: str, seed: int = 0) -> tuple[Any, Any]:
    """Return a random GPT-2 of a shape and a tokenizer whose words are w0, w1, ..."""
    torch.manual_seed(seed)
    config = GPT2Config(
        **SHAPES[shape], n_positions=128, initializer_range=STD, bos_token_id=0, eos_token_id=0
    )
    words = {f"w{i}": i for i in range(config.vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="w0", eos_token="w0")
    return GPT2LMHeadModel(config).eval(), wrapped


def cases(count: int, vocabulary: int, seed: int = 0) -> list[Asked]:
    """Return cases with a rewrite prompt, 2 paraphrases, 10 neighbours, and these behind the fact."""
    draw = random.Random(seed)

    def words(n: int) -> str:
        return " ".join(f"w{draw.randrange(1, vocabulary)}" for _ in range(n))

    made = []
    for _ in range(count):
        suffix = draw.choices(list(SUFFIXES), list(SUFFIXES.values()))[0]
        subject, tail = words(draw.randint(1, 3)), words(suffix - 1)
        prompt = f"{words(max(8 - suffix, 1))} {{}} {tail}"
        new, true = (words(2 if draw.random() < 0.15 else 1) for _ in range(2))
        text = prompt.replace("{}", subject)
        neighbors = [f"{words(3)} {tail}" for _ in range(NEIGHBORS)]
        plus = [f"{text} {new} w1 {neighbor}" for neighbor in neighbors]
        prompts = (
            text,
            *(f"{words(12)} {subject} {words(6)}" for _ in range(2)),
            *neighbors,
            *plus,
        )
        made.append(Asked(prompt, subject, new, true, prompts, tuple(range(3, len(prompts)))))
    return made


def case(asked: Asked, name: str) -> Case:
    """Return the same as a case of the harness."""
    pair = (asked.new, asked.true)
    probes = [Probe("any", Choose(prompt, pair)) for prompt in asked.prompts]
    probes += [Probe("any", Drift(asked.prompts[i])) for i in asked.compared]
    request = Request(asked.prompt, asked.subject, asked.new, asked.true)
    return Case(name, (request,), tuple(probes))
