"""How a side memory learns a request: SGD on the target's loss and on margins of the distance (WISE).

Wang et al. (2024), equations 4 to 6. The changed entries are a random share of the matrix, the same for all
requests that one copy learns; no entry leaves a box around W.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from edit_harness import FROM_PRESET
from edit_harness.edits import Edit
from edit_harness.model.architecture import Projection
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, NotNegative, Positive, Share

from .._search.suffix import SuffixForward, through
from .._search.texts import Targets, Text, seeded
from .lessons import settled
from .side import SideMemories, distance


@dataclass
class Fields:
    """Hyperparameters of the training, as fields of the editor."""

    steps: Count = FROM_PRESET
    """SGD's steps for a request at most."""
    lr: Positive = FROM_PRESET
    """SGD's rate."""
    alpha: NotNegative = FROM_PRESET
    """Distance up to which an unrelated prompt costs nothing."""
    beta: NotNegative = FROM_PRESET
    """Distance from which on the edit's prompt costs nothing."""
    gamma: NotNegative = FROM_PRESET
    """By how much the edit's distance is to exceed that of the unrelated prompt."""
    share: Share = 0.2
    """Of the matrix's entries, those that may move, drawn anew for each copy."""
    box: Positive = 1.0
    """How far an entry may move."""
    save_every: Count = FROM_PRESET
    """Requests that one copy learns; the next begins at W."""
    merge_every: Count = 1000
    """Requests after which their copies become one; whole copies count."""
    density: Share = 0.53
    """The share of a copy's entries, those of largest change, that is merged."""
    seed: int = 0
    """Seed of the sampled contexts, of the entries that may move and of the unrelated prompts."""


class Lesson:
    """A request on its way into an edit's memories; of these it has a copy to train.

    ``texts`` are its rows, the unrelated prompt last.
    """

    keys: Tensor
    """What goes into the map, texts by tokens by d_in; a pass gives it."""
    outputs: Tensor
    """What comes out there without the memories, texts by tokens by d_out."""

    def __init__(
        self, given: Fields, memories: SideMemories, count: int, texts: Sequence[Text]
    ) -> None:
        self.given, self.texts, self.losses = given, texts, list[float]()
        self.count = count + 1
        """The edit's requests up to this."""
        copy, learned = divmod(count, given.save_every)
        self.memories = memories if learned else memories.begun()
        self.change = self.memories.changes[-1].clone()
        """W' - W, d_in by d_out."""
        noise = torch.Generator().manual_seed(seeded(given.seed, copy))
        moving = torch.rand(self.change.shape, generator=noise) < given.share
        self._moving = moving.to(self.change.device)
        ends = [text.reads[0] + 1 if text.reads else len(text.ids) for text in texts]
        self._ends = torch.tensor(ends, device=self.change.device)
        shares = [1 / len(text.reads) / (len(texts) - 1) for text in texts for _ in text.reads]
        self.shares = torch.tensor(shares).to(self.change)
        """What each target token counts."""

    @property
    def ended(self) -> bool:
        """Whether the loss before the last step was low and had settled."""
        return settled(self.losses)

    def added(self) -> Tensor:
        """Return what the copy adds to the outputs, texts by tokens by d_out."""
        return self.keys @ self.change

    def distances(self, added: Tensor) -> Tensor:
        """Return how far each text's prompt moves the activations, contexts and the unrelated one."""
        prompt = torch.arange(added.shape[1], device=added.device) < self._ends[:, None]
        return distance(self.memories.activation, self.outputs, added, prompt)

    def loss(self, added: Tensor, likely: Tensor) -> Tensor:
        """Return the loss, given the log-likelihood of each target token in nats."""
        moved, given = self.distances(added), self.given
        own, other = moved[:-1], moved[-1]
        margins = other - given.alpha, given.beta - own, given.gamma + other - own
        return sum(map(hinge, margins), -(likely * self.shares).sum())

    def step(self, gradient: Tensor, loss: float) -> None:
        """Move the copy, given the gradient of what it adds, and the loss before the step."""
        self.losses.append(loss)
        descent = self.keys.flatten(0, 1).T @ gradient.flatten(0, 1)
        self.change.sub_(descent.mul_(self._moving), alpha=self.given.lr)
        self.change.clamp_(-self.given.box, self.given.box)

    def learned(self, before: Edit, name: str) -> Edit:
        """Return the edit before with the trained memory of the map of this name."""
        moved, given = self.distances(self.added())[:-1].mean(), self.given
        memories = self.memories.learned(self.change, moved)
        copies = max(given.merge_every // given.save_every, 1)
        if self.count % (copies * given.save_every) == 0:
            memories = memories.merged(copies, given.density)
        info = {"loss": self.losses[-1], "steps": len(self.losses), "distance": moved.item()}
        return replace(
            before,
            adaptors={name: memories},
            info={**info, "memories": len(memories.changes)},
            state={**before.state, f"{name}.requests": torch.tensor(self.count)},
        )


def hinge(margins: Tensor) -> Tensor:
    """Return the mean of the margins above 0, or 0 if there are none, as the authors' code does."""
    return margins.clamp(min=0).sum() / (margins > 0).sum().clamp(min=1)


class Pass:
    """The rows of several lessons, laid out to be run again and again."""

    def __init__(
        self, model: Model, layer: int, linear: Projection, lessons: Sequence[Lesson]
    ) -> None:
        self.lessons = lessons
        rows = [text for lesson in lessons for text in lesson.texts]
        starts = [0] * len(rows)
        self._again = SuffixForward(
            model, layer, [text.ids for text in rows], starts, changed=[linear.name]
        )
        keys, sizes = self._again.keys, [len(lesson.texts) for lesson in lessons]
        with torch.no_grad():
            outputs = through(model, linear.module, keys.flatten(0, 1)).view(*keys.shape[:2], -1)
        each = zip(lessons, keys.split(sizes), outputs.split(sizes), strict=True)
        for lesson, own, clean in each:
            lesson.keys, lesson.outputs = own, clean
        self._targets = Targets(rows, model.device)
        self._read = self._again.places(self._targets.rows, self._targets.positions)

    def step(self) -> None:
        """Take a step of each lesson that has not ended."""
        added = [lesson.added().requires_grad_() for lesson in self.lessons]
        logits = self._again.logits(self._read, torch.cat(added))
        likely = self._targets.log_likelihoods(logits)
        own = likely.split([len(lesson.shares) for lesson in self.lessons])
        losses = [lesson.loss(*its) for lesson, *its in zip(self.lessons, added, own, strict=True)]
        gradients = torch.autograd.grad(torch.stack(losses).sum(), added)
        for lesson, gradient, loss in zip(self.lessons, gradients, losses, strict=True):
            if not lesson.ended:
                lesson.step(gradient, loss.item())
