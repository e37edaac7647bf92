"""How MEND's network learns to edit (Mitchell et al., 2022, section 3.3).

Each lesson is edited with the network's change, and the network is moved so that the target becomes
likely after a rephrasing while the predictions for another text stay. Lessons of one step share
forward passes, and the running statistics of the factors as they are after all of them; the
authors' code takes lessons one by one. The training is resumable: it can end at any time, and goes
on from its checkpoint with the same bits. The factors are inputs here; nothing differentiates through a gradient.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from random import Random

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from edit_harness import DataError, UsageError
from edit_harness.edits import UNEDITED, Edit
from edit_harness.files import replacing
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.model.tokens import Continuation

from ..in_context.lessons import Lesson
from .mend_factors import changes, gradient_factors
from .mend_network import Network, copies

HELD_OUT = 0.1
"""Largest share of the lessons that are for validation."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of a training; the names in the authors' configuration are in brackets."""

    lr: float
    """Adam's rate for the network (lr)."""
    lr_lr: float
    """Adam's rate for the learned rates of the matrices (lr_lr)."""
    c_edit: float
    """Weight of the target's negative log-likelihood (cedit)."""
    c_loc: float
    """Weight of the drift (cloc)."""
    accumulate: int
    """Lessons of one step (batch_accumulation)."""
    clip: float
    """Largest norm of a step's gradient (grad_clip)."""
    iterations: int
    """Lessons in all, counted as often as they are used (max_iters)."""
    every: int
    """Lessons from one validation to the next (val_interval)."""
    validate_on: int
    """Lessons of a validation (val_steps)."""
    patience: int
    """Lessons without a better validation after which the training ends."""
    seed: int


@dataclass(frozen=True)
class Figures:
    """Means over lessons."""

    loss: float
    """c_edit · likelihood + c_loc · drift."""
    likelihood: float
    """Negative log-likelihood of the target after a rephrasing, in nats."""
    drift: float
    """KL(before ‖ after) of the predictions for the other text, in nats."""
    success: float
    """Share of target tokens after a rephrasing that are the likeliest."""
    kept: float
    """Share of predictions for the other text whose likeliest token is the same as before."""

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in asdict(self).items())


@dataclass(frozen=True)
class Outcome:
    """What edits did, one number for each lesson; the fields are those of `Figures`."""

    likelihood: Tensor
    drift: Tensor
    success: Tensor
    kept: Tensor


@dataclass(frozen=True)
class Drawn:
    """A lesson as tokens, with one of its rephrasings."""

    edit: Continuation
    rephrased: Continuation
    other: Continuation


@dataclass
class Best:
    """The network of the best validation so far."""

    iteration: int
    figures: Figures
    tensors: dict[str, Tensor]

    @property
    def facts(self) -> dict[str, float]:
        """When it was, and its figures."""
        return {"lessons": self.iteration, **asdict(self.figures)}


class Training:
    """A network on its way. Raises `DataError` for too few lessons."""

    def __init__(
        self,
        model: Model,
        matrices: Sequence[Projection],
        network: Network,
        lessons: Sequence[Lesson],
        settings: Settings,
    ) -> None:
        self.model, self.matrices, self.network = model, matrices, network
        self.settings = settings
        shuffled = Random(settings.seed).sample(lessons, len(lessons))
        held = min(settings.validate_on, int(HELD_OUT * len(lessons)))
        self.held, self.lessons = shuffled[:held], shuffled[held:]
        if not held or len(self.lessons) < settings.accumulate:
            raise DataError(
                f"{len(lessons)} example edits are too few to learn from",
                f"give at least {settings.accumulate + int(1 / HELD_OUT)}, better some thousands",
            )
        self.iteration = 0
        self.best: Best | None = None
        nets = [p for p in network.parameters() if p is not network.lrs]
        self._adam = torch.optim.Adam(
            [{"params": nets, "lr": settings.lr}, {"params": [network.lrs], "lr": settings.lr_lr}]
        )

    def run(
        self,
        checkpoint: Path,
        *,
        report: Callable[[str], None],
        advance: Callable[[int, int], None],
    ) -> Best:
        """Train until the end or until patience is lost, and return the best network.

        A checkpoint is read if it is there, and written after each validation. Raises `UsageError`
        if the loss is no longer a number.
        """
        if checkpoint.exists():
            self._restore(checkpoint)
            report(f"goes on after {self.iteration:,} lessons")
        while self.best is None or not self._over(self.best):
            end = min(self.iteration + self.settings.every, self.settings.iterations)
            while self.iteration < end:
                self.step()
                advance(self.iteration, self.settings.iterations)
            figures = self.validate()
            if not math.isfinite(figures.loss):
                raise UsageError(
                    f"the training of mend diverged after {self.iteration:,} lessons",
                    "give smaller rates: --editor-args lr=...,lr_lr=...",
                )
            report(f"{self.iteration:,} lessons: {figures}")
            if self.best is None or figures.loss < self.best.figures.loss:
                self.best = Best(self.iteration, figures, copies(self.network.state_dict()))
            self._store(checkpoint, self.best)
        return self.best

    def step(self) -> None:
        """Learn from the lessons of one step; which these are depends on its number alone."""
        draw = Random(f"{self.settings.seed} {self.iteration}")
        lessons = draw.sample(self.lessons, self.settings.accumulate)
        self.network.train()
        outcome = self._outcome([self._drawn(lesson, draw) for lesson in lessons])
        self._adam.zero_grad()
        self._loss(outcome).mean().backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip)
        self._adam.step()
        self.iteration += len(lessons)

    @torch.no_grad()
    def validate(self) -> Figures:
        """Edit the lessons that nothing is learned from, always with the same rephrasings."""
        self.network.eval()
        draw = Random(self.settings.seed)
        size = self.settings.accumulate
        groups = [self.held[i : i + size] for i in range(0, len(self.held), size)]
        outcomes = [self._outcome([self._drawn(each, draw) for each in group]) for group in groups]
        whole = Outcome(*(torch.cat(each) for each in zip(*map(astuple, outcomes), strict=True)))
        columns = (self._loss(whole), *astuple(whole))
        return Figures(*(float(column.mean()) for column in columns))

    def _over(self, best: Best) -> bool:
        waited = self.iteration - best.iteration
        return self.iteration >= self.settings.iterations or waited >= self.settings.patience

    def _drawn(self, lesson: Lesson, draw: Random) -> Drawn:
        """Encode a lesson with one of its rephrasings, or its own prompt if it has none."""
        split = self.model.tokens.split
        return Drawn(
            split(lesson.prompt, lesson.target),
            split(draw.choice(lesson.rephrasings or (lesson.prompt,)), lesson.target),
            split(lesson.other, lesson.other_answer),
        )

    def _loss(self, outcome: Outcome) -> Tensor:
        """Return c_edit · nll + c_loc · KL for each lesson."""
        return self.settings.c_edit * outcome.likelihood + self.settings.c_loc * outcome.drift

    def _outcome(self, lessons: Sequence[Drawn]) -> Outcome:
        """Edit the model for each lesson alone, and see what becomes of its two texts."""
        edits = self._edits(lessons)
        texts = [text for each in lessons for text in (each.rephrased, each.other)]
        after = self._log_probabilities(texts, [edit for edit in edits for _ in range(2)])
        others = [each.other for each in lessons]
        with torch.no_grad():
            before = self._log_probabilities(others, [UNEDITED] * len(others))
        targets = [torch.tensor(e.rephrased.target, device=self.model.device) for e in lessons]
        edited = list(zip(after[::2], targets, strict=True))
        pairs = list(zip(before, after[1::2], strict=True))
        return Outcome(
            torch.stack([-q.gather(1, t[:, None]).mean() for q, t in edited]),
            torch.stack([(p.exp() * (p - q)).sum(1).mean() for p, q in pairs]),
            torch.stack([(q.argmax(1) == t).float().mean() for q, t in edited]),
            torch.stack([(q.argmax(1) == p.argmax(1)).float().mean() for p, q in pairs]),
        )

    def _edits(self, lessons: Sequence[Drawn]) -> list[Edit]:
        """Return the edit that the network makes of each lesson, differentiable in the network."""
        batches = [[each.edit] for each in lessons]
        factors, _ = gradient_factors(self.model, self.matrices, batches)
        return [Edit(weights) for weights in changes(self.network, self.matrices, factors)]

    def _log_probabilities(
        self, texts: Sequence[Continuation], edits: Sequence[Edit]
    ) -> tuple[Tensor, ...]:
        """Return each text's log-probabilities under its edit, target tokens by vocabulary."""
        batch = self.model.batch([text.inputs for text in texts])
        read = [(row, place) for row, text in enumerate(texts) for place in text.places]
        with self.model.edited_rows(batch, edits, [len(text.prompt) for text in texts]):
            logits = self.model.logits(batch, batch.places(*zip(*read, strict=True)))
        return logits.log_softmax(1).split([len(text.target) for text in texts])

    def _store(self, path: Path, best: Best) -> None:
        """Write all that the training needs to go on as if it had not been interrupted."""
        adam = self._adam.state_dict()["state"]
        tensors = {
            **{f"network.{name}": t for name, t in self.network.state_dict().items()},
            **{f"best.{name}": t for name, t in best.tensors.items()},
            **{f"adam.{i}.{name}": t for i, own in adam.items() for name, t in own.items()},
        }
        state = {
            "iteration": self.iteration,
            "best": best.iteration,
            "figures": asdict(best.figures),
        }
        with replacing(path) as partial:
            save_file(copies(tensors), partial, {"training": json.dumps(state)})

    def _restore(self, path: Path) -> None:
        """Go back to a checkpoint. Raises `DataError` for a file that is none."""
        try:
            with safe_open(path, framework="pt", device=str(self.model.device)) as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                state = json.loads(file.metadata()["training"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} is no checkpoint: {error!r}", "delete it") from None
        self.network.load_state_dict(_under("network.", tensors))
        adam = self._adam.state_dict()
        for name, tensor in _under("adam.", tensors).items():
            number, _, kind = name.partition(".")
            adam["state"].setdefault(int(number), {})[kind] = tensor
        self._adam.load_state_dict(adam)
        self.iteration = state["iteration"]
        figures = Figures(**state["figures"])
        self.best = Best(state["best"], figures, _under("best.", tensors))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
