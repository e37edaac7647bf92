"""The sequential runner of the field's scripts, as a baseline and an oracle.

One case at a time: ROME's value search with whole forward passes over every context, the weight
written and put back, and all prompts of a case for both targets in one padded batch with logits at
every position. Written from the method's description against transformers alone; it shares no code
with the harness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Asked:
    """A case as plain texts."""

    prompt: str
    subject: str
    new: str
    true: str
    prompts: tuple[str, ...]
    """All prompts to be scored."""
    compared: tuple[int, ...]
    """Those whose next-token distributions are compared before and after."""


@dataclass(frozen=True)
class Answers:
    """Mean negative log-likelihoods, prompts by (new, true), and next-token log-probabilities."""

    nll: Tensor
    following: Tensor


def padded(rows: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """Return ids and mask, padded on the right."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=device)
    return ids, mask


def subject_last(encode: Encode, text: str, subject: str) -> int:
    """For tokenizers that cut at spaces."""
    return len(encode(text[: text.index(subject) + len(subject)])) - 1


def rome(
    module: Any, down: Any, encode: Encode, case: Asked, contexts: Sequence[str], *, steps: int = 20,
    lr: float = 0.5, decay: float = 0.5, clamp: float = 4.0, kl: float = 0.0625, stop: float = 5e-2,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return u (inputs) and r (outputs) of the rank-one change with C = I."""
    device = next(module.parameters()).device
    text = case.prompt.replace("{}", case.subject)
    prompts = [c.replace("{}", text) for c in contexts]
    target = encode(" " + case.new)
    rows = [(encode(p) + target)[:-1] for p in prompts] + [encode(f"{case.subject} is a")]
    at = [subject_last(encode, p, case.subject) for p in prompts]
    at.append(subject_last(encode, f"{case.subject} is a", case.subject))
    seen: dict[str, Tensor] = {}
    keep = down.register_forward_hook(lambda m, a, o: seen.update(x=a[0], y=o))
    index = torch.arange(len(prompts), device=device)
    with torch.no_grad():
        ids, mask = padded([encode(p) for p in prompts], device)
        module(input_ids=ids, attention_mask=mask)
        keys = seen["x"][index, torch.tensor(at[:-1], device=device)]
        key, value = keys[0], seen["y"][0, at[0]].clone()
    keep.remove()
    delta = torch.zeros_like(value, requires_grad=True)

    def add(m: Any, a: Any, output: Tensor) -> Tensor:
        changed = output.clone()
        changed[range(len(at)), at] += delta
        return changed

    handle = down.register_forward_hook(add)
    optimizer, clean = torch.optim.Adam([delta], lr=lr), None
    ids, mask = padded(rows, device)
    for step in range(steps):
        logits = module(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
        nll = torch.stack([
            -logits[i, range(len(r) - len(target), len(r)), target].mean()
            for i, r in enumerate(rows[:-1])
        ]).mean()  # fmt: skip
        now = logits[-1, at[-1]]
        clean = now.detach().clone() if clean is None else clean
        drift = kl * F.kl_div(clean, now, log_target=True, reduction="sum")
        loss = nll + drift + decay * delta.norm() / value.norm() ** 2
        if loss.item() < stop or step == steps - 1:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            delta *= min(1.0, float(clamp * value.norm() / delta.norm()))
    handle.remove()
    u = keys.mean(0) / keys.mean(0).norm()
    return u, delta.detach() / key.dot(u)


@torch.no_grad()
def evaluate(module: Any, encode: Encode, case: Asked) -> Answers:
    """Score every prompt for both targets in one padded batch."""
    device = next(module.parameters()).device
    targets = [encode(" " + t) for t in (case.new, case.true)]
    starts = [len(encode(p)) for p in case.prompts for _ in targets]
    ids, mask = padded([encode(p) + t for p in case.prompts for t in targets], device)
    logits = module(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
    nll = torch.tensor([
        [-sum(logits[2 * i + j, starts[2 * i] - 1 + k, token].item() for k, token in enumerate(t))
         / len(t) for j, t in enumerate(targets)]
        for i in range(len(case.prompts))
    ])  # fmt: skip
    following = torch.stack([logits[2 * i, starts[2 * i] - 1] for i in case.compared])
    return Answers(nll, following)


@torch.no_grad()
def edited(module: Any, down: Any, encode: Encode, case: Asked, u: Tensor, r: Tensor) -> Answers:
    """Write the change into the weight, score, and put the weight back."""
    before = down.weight.clone()
    change = torch.outer(u, r)
    down.weight += change if down.weight.shape == change.shape else change.T
    answers = evaluate(module, encode, case)
    down.weight.copy_(before)
    return answers


def divergence(before: Answers, after: Answers) -> Tensor:
    """KL(before || after) of each compared prompt, in nats."""
    p, q = before.following.double(), after.following.double()
    return (p.exp() * (p - q)).sum(1)
