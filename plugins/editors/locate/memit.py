"""MEMIT: mass editing of a memory in a transformer (Meng et al., 2023), and what its kin share.

Section 4: a search finds z, what should leave the last of the edited layers at the subject. Then, from the
lowest layer on, each projection gets the change A Rᵀ that turns its keys K towards a share R of what is
missing. Batches share passes, and a factorisation for each layer. In `Spreading` A is the least-squares
solution (K Kᵀ + M)⁻¹ K for a metric M; for MEMIT, M = λC. Where a sequence remembers its keys K_p, K_p K_pᵀ
is added to M, and `Edit.state` carries them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from edit_harness import FROM_PRESET, ModelShape, PluginError, Preset, Request, UsageError
from edit_harness.edits import UNEDITED, Edit
from edit_harness.interfaces import Origin
from edit_harness.model.model import Model
from edit_harness.registry.settings import Count, Natural, NotNegative, Positive

from .._search import bases
from .._search.bases import Batched, Prepared, in_groups
from .._search.contexts import BARE, checked, fill, sampled
from .._search.suffix import LastTokens, behind, through
from ..covariance import Covariance, covariance
from ..sources import ALPHAEDIT, EASYEDIT, MEMIT, OURS
from .regular import Metric, Remembering, named
from .value_search import Fields, Found, Settings, alike, search
from .windows import Windowed, WindowSearch, cut

STARTS = ("The", "Therefore", "Because", "I", "You")
"""How the sampled contexts begin, one for each."""


@dataclass(frozen=True)
class Shared(bases.Shared):
    """What all edits of one model share."""

    contexts: tuple[str, ...]
    metrics: tuple[Metric, ...]
    """One for each layer."""


@dataclass
class Spreading(Windowed, Remembering, Fields, Batched, Prepared[Shared]):
    """Searches what should leave the last layer, and spreads the change over all of them."""

    layers: tuple[int, ...] = FROM_PRESET
    """The edited layers, the lowest first."""
    moments: tuple[str, ...] = ()
    """Files with the layers' second moments; by default those of the model or of the cache."""
    contexts: tuple[str, ...] = ()
    """Texts with ``{}`` for the prompt, the bare ``{}`` first; by default sampled."""
    context_length: Count = 10
    """Tokens of a sampled context."""
    seed: int = 0
    """Seed of the sampled contexts."""

    command: ClassVar[str]
    """The name by which the editor is asked for, for advice in errors."""
    needs: ClassVar[str] = (
        "a subject in each prompt, or window=N; the second moments of all edited layers' keys"
    )

    @abstractmethod
    def metric(self, model: Model, layer: int, moment: Covariance) -> Metric:
        """Return the metric M of a layer."""

    def directions(self, keys: Tensor, solved: Tensor) -> Tensor:
        """Return A = (K Kᵀ + M)⁻¹ K, width by n, of a batch's keys and of M⁻¹K.

        By Woodbury's identity that is B (I + KᵀB)⁻¹ with B = M⁻¹K, for a single key
        b / (1 + k·b): never a system as large as the layer is wide.
        """
        own = torch.eye(keys.shape[1], dtype=keys.dtype)
        return torch.linalg.solve(own + keys.T @ solved, solved, left=False)

    def changed(self, model: Model) -> tuple[str, ...]:
        """Return the modules that the search changes: the residual stream behind the last layer.

        The first is the one whose output the edit aims at.
        """
        return (model.architecture.blocks[self.layers[-1]],)

    def share(self, left: int) -> float:
        """Return the part of what is missing that a layer takes on, of so many still to edit."""
        return 1 / left

    @property
    def moment_layers(self) -> tuple[int, ...]:
        """The edited layers."""
        return tuple(self.layers)

    def check(self, model: Model) -> None:
        """Raise `PluginError` if the model has no such layers or normalises what they put out.

        Raises `UsageError` for layers out of order.
        """
        if not self.layers or list(self.layers) != sorted(set(self.layers)):
            raise UsageError(
                f"{self.command} edits its layers from the lowest on, not {self.layers}",
                "give them in ascending order: layers=4,5,6",
            )
        for layer in self.layers:
            model.architecture.projection(layer)
        if "post_norm" in model.architecture.flags:
            raise PluginError(
                f"{self.command} adds up what the edited layers put out, but this model "
                "normalises it before it reaches the residual stream",
                "choose an editor of one layer, such as rome",
            )
        if self.changed(model)[0] in model.architecture.blocks:
            behind(model, self.layers[-1])

    def find(self, model: Model) -> Shared:
        """Find the second moments and sample the contexts.

        Raises `DataError` if a layer's second moment is not there.
        """
        metrics, digests = list[Metric](), {}
        moments = covariance(model, self.layers, self.moments, editor=self.command)
        for layer, moment in zip(self.layers, moments, strict=True):
            metrics.append(self.metric(model, layer, moment))
            digests[f"moments.{layer}"] = moment.digest
        given, starts = ((self.context_length,), 1, self.seed), () if self.window else STARTS
        contexts = checked(self.contexts) or (
            BARE, *(sampled(model, *given, start)[1] for start in starts)
        )  # fmt: skip
        return Shared(digests, {"contexts": list(contexts)}, contexts, tuple(metrics))

    def edit_each(self, model: Model, batches: Sequence[Sequence[Request]]) -> list[Edit]:
        """Return an edit for each batch of requests, all found together."""
        return self.spread(model, batches, self.metrics(model))

    def metrics(self, model: Model) -> Sequence[Metric]:
        """Return the metric of each layer, without earlier keys."""
        return self.ready(model).metrics

    def spread(
        self, model: Model, batches: Sequence[Sequence[Request]], metrics: Sequence[Metric]
    ) -> list[Edit]:
        """Return an edit for each batch, with one metric for each layer."""
        if not batches:
            return []
        values = self._search(model, [request for batch in batches for request in batch])
        wanted = torch.stack([found.wanted for found in values])
        heads = [[head for r in batch for head in self._heads(model, r)] for batch in batches]
        sizes = [len(own) for own in heads]
        texts = [text for own in heads for head in own for text in head]
        subjects, edits = LastTokens(model, texts, self.layers[0]), [UNEDITED] * len(batches)
        keys: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            owners = [edit for edit, size in zip(edits, sizes, strict=True) for _ in range(size)]
            seen, now = self._seen(model, subjects, owners, layer)
            missing = (wanted - now) * self.share(len(self.layers) - i)
            keys.append(seen.T.double().cpu())
            solved = metrics[i](keys[-1]).to(keys[-1].device)
            changes = zip(
                edits,
                keys[-1].split(sizes, 1),
                solved.split(sizes, 1),
                missing.split(sizes),
                strict=True,
            )
            projection = model.architecture.projection(layer)
            edits = [
                edit + Edit(self.change(projection, self.directions(own, b).to(rest), rest))
                for edit, own, b, rest in changes
            ]
        infos = iter([found.info for found in values])
        each = [list(islice(infos, size)) for size in sizes]
        by_batch = zip(*(k.split(sizes, 1) for k in keys), strict=True)
        states = [dict(zip(self.states(), own, strict=False)) for own in by_batch]
        return [
            edit + Edit(info={name: fmean(o[name] for o in own) for name in own[0]}, state=state)
            for edit, own, state in zip(edits, each, states, strict=True)
        ]

    def _search(self, model: Model, requests: Sequence[Request]) -> list[Found]:
        """Return what is wanted at each request's subject, or before each of its windows.

        One request does not move another's.
        """
        contexts, layer = self.ready(model).contexts, self.layers[-1]
        given, changed = Settings.of(self), self.changed(model)
        if self.window:
            return WindowSearch(model, layer, contexts, given, changed, self.window)(requests)
        return in_groups(
            alike(model, requests, len(contexts)),
            lambda group: search(
                model, layer, [requests[i] for i in group], contexts, given, changed
            ),
        )

    def _heads(self, model: Model, request: Request) -> list[tuple[tuple[int, ...], ...]]:
        """Return the texts that end where a value is wanted, of each value one for each context."""
        contexts = self.ready(model).contexts
        if not self.window:
            return [tuple(_to_subject(model, request, context) for context in contexts)]
        windows = (cut(model, request, context, self.window) for context in contexts)
        return [tuple(own.prompt for own in each) for each in zip(*windows, strict=True)]

    def _seen(
        self, model: Model, subjects: LastTokens, edits: Sequence[Edit], layer: int
    ) -> tuple[Tensor, Tensor]:
        """Return each request's key at a layer, and what the aim puts out for the bare prompt.

        Both have a row for each request, under the edit that ``edits`` has for it. No edit has
        changed the aim so far. A key is half that of the bare prompt, half the mean of those in the
        other contexts.
        """
        architecture, aim = model.architecture, self.changed(model)[0]
        is_block = aim in architecture.blocks
        source = behind(model, architecture.blocks.index(aim)) if is_block else aim
        count = len(subjects.texts) // len(edits)
        each = [edit for edit in edits for _ in range(count)]
        names = architecture.projection(layer).name, source
        keys, now = (t.view(len(edits), count, -1) for t in subjects.inputs(each, names))
        key = keys[:, 0] if count == 1 else (keys[:, 0] + keys[:, 1:].mean(1)) / 2
        if is_block:
            return key, now[:, 0]
        with torch.no_grad():
            return key, through(model, model.module.get_submodule(aim), now[:, 0])


def _to_subject(model: Model, request: Request, context: str) -> tuple[int, ...]:
    """Return the tokens of a request's prompt in a context, as far as the subject's last one."""
    text, target = fill(context, request.text), request.target_new
    subject = model.tokens.subject_last(request, text, target)
    parts = model.tokens.split(text, target)
    return (parts.prompt + parts.target)[: subject + 1]


def guessed_layers(shape: ModelShape, deep: int = 8) -> range:
    """Return five layers that end where GPT-2's do, or at ``deep`` in other deep models.

    The last block is left out: behind it, no later token looks at the subject.
    """
    last = deep if shape.layers >= 28 and shape.type != "gpt2" else round(0.35 * shape.layers)
    last = max(min(last, shape.layers - 2), 0)
    return range(max(last - 4, 0), last + 1)


MIDDLE = tuple(range(4, 9))
SEARCH = {"steps": 25, "lr": 0.5, "weight_decay": 0.5, "clamp": 0.75}
"""As MEMIT's authors have it for GPT-J."""


def preset(layers: Sequence[int], source: str, origin: Origin = "ported", **values: Any) -> Preset:
    """Return a preset; what is not given is as MEMIT's authors have it for GPT-J."""
    published = {"layers": tuple(layers), **SEARCH, "moment_weight": 15_000}
    return Preset({**published, **values}, source, origin)


def _gpt2(layers: Sequence[int], source: str, origin: Origin) -> Preset:
    return preset(layers, source, origin, steps=20, moment_weight=20_000)


def _easyedit() -> Preset:
    return preset(MIDDLE, EASYEDIT, weight_decay=1e-3, clamp=4.0)


@dataclass
class Memit(Spreading):
    """Writes all requests of a batch by least squares over what the layers hold already."""

    moment_weight: Positive = FROM_PRESET
    """λ: what the second moment counts against a request's key."""
    past: bool = False
    """Whether the metric of a sequence is λC + K_p K_pᵀ, with the keys K_p of its earlier requests:
    MEMIT_seq, by AlphaEdit's authors."""
    encore: NotNegative = 0.0
    """n: the metric of a sequence is λC + n·I + K_p K_pᵀ, as in ENCORE, where n is 20 for Llama 3 and 10
    for GPT-2 XL; 0 is off."""
    patience: Natural = 0
    """Steps of the search from where each target token is the likeliest in all contexts; in ENCORE 2 for
    Llama 3, 4 for GPT-2 XL; 0 is no such end."""

    command: ClassVar[str] = "memit"
    presets: ClassVar = {
        "pocket": preset((0, 1), OURS, "tuned", clamp=1.0, moment_weight=30),
        "pocket-context": preset((0, 1), OURS, "tuned", clamp=1.0, moment_weight=30),
        "gpt2-medium": _gpt2(range(4, 9), "the layers that end at ROME's", "guessed"),
        "gpt2-large": _gpt2(range(8, 13), "the layers that end at ROME's", "guessed"),
        "gpt2-xl": _gpt2(range(13, 18), MEMIT, "paper"),
        "gpt-j-6b": preset(range(3, 9), MEMIT, "paper"),
        "llama-2-7b": _easyedit(),
        "mistral-7b": _easyedit(),
        "llama-3-8b": preset(MIDDLE, ALPHAEDIT, lr=0.1),
        "qwen2-7b": _easyedit(),
        "qwen2.5-7b": _easyedit(),
    }
    citation: ClassVar[str] = "Meng et al. (2023), Mass-Editing Memory in a Transformer"

    def guess(self, shape: ModelShape) -> Preset:
        """Return layers by depth, and the rest as for GPT-2 XL or GPT-J."""
        made = _gpt2 if shape.type == "gpt2" else preset
        return made(guessed_layers(shape), "layers by depth, the rest as published", "guessed")

    @property
    def variant(self) -> str:
        """Name the fields that are on."""
        on = {
            "past": self.past and not self.encore,
            f"encore={self.encore:g}": self.encore > 0,
            f"patience={self.patience}": self.patience > 0,
        }
        return named(on, super().variant)

    @property
    def remembers(self) -> bool:
        """Whether `past` or `encore` is on."""
        return self.past or self.encore > 0

    def metric(self, model: Model, layer: int, moment: Covariance) -> Metric:
        """Return λC, Meng et al. (2023), equation 14; for ENCORE λC + n·I = λ (C + n/λ·I)."""
        if self.encore:
            wide = moment.matrix.double()
            ridge = self.encore / self.moment_weight * torch.eye(len(wide)).to(wide)
            moment = replace(moment, matrix=wide + ridge)
        return Metric(moment.solver(), self.moment_weight)
