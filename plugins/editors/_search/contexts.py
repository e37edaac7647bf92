"""What stands before a prompt while it is learned: texts sampled from the unedited model, or given ones."""

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
    towards the length as in ROME's code. They are sampled from the unedited model, with a seed; the
    published code samples them unseeded.
    """
    tokenizer = model.tokens.tokenizer
    first = tokenizer.bos_token_id, tokenizer.eos_token_id, 0
    ids = tokenizer(start)["input_ids"] if start else [next(i for i in first if i is not None)]
    prompts = [
        Prompt(tuple(ids), Generate("", max(length - len(ids), 1), TOP_K, seed=own + i))
        for length in lengths
        for own in [seed * 1_000_003 + length * 1_009]
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


def clean(text: str) -> str:
    """Return a text that can stand before a prompt: normalised, on one line, without braces."""
    normal = unicodedata.normalize("NFKD", text).replace("\n", " ")
    return normal.replace("{", " ").replace("}", " ").strip()


def fill(context: str, text: str) -> str:
    """Put a text in the place of the context's ``{}``; braces in the text stay as they are."""
    before, _, after = context.partition(BARE)
    return before + text + after
