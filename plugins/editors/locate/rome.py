"""ROME: rank-one model editing of one MLP output projection (Meng et al., 2022, section 3).

The projection is read as a memory of key-value pairs. The subject's key is averaged over contexts,
a value is searched that makes the target likely, and a rank-one change writes the pair. Key and
value are those of the subject's last token, or of another that ``fact_token`` names. With
``key_mode=mean`` it is R-ROME (Gupta et al., 2024), which uses the same mean key in all places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from edit_harness import FROM_PRESET, DataError, Editor, ModelShape, Preset, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.model.tokens import FactToken
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive

from .._search.covariance import find
from ..sources import ALPHAEDIT, EASYEDIT, KMENG, MEMIT, OURS
from .contexts import checked, sampled
from .value_search import Found, Settings, alike, search


def _preset(
    layer: int,
    source: str,
    *,
    steps: int = 20,
    decay: float = 0.5,
    clamp: float = 4.0,
    contexts: int = 10,
    covariance: bool = True,
    origin: Origin = "ported",
) -> Preset:
    return Preset(
        {
            "layer": layer,
            "steps": steps,
            "weight_decay": decay,
            "clamp": clamp,
            "context_count": contexts,
            "covariance": covariance,
        },
        source,
        origin,
    )


def _easyedit(source: str = EASYEDIT) -> Preset:
    """Return the values for models of 7 to 8 billion parameters."""
    return _preset(5, source, steps=25, decay=1e-3, covariance=False)


@dataclass(frozen=True)
class Shared:
    """What all edits of one model share."""

    model: Model
    contexts: tuple[str, ...]
    solve: Callable[[Tensor], Tensor]
    """k -> C⁻¹k."""
    provenance: dict[str, str]


@dataclass
class Rome(Editor):
    """Writes one key-value pair for each request."""

    layer: Natural = FROM_PRESET
    steps: Count = FROM_PRESET
    """Forward passes of the value search; at most ``steps - 1`` Adam steps."""
    lr: Positive = 0.5
    weight_decay: NotNegative = FROM_PRESET
    clamp: Positive = FROM_PRESET
    """Largest norm of the value's change, in norms of the unedited value."""
    kl_factor: NotNegative = 0.0625
    stop: NotNegative = 5e-2
    """The search ends before a step once the loss is below this."""
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
    context_count: Natural = FROM_PRESET
    """Sampled contexts of each length in tokens; the bare prompt comes on top."""
    seed: int = 0
    """Seed of the sampled contexts."""

    command: ClassVar[str] = "rome"
    """The name by which the editor is asked for, for advice in errors."""
    presets: ClassVar = {
        "pocket": _preset(1, OURS, decay=0.0, clamp=6.0, contexts=2, origin="tuned"),
        "gpt2-medium": _preset(8, KMENG, clamp=3.0, origin="paper"),
        "gpt2-large": _preset(12, KMENG, origin="paper"),
        "gpt2-xl": _preset(17, KMENG, origin="paper"),
        "gpt-j-6b": _preset(5, KMENG, origin="paper"),
        "gpt-neox-20b": _preset(15, MEMIT, origin="paper"),
        "llama-2-7b": _easyedit(),
        "mistral-7b": _easyedit(),
        "llama-3-8b": _easyedit(f"{EASYEDIT}, {ALPHAEDIT}"),
        "qwen2-7b": _easyedit(),
        "qwen2.5-7b": _easyedit(),
    }
    needs: ClassVar[str] = "a subject in each prompt; the second moment of the layer's keys"
    citation: ClassVar[str] = "Meng et al. (2022), Locating and Editing Factual Associations in GPT"

    def __post_init__(self) -> None:
        self._shared: Shared | None = None

    @property
    def variant(self) -> str:
        """Name what is not as in the paper."""
        departures = {
            "C=I": self.covariance is False,
            f"key={self.key_mode}": self.key_mode != type(self).key_mode,
            f"token={self.fact_token}": self.fact_token != type(self).fact_token,
        }
        return ", ".join(name for name, departs in departures.items() if departs)

    @property
    def moment_layers(self) -> tuple[int, ...]:
        """The edited layer, unless C = I."""
        return () if self.covariance is False else (self.layer,)

    @property
    def provenance(self) -> dict[str, str]:
        """Digest of the second moment."""
        return self._shared.provenance if self._shared else {}

    @property
    def found(self) -> dict[str, Any]:
        """The contexts."""
        return {"contexts": list(self._shared.contexts)} if self._shared else {}

    def guess(self, shape: ModelShape) -> Preset:
        """Return GPT-2's relative depth, or layer 5 for deep models of other families."""
        deep = shape.layers >= 28 and shape.type != "gpt2"
        layer = 5 if deep else round(0.35 * shape.layers)
        return _preset(layer, "layer by depth, the rest as for GPT-2", origin="guessed")

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the layer has no projection."""
        model.architecture.projection(self.layer)

    def prepare(self, model: Model) -> None:
        """Find the second moment and sample the contexts.

        Raises `DataError` if there is no second moment for the model and layer.
        """
        solve, provenance = self._solver(model)
        contexts = checked(self.contexts) or sampled(
            model, self.context_lengths, self.context_count, self.seed
        )
        self._shared = Shared(model, contexts, solve, provenance)

    def _solver(self, model: Model) -> tuple[Callable[[Tensor], Tensor], dict[str, str]]:
        if not self.moment_layers:
            return Tensor.double, {}
        moment = find(model, self.layer, self.moments)
        if moment is None:
            name = model.source.path or "MODEL"
            raise DataError(
                f"there is no second moment of layer {self.layer} for this model",
                f"run: edit-harness prepare --editor {self.command} --model {name} --corpus FILE; "
                "or go without: --editor-args covariance=false",
            )
        return moment.solver(), {"moments": moment.digest}

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Return the sum of one rank-one change for each request, each seeing those before."""
        (edit,) = self._edits(model, requests[:1])
        for request in requests[1:]:
            edit = self.extend(model, edit, [request])
        return edit

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return an edit for each batch; those of one request are searched together."""
        single = [i for i, batch in enumerate(batches) if len(batch) == 1]
        found: dict[int, Edit] = {}
        contexts = len(self._ready(model).contexts)
        for group in alike(model, [batches[i][0] for i in single], contexts, self.fact_token):
            edits = self._edits(model, [batches[single[i]][0] for i in group])
            found |= {single[i]: edit for i, edit in zip(group, edits, strict=True)}
        return [found.get(i) or self.edit(model, batch) for i, batch in enumerate(batches)]

    def _edits(self, model: Model, requests: Sequence[Request]) -> list[Edit]:
        """Return an edit of its own for each request."""
        shared = self._ready(model)
        settings = Settings(
            self.steps,
            self.lr,
            self.weight_decay,
            self.clamp,
            self.kl_factor,
            self.stop,
            token=self.fact_token,
        )
        found = search(model, self.layer, requests, shared.contexts, settings)
        return [self._write(model, value) for value in found]

    def _ready(self, model: Model) -> Shared:
        """Return what all edits of the model share."""
        if self._shared is None or self._shared.model is not model:
            self.prepare(model)
        assert self._shared is not None
        return self._shared

    def _write(self, model: Model, found: Found) -> Edit:
        left, right = self.update(found)
        return Edit(
            model.architecture.projection(self.layer).low_rank(left[:, None], right[None]),
            info={
                "loss": found.losses[-1][0],
                "steps": len(found.losses) - 1,
                "delta_norm": float(found.delta.norm()),
                "value_norm": float(found.values[0].norm()),
            },
        )

    def update(self, found: Found) -> tuple[Tensor, Tensor]:
        """Return u (inputs) and r (outputs) of the change u rᵀ that writes the pair.

        After it, the key k that `key_mode` names gives exactly the searched value: with W k = o
        before, W'k = o + (k·u) r = v*. Meng et al. (2022), equation 2.
        """
        assert self._shared is not None
        mean, bare = found.keys.mean(0), found.keys[0]
        direction = self._shared.solve(bare if self.key_mode == "bare" else mean)
        direction = (direction / direction.norm()).to(found.keys.dtype)
        value = found.values[0] + found.delta
        if self.key_mode == "mean":
            return direction, (value - found.values.mean(0)) / mean.dot(direction)
        return direction, (value - found.values[0]) / bare.dot(direction)
