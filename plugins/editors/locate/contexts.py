"""Context templates: short texts that ROME and MEMIT put before a prompt to see a key in context.

Sampled from the unedited model, with a seed; the published code samples them unseeded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from edit_harness import Generate, UsageError
from edit_harness.data import SUBJECT
from edit_harness.model.generate import Prompt, samples
from edit_harness.model.model import Model

BARE = SUBJECT
TOP_K = 5


def sampled(
    model: Model, lengths: Sequence[int], count: int, seed: int = 0, start: str = ""
) -> tuple[str, ...]:
    """Return ``{}`` and, for each length in tokens, ``count`` sampled texts that end in ``. {}``.

    The texts begin with ``start`` or else after the tokenizer's BOS (or EOS) token, which counts
    towards the length as in ROME's code. Raises `UsageError` for a length that the model has not.
    """
    if model.tokens.limit and max(lengths, default=0) > model.tokens.limit:
        raise UsageError(
            f"contexts of {max(lengths)} tokens are longer than the model's {model.tokens.limit}",
            "the papers' have 5 and 10",
        )
    ids = first_ids(model, start)
    prompts = [
        Prompt(ids, Generate("", max(length - len(ids), 1), TOP_K, seed=_seed(seed, length, i)))
        for length in lengths
        for i in range(count)
    ]
    texts = [clean(start + model.tokens.decode(new)) for new in samples(model, prompts)]
    return (BARE, *(f"{text}. {BARE}" for text in texts))


def checked(contexts: Sequence[str]) -> tuple[str, ...]:
    """Return contexts that were given. Raises `UsageError` unless the first one is the bare prompt."""
    if contexts and (contexts[0] != BARE or any(text.count(BARE) != 1 for text in contexts)):
        raise UsageError(
            f"each context needs one place {BARE} for the prompt, and the first is {BARE} itself",
            f"give contexts={BARE},The sun rose. {BARE}",
        )
    return tuple(contexts)


def first_ids(model: Model, start: str) -> tuple[int, ...]:
    """Return the tokens that a sampled text begins with."""
    if start:
        return tuple(model.tokens.tokenizer(start)["input_ids"])
    tokenizer = model.tokens.tokenizer
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    return (bos if bos is not None else eos if eos is not None else 0,)


def clean(text: str) -> str:
    """Return a text that can stand before a prompt: normalised, on one line, without braces."""
    normal = unicodedata.normalize("NFKD", text).replace("\n", " ")
    return normal.replace("{", " ").replace("}", " ").strip()


def fill(context: str, text: str) -> str:
    """Put a text in the place of the context's ``{}``; braces in the text stay as they are."""
    before, _, after = context.partition(BARE)
    return before + text + after


def _seed(seed: int, length: int, index: int) -> int:
    return seed * 1_000_003 + length * 1_009 + index
