"""The uncentred second moment of the keys of every MLP, measured on the model's own corpus.

A key is the input of a block's last MLP matrix; locate-then-edit methods need E[k k^T] over ordinary
text. One pass over the documents serves all layers.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from .corpus import Corpus
from .tokenizer import END_ID


def measure_moments(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    corpus: Corpus,
    tokens: int = 100_000,
    batch: int = 64,
    longest: int = 256,
) -> tuple[dict[str, torch.Tensor], int]:
    """Mean of k k^T per layer as ``layer.<index>``, and the number of tokens it was taken over."""
    layers = model.model.layers
    size = model.config.intermediate_size
    sums = [torch.zeros(size, size, dtype=torch.float64) for _ in layers]
    keys: dict[int, torch.Tensor] = {}

    def keep(index: int):
        return lambda _module, inputs: keys.__setitem__(index, inputs[0])

    hooks = [
        layer.mlp.down_proj.register_forward_pre_hook(keep(index))
        for index, layer in enumerate(layers)
    ]
    count = 0
    try:
        with torch.no_grad():
            while count < tokens:
                ids, mask = _padded(tokenizer, corpus, batch, longest)
                model(ids, use_cache=False)
                count += int(mask.sum())
                for index, total in enumerate(sums):
                    chosen = keys[index][mask].double()
                    total.addmm_(chosen.T, chosen)
    finally:
        for hook in hooks:
            hook.remove()
    return {f"layer.{index}": (total / count).float() for index, total in enumerate(sums)}, count


def save_moments(moments: dict[str, torch.Tensor], count: int, path: Path) -> None:
    """Write the moments with their token count as metadata."""
    save_file(moments, path, metadata={"count": str(count)})


def _padded(
    tokenizer: PreTrainedTokenizerFast, corpus: Corpus, batch: int, longest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [tokenizer.encode(corpus.document().text)[:longest] for _ in range(batch)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [END_ID] * (width - len(row)) for row in rows])
    mask = torch.tensor([[True] * len(row) + [False] * (width - len(row)) for row in rows])
    return ids, mask
