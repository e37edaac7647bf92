"""The sequential runner of the field's scripts, as a baseline and an oracle.

One case at a time: ROME's value search with whole forward passes over every context, the weight
written and put back, all prompts of a case for both targets in one padded batch with logits at
every position, and the texts of one case continued together. Written from the method's description
against transformers alone; it shares no code with the harness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Update = tuple[Tensor, Tensor]
"""u (inputs) and r (outputs) of the rank-one change u rᵀ."""

ESSENCE = "{} is a"
"""Its prediction is not to drift."""


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
    continued: tuple[str, ...] = ()
    """Prompts to be continued by the edited model."""


@dataclass(frozen=True)
class Answers:
    """Mean negative log-likelihoods, prompts by (new, true), and next-token log-probabilities."""

    nll: Tensor
    following: Tensor


@dataclass(frozen=True)
class Settings:
    """ROME's hyperparameters, for C = I."""

    steps: int = 20
    lr: float = 0.5
    decay: float = 0.5
    clamp: float = 4.0
    kl: float = 0.0625
    stop: float = 5e-2


@dataclass(frozen=True)
class Runner:
    """A model, the projection to edit, and what turns texts into tokens."""

    module: Any
    down: Any
    encode: Callable[[str], list[int]]

    def rome(self, case: Asked, contexts: Sequence[str], given: Settings = Settings()) -> Update:
        """Edit a case, in 22 passes of the whole model."""
        templates = [context.replace("{}", case.prompt) for context in contexts]
        prompts = [t.replace("{}", case.subject) for t in templates]
        at = [self._subject(template, case.subject) for template in templates]
        keys, _ = self._seen(prompts, at)
        mean = keys.mean(0)
        u = mean / mean.norm()
        value = self.search(case, contexts, given)
        (key,), (now,) = self._seen(prompts[:1], at[:1])
        return u, (value - now) / key.dot(u)

    def _subject(self, template: str, subject: str) -> int:
        """Return where the subject's last token is."""
        return len(self.encode(template.partition("{}")[0] + subject)) - 1

    @torch.no_grad()
    def _seen(self, prompts: Sequence[str], at: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return what goes into and comes out of the projection at one place of each prompt."""
        seen: list[Tensor] = []
        handle = self.down.register_forward_hook(lambda _, args, out: seen.extend((args[0], out)))
        self._logits([self.encode(prompt) for prompt in prompts])
        handle.remove()
        inputs, outputs = (side[range(len(at)), at].float() for side in seen)
        return inputs, outputs

    def plain(self, case: Asked, contexts: Sequence[str], passes: int) -> None:
        """Run passes of the search's batch there and back, with one loss and nothing else: its least cost."""
        rows, at, reads = self._batch(case, contexts)
        handle, _ = self._adding(
            torch.zeros(self._width, device=self._device, requires_grad=True), at
        )
        for _ in range(passes):
            (-self._logits(rows).float().log_softmax(-1)[reads].mean()).backward()
        handle.remove()

    def _batch(
        self, case: Asked, contexts: Sequence[str]
    ) -> tuple[list[list[int]], list[int], tuple[Tensor, Tensor, Tensor]]:
        """Return the search's rows, the place of each subject, and where the target is read in all but the last."""
        templates = [*(context.replace("{}", case.prompt) for context in contexts), ESSENCE]
        target = self.encode(" " + case.new)
        rows = [(self.encode(t.replace("{}", case.subject)) + target)[:-1] for t in templates[:-1]]
        places = torch.tensor([range(len(row) - len(target), len(row)) for row in rows])
        reads = torch.arange(len(rows))[:, None], places, torch.tensor(target)
        rows.append(self.encode(ESSENCE.replace("{}", case.subject)))
        return rows, [self._subject(template, case.subject) for template in templates], reads

    def search(self, case: Asked, contexts: Sequence[str], given: Settings = Settings()) -> Tensor:
        """Return the value that makes the target likely after every prompt."""
        rows, at, reads = self._batch(case, contexts)
        delta = torch.zeros(self._width, device=self._device, requires_grad=True)
        optimizer = torch.optim.Adam([delta], lr=given.lr)
        handle, clean = self._adding(delta, at)
        before = None
        for step in range(given.steps):
            logs = self._logits(rows).float().log_softmax(-1)
            # One read for all rows: each row's own would fill a tensor of all logits on the way back.
            nll = -logs[reads].mean()
            now = logs[-1, at[-1]]
            before = now.detach().clone() if before is None else before
            drift = given.kl * F.kl_div(before, now, log_target=True, reduction="sum")
            size = clean[0].norm()
            loss = nll + drift + given.decay * delta.norm() / size**2
            # The published loop, too, makes a last pass whose only use is to be printed.
            if loss.item() < given.stop or step == given.steps - 1:
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                delta *= min(1.0, float(given.clamp * size / delta.norm()))
        handle.remove()
        return clean[0] + delta.detach()

    def _adding(self, delta: Tensor, at: Sequence[int]) -> tuple[Any, list[Tensor]]:
        """Add a change to the projection's output; also return where its first clean one goes."""
        clean: list[Tensor] = []

        def hook(_: Any, __: Any, output: Tensor) -> Tensor:
            if not clean:
                clean.append(output[0, at[0]].detach().float().clone())
            changed = output.clone()
            changed[range(len(at)), at] += delta.to(output.dtype)
            return changed

        return self.down.register_forward_hook(hook), clean

    @torch.no_grad()
    def evaluate(self, case: Asked) -> Answers:
        """Score every prompt for both targets in one padded batch."""
        targets = [self.encode(" " + target) for target in (case.new, case.true)]
        starts = [len(self.encode(prompt)) for prompt in case.prompts]
        logits = self._logits([self.encode(p) + t for p in case.prompts for t in targets])

        def following(prompt: int, which: int = 0, place: int = 0) -> Tensor:
            return logits[2 * prompt + which, starts[prompt] - 1 + place].float().log_softmax(-1)

        nll = [
            [-sum(following(i, j, k)[token].item() for k, token in enumerate(t)) / len(t)
             for j, t in enumerate(targets)]
            for i in range(len(starts))
        ]  # fmt: skip
        return Answers(torch.tensor(nll), torch.stack([following(i) for i in case.compared]))

    @contextmanager
    def written(self, update: Update) -> Iterator[None]:
        """Have a change in the weight for a while."""
        weight = self.down.weight
        before, change = weight.detach().clone(), torch.outer(*update).to(weight.dtype)
        with torch.no_grad():
            weight += change if weight.shape == change.shape else change.T
            yield
            weight.copy_(before)

    @torch.no_grad()
    def generate(self, prompts: Sequence[str], length: int) -> list[list[int]]:
        """Continue prompts greedily to a length in all, one position a pass after the first.

        Rows begin together; one whose prompt goes on keeps its own token there.
        """
        rows = [self.encode(prompt) for prompt in prompts]
        cache, start, stop = None, 0, min(map(len, rows))
        while stop < length:
            ids = torch.tensor([row[start:stop] for row in rows], device=self._device)
            mask = torch.ones(len(rows), stop, dtype=torch.long, device=self._device)
            out = self.module(input_ids=ids, attention_mask=mask, past_key_values=cache)
            cache, tokens = out.past_key_values, out.logits[:, -1].argmax(-1)
            for row, token in zip(rows, tokens, strict=True):
                if len(row) == stop:
                    row.append(token.item())
            start, stop = stop, stop + 1
        return rows

    def _logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return logits at every position of rows padded on the right."""
        width = max(map(len, rows))
        ids = torch.tensor([[*r, *[0] * (width - len(r))] for r in rows], device=self._device)
        lengths = torch.tensor([len(r) for r in rows], device=self._device)
        mask = (torch.arange(width, device=self._device) < lengths[:, None]).long()
        return self.module(input_ids=ids, attention_mask=mask).logits

    @property
    def _device(self) -> torch.device:
        return self.down.weight.device

    @property
    def _width(self) -> int:
        return self.module.config.hidden_size


def divergence(before: Answers, after: Answers) -> Tensor:
    """KL(before || after) of each compared prompt, in nats."""
    p, q = before.following.double(), after.following.double()
    return (p.exp() * (p - q)).sum(1).cpu()
