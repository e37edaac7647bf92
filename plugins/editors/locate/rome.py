"""ROME: rank-one model editing of one MLP output projection (Meng et al., 2022, section 3).

The subject's key is averaged over contexts, a value is searched that makes the target likely, and a rank-one
change writes the pair. ROME takes its direction from the mean key, but the length of the change from the bare
prompt's key alone; now and then an edit ruins the model. In R-ROME (Gupta et al., 2024) all are means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, ModelShape, Preset, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.registry.settings import Natural, Positive

from .._search import bases
from .._search.bases import Prepared, in_groups
from .._search.contexts import checked, sampled
from .._search.texts import FactToken
from ..covariance import covariance
from ..sources import ALPHAEDIT, EASYEDIT, KMENG, MEMIT, OURS
from .regular import Regular, named
from .value_search import Fields, Found, Settings, alike, search


def _preset(layer: int, source: str, origin: Origin = "ported", **values: Any) -> Preset:
    """Return a preset; what is not given is as ROME's authors have it."""
    published = {"steps": 20, "weight_decay": 0.5, "clamp": 4.0, "context_count": 10}
    return Preset({"layer": layer, **published, "covariance": True, **values}, source, origin)


def _easyedit(source: str = EASYEDIT) -> Preset:
    return _preset(5, source, steps=25, weight_decay=1e-3, covariance=False)


def _as_for_rome(preset: Preset) -> Preset:
    """Return ROME's values, which R-ROME's authors and others take over; they publish no others."""
    origin: Origin = "tuned" if preset.origin == "tuned" else "ported"
    return replace(preset, source=f"{preset.source}, as for rome", origin=origin)


@dataclass(frozen=True)
class Shared(bases.Shared):
    """What all edits of one model share."""

    contexts: tuple[str, ...]
    solve: Callable[[Tensor], Tensor]
    """K -> C⁻¹K, of keys as columns."""


@dataclass
class Rome(Regular, Fields, Prepared[Shared]):
    """Writes one key-value pair for each request."""

    layer: Natural = FROM_PRESET
    """The edited layer."""
    lr: Positive = 0.5
    fact_token: FactToken = "subject_last"
    """The token whose key and value are written. subject_first_after_last is the one after the
    subject, or its last where the prompt ends with it; last is the prompt's."""
    key_mode: Literal["rome", "mean", "bare"] = "rome"
    """rome: mean key for the direction, bare prompt's key for the length; mean: R-ROME."""
    covariance: bool = FROM_PRESET
    """Whether the direction is C⁻¹k; without it, C = I and tables say so."""
    moments: str = ""
    """File with the second moment C; by default that of the model or of the cache."""
    contexts: tuple[str, ...] = ()
    """Texts with ``{}`` for the prompt, the bare ``{}`` first; by default sampled."""
    context_lengths: tuple[int, ...] = (5, 10)
    """In tokens."""
    context_count: Natural = FROM_PRESET
    """Sampled contexts of each length; the bare prompt comes on top."""
    seed: int = 0
    """Seed of the sampled contexts."""

    command: ClassVar[str] = "rome"
    """The name by which the editor is asked for, for advice in errors."""
    presets: ClassVar = {
        "pocket": _preset(1, OURS, "tuned", weight_decay=0.0, clamp=6.0, context_count=2),
        "pocket-context": _preset(
            0, f"{OURS}-context", "tuned", steps=40, weight_decay=0.0, clamp=8.0, context_count=0
        ),
        "gpt2-medium": _preset(8, KMENG, "paper", clamp=3.0),
        "gpt2-large": _preset(12, KMENG, "paper"),
        "gpt2-xl": _preset(17, KMENG, "paper"),
        "gpt-j-6b": _preset(5, KMENG, "paper"),
        "gpt-neox-20b": _preset(15, MEMIT, "paper"),
        "llama-2-7b": _easyedit(),
        "mistral-7b": _easyedit(),
        "llama-3-8b": _easyedit(f"{EASYEDIT}, {ALPHAEDIT}"),
        "qwen2-7b": _easyedit(),
        "qwen2.5-7b": _easyedit(),
    }
    takes: ClassVar[frozenset[str]] = frozenset({"subject"})
    needs: ClassVar[str] = "a subject in each prompt; the second moment of the layer's keys"
    citation: ClassVar[str] = "Meng et al. (2022), Locating and Editing Factual Associations in GPT"

    @property
    def variant(self) -> str:
        """Name what is not as in the paper."""
        departures = {
            "C=I": self.covariance is False,
            f"key={self.key_mode}": self.key_mode != type(self).key_mode,
            f"token={self.fact_token}": self.fact_token != type(self).fact_token,
        }
        return named(departures, super().variant)

    @property
    def moment_layers(self) -> tuple[int, ...]:
        """The edited layer, unless C = I."""
        return () if self.covariance is False else (self.layer,)

    def guess(self, shape: ModelShape) -> Preset:
        """Return GPT-2's relative depth, or layer 5 for deep models of other families."""
        deep = shape.layers >= 28 and shape.type != "gpt2"
        layer = 5 if deep else round(0.35 * shape.layers)
        return _preset(layer, "layer by depth, the rest as for GPT-2", "guessed")

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no projection."""
        model.architecture.projection(self.layer)

    def find(self, model: Model) -> Shared:
        """Find the second moment and sample the contexts.

        Raises `DataError` if there is no second moment for the model and layer.
        """
        solve: Callable[[Tensor], Tensor] = Tensor.double
        digests = {}
        if self.moment_layers:
            files = (self.moments,) if self.moments else ()
            without = "; or go without: --editor-args covariance=false"
            given = {"editor": self.command, "without": without}
            (moment,) = covariance(model, [self.layer], files, **given)
            solve, digests = moment.solver(), {"moments": moment.digest}
        contexts = checked(self.contexts) or sampled(
            model, self.context_lengths, self.context_count, self.seed
        )
        return Shared(digests, {"contexts": list(contexts)}, contexts, solve)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the sum of one rank-one change for each request, each seeing those before."""
        (edit,) = self._edits(model, requests[:1])
        for request in requests[1:]:
            edit = self.extend(model, edit, [request])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return an edit for each batch; those of one request are searched together."""
        single = [i for i, batch in enumerate(batches) if len(batch) == 1]
        contexts = len(self.ready(model).contexts)
        made = in_groups(
            alike(model, [batches[i][0] for i in single], contexts, self.fact_token),
            lambda group: self._edits(model, [batches[single[i]][0] for i in group]),
        )
        found = dict(zip(single, made, strict=True))
        return [found.get(i) or self.edit(model, batch) for i, batch in enumerate(batches)]

    def _edits(self, model: Model, requests: Sequence[Request]) -> list[Edit]:
        shared, projection = self.ready(model), model.architecture.projection(self.layer)
        found = search(model, self.layer, requests, shared.contexts, Settings.of(self))
        bare = self.key_mode == "bare"
        keys = [each.keys[0] if bare else each.keys.mean(0) for each in found]
        directions = shared.solve(torch.stack(keys, 1)).unbind(1)
        edits = []
        for each, direction in zip(found, directions, strict=True):
            left, right = self._update(each, direction)
            change = self.change(projection, left[:, None], right[None])
            edits.append(Edit(change, info=each.info))
        return edits

    def _update(self, found: Found, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Return u (inputs) and r (outputs) of the change u rᵀ that writes the pair; u is the direction's.

        After it, the key k that `key_mode` names gives exactly the searched value: with W k = o
        before, W'k = o + (k·u) r = v*. Meng et al. (2022), equation 2.
        """
        mean, bare, value = found.keys.mean(0), found.keys[0], found.wanted
        direction = (direction / direction.norm()).to(found.keys.dtype)
        if self.key_mode == "mean":
            return direction, (value - found.values.mean(0)) / mean.dot(direction)
        return direction, (value - found.values[0]) / bare.dot(direction)


@dataclass
class RRome(Rome):
    """Writes one key-value pair for each request, at the mean key."""

    key_mode: Literal["rome", "mean", "bare"] = "mean"

    command: ClassVar[str] = "r-rome"
    presets: ClassVar = {family: _as_for_rome(preset) for family, preset in Rome.presets.items()}
    citation: ClassVar[str] = (
        "Gupta et al. (2024), Rebuilding ROME: Resolving Model Collapse during Sequential Model Editing"
    )
