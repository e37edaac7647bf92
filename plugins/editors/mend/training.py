"""How MEND's network learns to edit (Mitchell et al., 2022, section 3.3).

Each lesson is edited, and the network is moved so that the target becomes likely after a rephrasing while the
predictions for another text stay. Lessons of one step share passes and running statistics; the authors' code
takes lessons one by one. An interrupted training goes on from its checkpoint with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, DataError, UsageError
from edit_harness.edits import UNEDITED, Edit
from edit_harness.files import replacing
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, NotNegative, Positive

from .._search.factors import factors
from .._search.texts import Text
from ..in_context.lessons import Lesson
from .network import Network, copies

HELD_OUT = 0.1
"""Largest share of the lessons that are for validation."""


@dataclass
class Settings:
    """Hyperparameters of a training; the names in the authors' configuration are in brackets."""

    lr: NotNegative = FROM_PRESET
    """Adam's rate for the network (lr)."""
    lr_lr: NotNegative = FROM_PRESET
    """Adam's rate for the rate of each matrix, which is learned too (lr_lr)."""
    c_edit: NotNegative = FROM_PRESET
    """Weight of the target's negative log-likelihood after a rephrasing (cedit)."""
    c_loc: NotNegative = 1.0
    """Weight of the drift on another text (cloc)."""
    accumulate: Count = 10
    """Lessons of one step (batch_accumulation)."""
    clip: Positive = 100.0
    """Largest norm of a step's gradient (grad_clip)."""
    iterations: Count = FROM_PRESET
    """Lessons in all, counted as often as they are used (max_iters)."""
    every: Count = FROM_PRESET
    """Lessons from one validation to the next (val_interval)."""
    validate_on: Count = 500
    """Lessons of a validation, at most a tenth of all (val_steps)."""
    patience: Count = 20_000
    """Lessons without a better validation after which the training ends."""
    seed: int = 0
    """Seed of the network's first weights and of the lessons' order."""


@dataclass
class Best:
    """The network of the best validation so far."""

    iteration: int
    figures: dict[str, float]
    """As `Training.validate` returns them."""
    tensors: dict[str, Tensor]


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

        A checkpoint is read if it is there, and written after each validation: all that it needs to go
        on as if it had not been interrupted. Raises `UsageError` if the loss is no longer a number, and
        `DataError` for a file that is no checkpoint.
        """
        if checkpoint.exists():
            try:
                state = torch.load(checkpoint, map_location="cpu", weights_only=True)
                self.network.load_state_dict(state["network"])
                self._adam.load_state_dict(state["adam"])
                self.iteration, self.best = state["iteration"], Best(**state["best"])
            except Exception as error:  # as many kinds as there are ways for a file to be damaged
                raise DataError(f"{checkpoint} is no checkpoint: {error!r}", "delete it") from None
            report(f"goes on after {self.iteration:,} lessons")
        while self.best is None or not self._over(self.best):
            end = min(self.iteration + self.settings.every, self.settings.iterations)
            while self.iteration < end:
                self.step()
                advance(self.iteration, self.settings.iterations)
            figures = self.validate()
            if not math.isfinite(figures["loss"]):
                raise UsageError(
                    f"the training of mend diverged after {self.iteration:,} lessons",
                    "give smaller rates: --editor-args lr=...,lr_lr=...",
                )
            report(f"{self.iteration:,} lessons: {told(figures)}")
            if self.best is None or figures["loss"] < self.best.figures["loss"]:
                self.best = Best(self.iteration, figures, copies(self.network.state_dict()))
            state = {
                "iteration": self.iteration,
                "network": self.network.state_dict(),
                "adam": self._adam.state_dict(),
                "best": vars(self.best),
            }
            with replacing(checkpoint) as partial:
                torch.save(state, partial)
        return self.best

    def step(self) -> None:
        """Learn from the lessons of one step; which these are depends on its number alone."""
        draw = Random(f"{self.settings.seed} {self.iteration}")
        lessons = draw.sample(self.lessons, self.settings.accumulate)
        self.network.train()
        outcome = self._outcome(lessons, draw)
        self._adam.zero_grad()
        self._loss(outcome).mean().backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.clip)
        self._adam.step()
        self.iteration += len(lessons)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Edit the lessons that nothing is learned from, always with the same rephrasings.

        Returns means over them: ``loss``, and what `_outcome` returns.
        """
        self.network.eval()
        draw, size = Random(self.settings.seed), self.settings.accumulate
        groups = [self.held[i : i + size] for i in range(0, len(self.held), size)]
        outcomes = [self._outcome(group, draw) for group in groups]
        whole = {name: torch.cat([each[name] for each in outcomes]) for name in outcomes[0]}
        columns = {"loss": self._loss(whole), **whole}
        return {name: float(column.mean()) for name, column in columns.items()}

    def _over(self, best: Best) -> bool:
        waited = self.iteration - best.iteration
        return self.iteration >= self.settings.iterations or waited >= self.settings.patience

    def _loss(self, outcome: Mapping[str, Tensor]) -> Tensor:
        return self.settings.c_edit * outcome["likelihood"] + self.settings.c_loc * outcome["drift"]

    def _outcome(self, lessons: Sequence[Lesson], draw: Random) -> dict[str, Tensor]:
        """Edit the model for each lesson alone, and return what becomes of its two texts.

        A number for each lesson: ``likelihood``, the negative log-likelihood of the target after a
        rephrasing, in nats; ``drift``, KL(before ‖ after) of the predictions for the other text, in
        nats; ``success``, the share of target tokens after a rephrasing that are the likeliest;
        ``kept``, the share of predictions for the other text whose likeliest token stays.
        """
        split = self.model.tokens.split
        asked = [draw.choice(lesson.rephrasings or (lesson.prompt,)) for lesson in lessons]
        batches = [[Text.of(split(lesson.prompt, lesson.target))] for lesson in lessons]
        others = [Text.of(split(lesson.other, lesson.other_answer)) for lesson in lessons]
        rephrased = [Text.of(split(a, l.target)) for a, l in zip(asked, lessons, strict=True)]
        found, _ = factors(self.model, self.matrices, batches)
        made = self.network.changes(self.matrices, found)
        edits = [edit for edit in map(Edit, made) for _ in range(2)]
        texts = [text for pair in zip(rephrased, others, strict=True) for text in pair]
        after = self._log_probabilities(texts, edits)
        with torch.no_grad():
            before = self._log_probabilities(others, [UNEDITED] * len(others))
        targets = [torch.tensor(text.target, device=self.model.device) for text in rephrased]
        edited = list(zip(after[::2], targets, strict=True))
        pairs = list(zip(before, after[1::2], strict=True))
        each = {
            "likelihood": [-q.gather(1, t[:, None]).mean() for q, t in edited],
            "drift": [(p.exp() * (p - q)).sum(1).mean() for p, q in pairs],
            "success": [(q.argmax(1) == t).float().mean() for q, t in edited],
            "kept": [(q.argmax(1) == p.argmax(1)).float().mean() for p, q in pairs],
        }
        return {name: torch.stack(numbers) for name, numbers in each.items()}

    def _log_probabilities(self, texts: Sequence[Text], edits: Sequence[Edit]) -> Sequence[Tensor]:
        """Return each text's log-probabilities under its edit, target tokens by vocabulary."""
        batch = self.model.batch([text.ids for text in texts])
        read = [(row, place) for row, text in enumerate(texts) for place in text.reads]
        with self.model.edited_rows(batch, edits, [text.reads[0] + 1 for text in texts]):
            logits = self.model.logits(batch, batch.places(*zip(*read, strict=True)))
        return logits.log_softmax(1).split([len(text.target) for text in texts])


def told(figures: Mapping[str, float]) -> str:
    """Return figures as a line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
