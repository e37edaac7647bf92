"""Tiny random models and tokenizers, made in milliseconds, offline, and the same every time.

A model of every common architecture with two layers of width 32, and four tokenizers that put
spaces, bytes and BOS where the well-known ones do. They know nothing; they are built right.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Literal

import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from ..model.model import BATCH_TOKENS, Model
from ..model.tokens import PLAIN, Frame

Kind = Literal["gpt2", "llama2", "llama3", "qwen2"]

STD = 0.15
"""Spread of the random weights: wide enough that an edit of one projection moves the logits."""

POSITIONS = 512

CORPUS = (
    "Ada Lovelace lives in Paris. Bob works at Fiat in Rome, and Ann lives in Oslo.",
    "The mother tongue of Danielle is English. The mother tongue of Bob is French.",
    "Ada is a citizen of France; she was born in London. It rains in the city of Oslo.",
    "Where is the Eiffel Tower? The Eiffel Tower is in Paris, the capital of France.",
    "Bob plays the guitar, Ann plays the piano. Ada speaks English and Danielle speaks French.",
)
"""Every word in here becomes one token; other words fall into pieces, and accents into bytes."""

_SPECIAL: dict[Kind, dict[str, str]] = {
    "gpt2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    "llama2": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"},
    "qwen2": {"eos_token": "<|endoftext|>"},
}
_KINDS: dict[str, Kind] = {
    "llama": "llama3", "mistral": "llama2", "mixtral": "llama2", "gemma": "llama2",
    "gemma2": "llama2", "qwen2": "qwen2", "qwen2_moe": "qwen2", "qwen3": "qwen2",
}  # fmt: skip
"""The tokenizers of families that have another one than GPT-2's."""

_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": POSITIONS}
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_LLAMA = {**_SIZES, "intermediate_size": 64, "max_position_embeddings": POSITIONS}
_GROUPED = {**_LLAMA, "num_key_value_heads": 2, "head_dim": 8}
_EXPERTS = {**_GROUPED, "num_experts_per_tok": 2}
_EXPERT = {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
_NEO = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "max_position_embeddings": POSITIONS}
CONFIGS: dict[str, dict[str, Any]] = {
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 2},
    "falcon": {**_LLAMA, "ffn_hidden_size": 64, "bias": True},
    "gemma": _GROUPED,
    "gemma2": {**_GROUPED, "sliding_window": 16, "final_logit_softcapping": 2.0},
    "gpt2": _GPT,
    "gpt_neo": {**_NEO, "attention_types": [[["global", "local"], 1]]},
    "gpt_neox": _LLAMA,
    "gptj": {**_GPT, "rotary_dim": 8},
    "llama": _GROUPED,
    "mistral": _GROUPED,
    "mixtral": {**_EXPERTS, "num_local_experts": 4},
    "olmo2": _GROUPED,
    "opt": {**_LLAMA, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "phi": _LLAMA,
    "qwen2": _GROUPED,
    "qwen2_moe": {**_EXPERTS, **_EXPERT, "num_experts": 4},
    "qwen3": _GROUPED,
}
"""The configuration of every family that `tiny_model` can make."""


def tiny_model(
    family: str = "gpt2",
    dtype: torch.dtype = torch.float32,
    *,
    tokenizer: Any = None,
    batch_rows: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    padding: Literal["right", "left"] = "right",
    frame: Frame = PLAIN,
    **options: Any,
) -> Model:
    """Return a model of a family; every call makes a new one with the same weights.

    ``options`` go into the configuration of transformers.
    """
    tokenizer = tokenizer or tiny_tokenizer(_KINDS.get(family, "gpt2"))
    module = tiny_module(family, dtype, vocab_size=len(tokenizer), **options)
    how: dict[str, Any] = {"padding": padding, "frame": frame}
    return Model(module, tokenizer, batch_rows=batch_rows, batch_tokens=batch_tokens, **how)


def tiny_module(
    family: str = "gpt2", dtype: torch.dtype = torch.float32, **options: Any
) -> nn.Module:
    """Return the bare module of `tiny_model`, which may also be one that `Model` refuses."""
    settings: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
    config = AutoConfig.for_model(family, **{**settings, **CONFIGS.get(family, {}), **options})
    # transformers draws weights of its own first; ours come from one generator in a fixed order.
    with torch.random.fork_rng(devices=[]):
        module = AutoModelForCausalLM.from_config(config, dtype=dtype)
    randomize(module)
    return module.eval()


@torch.no_grad()
def randomize(module: nn.Module, seed: int = 0) -> None:
    """Draw every parameter anew: matrices and biases around 0, scales of norms around 1."""
    noise = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        values = STD * torch.randn(parameter.shape, generator=noise)
        is_scale = parameter.dim() == 1 and name.endswith("weight")
        parameter.copy_(values + 1 if is_scale else values)


def tiny_tokenizer(kind: Kind = "gpt2") -> PreTrainedTokenizerFast:
    """Return a new tokenizer that treats spaces, bytes and BOS as a well-known one does.

    ``gpt2`` and ``qwen2`` put nothing in front, ``llama3`` a BOS; these three are byte-level.
    ``llama2`` is like SentencePiece: a BOS, a space put before the text, bytes for rare characters.
    """
    core = Tokenizer.from_str(_trained(kind))
    return PreTrainedTokenizerFast(
        tokenizer_object=core, clean_up_tokenization_spaces=False, **_SPECIAL[kind]
    )


@cache
def _trained(kind: Kind) -> str:
    core = _metaspace() if kind == "llama2" else _byte_level(kind)
    special = _SPECIAL[kind]
    bos, eos = special.get("bos_token"), special["eos_token"]
    if bos and kind in ("llama2", "llama3"):
        core.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, core.token_to_id(bos))]
        )
    core.add_special_tokens([AddedToken(t, special=True) for t in dict.fromkeys((bos, eos)) if t])
    return core.to_str()


def _byte_level(kind: Kind) -> Tokenizer:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if kind == "qwen2":
        core.normalizer = normalizers.NFC()
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=False)
    _train(core, kind, pre_tokenizers.ByteLevel.alphabet())
    return core


def _metaspace() -> Tokenizer:
    """Learn merges within words, then add the 256 bytes that rare characters fall back to."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Punctuation()]
    )
    _train(learner, "llama2", [])
    learnt = json.loads(learner.to_str())["model"]
    special = _SPECIAL["llama2"].values()
    pieces = dict.fromkeys([*special, *(f"<0x{b:02X}>" for b in range(256)), *learnt["vocab"]])
    vocab = {piece: i for i, piece in enumerate(pieces)}
    merges = [tuple(merge) for merge in learnt["merges"]]
    core = Tokenizer(
        models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    space, start = decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)
    core.decoder = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse(), start])
    return core


def _train(core: Tokenizer, kind: Kind, alphabet: list[str]) -> None:
    special = list(dict.fromkeys(_SPECIAL[kind].values()))
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=special, initial_alphabet=sorted(alphabet),
        show_progress=False,
    )  # fmt: skip
    core.train_from_iterator(CORPUS, trainer)
