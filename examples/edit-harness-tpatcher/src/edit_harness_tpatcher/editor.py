"""T-Patcher (Huang et al., 2023): each token of a target that the model gets wrong gets a neuron.

The neurons, or patches, stand beside one MLP, the last by default. They are trained to make the
target likely (the edit loss), to fire where it is predicted (the activation loss) and nowhere in
texts that are to stay as they are (the memory losses). Losses, weights and first keys are those of
the authors' code. Requests are taken one after another; what earlier ones fire on joins the memory.

Where this departs from that code: a patch is a GELU in every model, and has no gate where the MLP
has one; its value begins at zero, not at random; Adam takes a fixed number of steps, with no
schedule, decay, clipping or early end; the memory is texts, not the model's training data, and the
k hardest places of it are each patch's own. So nothing is drawn at random.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import torch
from edit_harness import FROM_PRESET, DataError, Editor, ModelShape, PluginError, Preset, Request
from edit_harness.edits import Edit
from edit_harness.model import Model
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive
from torch import Tensor
from torch.nn.functional import cross_entropy

from edit_harness_tpatcher.lesson import Lesson, Texts, begin, inputs_of

GROUP = 32
"""Most requests that share a forward pass."""
OWN_MEMORY = Path(__file__).with_name("memory.txt")
REMEDY = "name a file with a text on each line"
BART = "layer and rate of the authors for BART-base, the rate by width, at most pocket's"


@dataclass
class TPatcher(Editor):
    """Adds neurons to an MLP, one for each wrong token, and changes no weight."""

    layer: Natural = FROM_PRESET
    steps: Count = FROM_PRESET
    """Adam's steps for a request; there is no early end."""
    lr: Positive = FROM_PRESET
    activation_weight: NotNegative = 1.0
    """What the activation loss counts (the paper's a)."""
    memory_weight: NotNegative = 10.0
    """What the memory losses count (m); 0 is to go without a memory."""
    threshold: float = -3.0
    """The match below which a patch is to be in the memory (beta)."""
    gap: float = 3.0
    """How far below the match of its own query that is to be (minus gamma)."""
    hardest: Count = 16
    """How many places of the memory count, those with the highest loss (k; 1,000 in the authors'
    code, of a far larger memory)."""
    memory: str = ""
    """A file with a text on each line; the package's own sentences if empty."""

    _memory: Tensor = field(init=False, repr=False, compare=False, default=torch.empty(0))
    presets: ClassVar[Mapping[str, Preset]] = {
        "pocket": Preset(
            {"layer": 5, "steps": 100, "lr": 0.05}, "records 101 to 150 of its sample", "tuned"
        )
    }
    needs: ClassVar[str] = "a prompt and a target, no subject; an MLP that is a module of its own"
    citation: ClassVar[str] = (
        "Huang et al. (2023), Transformer-Patcher: One Mistake Worth One Neuron, ICLR"
    )

    @property
    def variant(self) -> str:
        """What tables say in brackets."""
        return "" if self.memory_weight else "no memory"

    @property
    def provenance(self) -> Mapping[str, str]:
        """The digest of the memory's texts."""
        if not self.memory_weight:
            return {}
        return {"memory": hashlib.sha256("\n".join(self._texts()).encode()).hexdigest()}

    def guess(self, shape: ModelShape) -> Preset:
        """Return the last layer, and a rate of 0.01 at BART-base's width of 768."""
        values = {"layer": shape.layers - 1, "steps": 100, "lr": min(0.05, 7.68 / shape.hidden)}
        return Preset(values, BART, "guessed")

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no MLP that is a module of its own."""
        self._module(model)

    def prepare(self, model: Model) -> None:
        """Read the memory, and keep what goes into the MLP at each of its tokens."""
        if self.memory_weight:
            module = self._module(model)
            texts = [model.tokens.encode(text).ids for text in self._texts()]
            batches = (model.batch(texts[i : i + GROUP]) for i in range(0, len(texts), GROUP))
            found = [inputs_of(model, module, batch)[batch.mask.bool()] for batch in batches]
            self._memory = torch.cat(found)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the patches of all requests, taken in order."""
        (edit,) = self.edit_each(model, [requests])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return the patches of each batch; what batches share is the forward passes."""
        return self._grow(model, [Edit()] * len(batches), batches)

    def extend(self, model: Model, previous: Edit, requests: Sequence[Request]) -> Edit:
        """Return ``previous`` with the patches of the requests behind its own.

        Raises `PluginError` if the previous edit is none that this editor could have made.
        """
        with model.applied(previous):
            (edit,) = self._grow(model, [previous], [requests])
        return edit

    def _texts(self) -> list[str]:
        """Return the memory's texts."""
        path = Path(self.memory) if self.memory else OWN_MEMORY
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the memory {path} cannot be read: {error}", REMEDY) from None
        if not (texts := [line.strip() for line in lines if line.strip()]):
            raise DataError(f"the memory {path} is empty", REMEDY)
        return texts

    def _grow(
        self, model: Model, edits: Sequence[Edit], batches: Sequence[Sequence[Request]]
    ) -> list[Edit]:
        """Return each edit with its batch of requests taken in, one request in each turn."""
        grown = list(edits)
        for turn in range(max(map(len, batches), default=0)):
            now = [i for i, batch in enumerate(batches) if turn < len(batch)]
            for group in (now[at : at + GROUP] for at in range(0, len(now), GROUP)):
                asked = [batches[i][turn] for i in group]
                taught = self._teach(model, [grown[i] for i in group], asked)
                for i, edit in zip(group, taught, strict=True):
                    grown[i] = edit
        return grown

    def _teach(
        self, model: Model, edits: Sequence[Edit], requests: Sequence[Request]
    ) -> list[Edit]:
        """Return each edit with one request taken in."""
        module, texts = self._module(model), Texts(model, requests)
        with torch.no_grad():
            clean = texts.logits([edit.without_weights() for edit in edits])
        given = zip(edits, texts.queries(module), clean, texts.targets, strict=True)
        lessons = [
            begin(edit, module, queries, logits.argmax(-1) != target, self._memory)
            for edit, queries, logits, target in given
        ]
        losses = list(map(cross_entropy, clean, texts.targets))
        adam = torch.optim.Adam([t for each in lessons for t in each.new.tensors], lr=self.lr)
        for _ in range(self.steps if any(len(each.new) for each in lessons) else 0):
            logits = texts.logits([each.running() for each in lessons])
            losses = list(map(cross_entropy, logits, texts.targets))
            adam.zero_grad()
            torch.stack([*losses, *map(self._penalty, lessons)]).sum().backward()
            adam.step()
        ends = zip(lessons, torch.stack(losses).tolist(), strict=True)
        return [each.learnt({"loss": loss, "steps": self.steps}) for each, loss in ends]

    def _penalty(self, lesson: Lesson) -> Tensor:
        """Return the activation loss and the memory losses, weighted, each a mean over patches."""
        if not len(lesson.new):
            return lesson.queries.new_zeros(())
        fires = lesson.new.match(lesson.wrong).diagonal()
        loss = self.activation_weight * (-fires).exp().mean()
        if not self.memory_weight:
            return loss
        match = lesson.new.match(lesson.memory)
        hardest = match.topk(min(self.hardest, len(match)), dim=0).values
        silent, below = hardest - self.threshold, hardest - fires + self.gap
        return loss + self.memory_weight * (silent.exp().mean() + below.exp().mean())

    def _module(self, model: Model) -> str:
        """Return the name of the layer's MLP."""
        maps = model.architecture.mlp(self.layer)
        around = {each.name.rpartition(".")[0] for each in maps}
        if len(around) > 1 or around <= set(model.architecture.blocks):
            raise PluginError(
                f"the MLP of layer {self.layer} is no module of its own, so nothing stands beside it",
                "choose another model or another editor",
            )
        return around.pop()
