"""A causal language model that answers queries, each under its own edit.

`Model.answer` lays the queries out as rows; rows of many edits share a forward pass, in which hooks
give each row the effect of its own edit. `Model.applied` alone writes weights, for edits that hooks
cannot carry, and restores their bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..data import Answer, Query, Request
from ..edits import UNEDITED, Adaptor, Edit, Prompter
from ..errors import PluginError
from ..files import cache_folder
from ..interfaces import ModelSource
from . import reuse, weights
from .architecture import Architecture
from .batch import Batch, QueryBatch, TokenRow, padded
from .generate import generate_all, pads
from .hooks import Places, at_least_fp32, blaming, device_of, editing, gathering
from .packing import Pass, Tree, packs, run_trees, trees_of
from .reuse import CleanTexts, Start
from .tokens import PLAIN, Frame, Tokens

BATCH_TOKENS = 4096
HOLD_IT = "use a device or a device map that holds the model, such as --device cpu"


class Model:
    """A model of transformers and its tokenizer.

    ``batch_rows`` limits the rows of a forward pass, and ``batch_tokens`` its padded tokens, halved
    where memory does not suffice, ``halved`` times so far. ``frame`` is what stands
    around prompts, such as a chat template. ``let_in`` says what was allowed to load the model.
    Raises `DataError` if the module is no causal language model or answers with NaN.
    """

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        *,
        source: ModelSource | None = None,
        batch_rows: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        padding: Literal["right", "left"] = "right",
        frame: Frame = PLAIN,
        let_in: Mapping[str, str] | None = None,
    ) -> None:
        self.module = module.eval().requires_grad_(False)
        self.source = source or ModelSource("")
        self.let_in = dict(let_in or {})
        self.architecture = Architecture(module)
        limit = getattr(self.architecture.config, "max_position_embeddings", None)
        self.tokens = Tokens(tokenizer, limit, frame)
        self.batch_rows, self.batch_tokens, self.padding = batch_rows, batch_tokens, padding
        self.halved = 0
        self._identity: tuple[dict[str, Any], str] | None = None
        self._starts_at: dict[int, bool] = {}
        self._prepared: WeakValueDictionary[int, Adaptor | Prompter] = WeakValueDictionary()
        self.takes = frozenset(inspect.signature(module.forward).parameters)

    @property
    def name(self) -> str:
        """A short name for tables and folders."""
        name = self.source.family or Path(self.source.path).name or "model"
        return f"{name}[chat]" if self.tokens.chats else name

    @property
    def device(self) -> torch.device:
        """Where inputs go, and logits come; other parts may compute elsewhere."""
        return device_of(self.module)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.module.parameters()).dtype

    @property
    def precision(self) -> str:
        """What passes compute in: the dtype, or ``tf32`` where matrix products round to that."""
        rounds = self.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
        return "tf32" if rounds and self.dtype == torch.float32 else str(self.dtype)[6:]

    @property
    def digest(self) -> str:
        """What identifies the weights as they are: a digest of their files, or `weights.of_module`."""
        marks = weights.marks(self.module)
        if self._identity is None or self._identity[0] != marks:
            self._identity = marks, weights.of_module(self.module)
        return self._identity[1]

    def cache(self, kind: str) -> Path:
        """Return the cache's folder for what was made for these weights."""
        return cache_folder() / kind / self.digest[:16]

    def identify(self, digest: str) -> None:
        """Take the digest of the files that the weights were loaded from."""
        self._identity = weights.marks(self.module), digest

    def batch(self, rows: Sequence[Sequence[int]]) -> Batch:
        """Pad rows of token ids to one width."""
        return padded(rows, left=self.padding == "left", device=self.device)

    def logits(
        self,
        batch: Batch,
        read: Places,
        parameters: Mapping[str, Tensor] | None = None,
        cache: Any = None,
    ) -> Tensor:
        """Return logits at the places, places by vocabulary, in fp32 or more.

        ``parameters`` replace the model's own of the same name, and carry gradients; ``cache`` has
        the keys and values of tokens before the batch. Raises `PluginError` for an offloaded
        parameter, which cannot be replaced.
        """
        if name := next((n for n in parameters or () if self._own(n).is_meta), ""):
            raise PluginError(f"{name} is offloaded, so that it has no gradient", HOLD_IT)
        inputs: dict[str, Any] = {"input_ids": batch.ids, "attention_mask": batch.mask}
        inputs["use_cache"] = False
        if "position_ids" in self.takes:
            inputs["position_ids"] = batch.position_ids
        if cache is not None:
            inputs["past_key_values"] = cache
        head = self.architecture.head
        # An edit of the head finds its rows in whole rows only.
        gathers = self.architecture.gathers and not head._forward_hooks
        with ExitStack() as stack:
            if gathers:
                stack.enter_context(self.architecture.narrowing(read))
                stack.enter_context(gathering(head, read))
            if torch.is_grad_enabled() and any(p.is_meta for p in self.module.parameters()):
                # A device that has no room for the weights has none for what passes back need of them.
                stack.enter_context(torch.autograd.graph.save_on_cpu())
            out = functional_call(self.module, dict(parameters or {}), kwargs=inputs).logits
        found = out[0] if gathers else out[read.on(out.device)]
        return at_least_fp32(found).to(self.device)

    def nll(
        self, requests: Sequence[Request], parameters: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Return the loss of each request in nats: the mean of -log p over its target's tokens.

        ``parameters`` are as in `logits`, and give the loss a gradient; all requests share a pass.
        """
        parts = [self.tokens.split(r.text, r.target_new) for r in requests]
        batch = self.batch([part.inputs for part in parts])
        spots = [(row, place) for row, part in enumerate(parts) for place in part.places]
        wanted = torch.tensor([t for part in parts for t in part.target], device=self.device)
        logits = self.logits(batch, batch.places(*zip(*spots, strict=True)), parameters)
        losses = torch.nn.functional.cross_entropy(logits, wanted, reduction="none")
        return torch.stack([each.mean() for each in losses.split([len(p.target) for p in parts])])

    @contextmanager
    def applied(self, edit: Edit) -> Iterator[None]:
        """Write the edit's weights into the model for a while, and apply its patch; restore the bits.

        Adaptors and a prefix have no effect here, but in `answer` and in `edited_rows` alone. Raises
        `PluginError` for an edit that does not fit the model, and for a patch of offloaded weights.
        """
        self.check(edit)
        offloaded = (name for name, p in self.module.named_parameters() if p.is_meta)
        if edit.patch and (name := next(offloaded, "")):
            raise PluginError(
                f"{name} is offloaded, so that a patch of the model may have no effect on it",
                HOLD_IT,
            )
        with ExitStack() as stack:
            for name, delta in edit.weights.items():
                stack.enter_context(weights.added(self.module, name, delta.dense()))
            if edit.patch:
                stack.enter_context(edit.patch(self.module))
            yield

    @property
    def size(self) -> int:
        """How many numbers the weights are; a weight of several names counts once."""
        groups = weights.same_weights(self.module)
        return sum(self.module.get_parameter(names[0]).numel() for names in groups)

    def parameter(self, name: str) -> nn.Parameter:
        """Return a parameter by name; of an offloaded one, a copy. Raises `PluginError` for none."""
        parameter = self._own(name)
        if not parameter.is_meta:
            return parameter
        return nn.Parameter(weights.value(self.module, name), requires_grad=False)

    def _own(self, name: str) -> nn.Parameter:
        try:
            return self.module.get_parameter(name)
        except AttributeError:
            raise PluginError(f"the model has no parameter {name!r}") from None

    def check(self, edit: Edit) -> None:
        """Raise `PluginError` if the edit does not fit the model; prepare adaptors that are new to it."""
        for name, delta in edit.weights.items():
            if (shape := self._own(name).shape) != delta.shape:
                raise PluginError(
                    f"the edit of {name} has the shape {tuple(delta.shape)}, not {tuple(shape)}",
                    "make it with Projection.low_rank or Projection.dense",
                )
        for name in edit.adaptors:
            try:
                self.module.get_submodule(name)
            except AttributeError:
                raise PluginError(f"the model has no module {name!r}") from None
        prompters = () if isinstance(edit.prefix, str) else (edit.prefix,)
        for part in (*edit.adaptors.values(), *prompters):
            if hasattr(part, "prepare") and id(part) not in self._prepared:
                with blaming(part, "failed to prepare for the model"):
                    part.prepare(self)
                self._prepared[id(part)] = part

    def carries(self, edit: Edit) -> bool:
        """Tell whether rows of this edit can share a batch with rows of others, by hooks."""
        return edit.patch is None and edit.weights.keys() <= self.architecture.hookable

    def answer(
        self, questions: Sequence[tuple[Edit, Query]], base: CleanTexts | None = None
    ) -> list[Answer]:
        """Answer each query under its own edit, in order.

        ``base`` has the unedited texts of earlier calls, and keeps those of this one. Raises
        `TooLongError` for a text that does not fit the model.
        """
        for edit in dict.fromkeys(edit for edit, _ in questions):
            self.check(edit)
        batch = QueryBatch(self.tokens, questions)
        base = base or CleanTexts(self)
        edited = [row for row in batch.rows if row.edit is not UNEDITED]
        mine = dict.fromkeys(row.edit for row in edited)
        starts = {edit: reuse.start_of_edit(self, edit) for edit in mine}
        clean = [row for row in batch.rows if row.edit is UNEDITED]
        base.read(clean, {start for start in starts.values() if start})
        groups: dict[tuple[Edit, Start | None], list[TokenRow]] = {}
        for row in edited:
            held = UNEDITED if self.carries(row.edit) else row.edit
            groups.setdefault((held, starts[row.edit]), []).append(row)
        for (held, start), rows in groups.items():
            with self.applied(held):
                self._read(rows, base, start, held)
        return batch.answers(generate_all(self, questions))

    @torch.no_grad()
    def _read(
        self, rows: Sequence[TokenRow], base: CleanTexts, start: Start | None, held: Edit
    ) -> None:
        """Run edited rows from a block on; ``held`` is the edit that the weights hold already."""

        def run(trees: Sequence[Tree]) -> None:
            ran = Pass.of(self, trees)
            firsts = [tree.rows[0][0] for tree in trees]
            edits = [r.edit if held is UNEDITED else r.edit.without_weights() for r in firsts]
            hidden = base.entry(ran, start, edits) if start else None
            with ExitStack() as stack:
                lengths = [row.prompt_length for row in firsts]
                stack.enter_context(self.edited_rows(ran.batch, edits, lengths))
                if start and hidden is not None:
                    stack.enter_context(reuse.start_at_block(self, start.block, hidden))
                ran.take(self.logits(ran.batch, ran.places), base.predictions)

        run_trees(self, trees_of(self, rows), run)

    def starts_at(self, block: int) -> bool:
        """Tell whether passes can begin at a block, by one trial."""
        if block not in self._starts_at:
            self._starts_at[block] = reuse.can_start(self, block)
        return self._starts_at[block]

    @cached_property
    def packs(self) -> bool:
        """Whether a tree of texts is answered as the texts alone, by a trial."""
        return "position_ids" in self.takes and packs(self)

    @cached_property
    def pads(self) -> bool:
        """Whether texts of several lengths are continued together as alone, by a trial."""
        return pads(self)

    def sees(self, longest: int) -> bool:
        """Tell whether all tokens of so long a text see each other, so that it can be in a tree."""
        config = self.architecture.config
        windows = (getattr(config, name, None) for name in ("sliding_window", "window_size"))
        return self.packs and all(not window or longest <= window for window in windows)

    @property
    def revision(self) -> str:
        """The commit that its files are of, if they are of the hub; else empty."""
        return getattr(self.architecture.config, "_commit_hash", None) or ""

    def edited_rows(
        self, batch: Batch, edits: Sequence[Edit], prompt_lengths: Sequence[int]
    ) -> AbstractContextManager[None]:
        """Give each row of the coming passes over a batch the effect of its own edit."""
        for edit in dict.fromkeys(edits):
            self.check(edit)
        return editing(self.module, batch, edits, prompt_lengths)
