"""A causal language model that answers queries, each under its own edit.

There is one evaluation route: `Model.answer` lays the queries out as rows, rows of many edits and
of none share a forward pass, and hooks give each row the effect of its own edit. Weights are
never written but by `Model.applied`, for edits that hooks cannot carry; it restores their bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from edit_harness import digests, packing, resume
from edit_harness.architectures import LINEAR, Architecture
from edit_harness.batch import Batch, padded
from edit_harness.cases import Answer, Query
from edit_harness.edits import Edit
from edit_harness.errors import PluginError
from edit_harness.hooks import Places, at_least_fp32, editing, gathering, owner
from edit_harness.interfaces import ModelSource
from edit_harness.packing import Tree
from edit_harness.tokens import Tokens
from edit_harness.worksheet import Read, Reading, Row, Worksheet

BATCH_TOKENS = 4096


class Model:
    """A model of transformers and its tokenizer.

    ``batch_rows`` limits the rows of a forward pass and ``batch_tokens`` its padded tokens.
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
    ) -> None:
        self.module = module.eval().requires_grad_(False)
        self.source = source or ModelSource("")
        self.architecture = Architecture(module)
        self.tokens = Tokens(tokenizer, self.architecture.max_positions)
        self.batch_rows = batch_rows
        self.batch_tokens = batch_tokens
        self.padding = padding
        self._resumes: dict[int, bool] = {}
        self._takes_positions = "position_ids" in inspect.signature(module.forward).parameters

    @property
    def name(self) -> str:
        """A short name for tables and folders."""
        return self.source.family or Path(self.source.path).name or "model"

    @property
    def device(self) -> torch.device:
        """Where the inputs go."""
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.module.parameters()).dtype

    @cached_property
    def digest(self) -> str:
        """What identifies the weights and the configuration; see `digests.of_module`."""
        return digests.of_module(self.module)

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

        ``parameters`` stand in for the model's own of the same name, and carry gradients; ``cache``
        has keys and values that stand before the batch.
        """
        inputs: dict[str, Any] = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if self._takes_positions:
            inputs["position_ids"] = batch.position_ids
        inputs["use_cache"] = False
        if cache is not None:
            inputs["past_key_values"] = cache
        head = self.architecture.head
        # An edit of the head finds its rows in whole rows only.
        gathers = self.architecture.gathers and not head._forward_hooks
        with gathering(head, read) if gathers else nullcontext():
            out = functional_call(self.module, dict(parameters or {}), kwargs=inputs).logits
        return at_least_fp32(out[0] if gathers else out[read.rows, read.columns])

    @contextmanager
    def applied(self, edit: Edit) -> Iterator[None]:
        """Write the edit's weights into the model for a while; restores the very bits.

        The edit's adaptors and prefix are left to the queries: see `Edit.without_weights`. Raises
        `PluginError` for an edit that does not fit the model.
        """
        self.check(edit)
        originals: dict[str, Tensor] = {}
        try:
            with ExitStack() as stack:
                with torch.no_grad():
                    for name, delta in edit.weights.items():
                        weight = self.parameter(name)
                        originals[name] = weight.detach().clone()
                        weight.add_(delta.dense().to(weight))
                if edit.patch:
                    stack.enter_context(edit.patch(self.module))
                yield
        finally:
            with torch.no_grad():
                # Backwards: two names may be of one tied parameter.
                for name, original in reversed(originals.items()):
                    self.parameter(name).copy_(original)

    def parameter(self, name: str) -> nn.Parameter:
        """Return a parameter by name. Raises `PluginError` if the model has none of that name."""
        try:
            return self.module.get_parameter(name)
        except AttributeError:
            raise PluginError(f"the model has no parameter {name!r}") from None

    def check(self, edit: Edit) -> None:
        """Raise `PluginError` if the edit is of parameters or modules that this model has not."""
        for name, delta in edit.weights.items():
            if (shape := self.parameter(name).shape) != delta.shape:
                raise PluginError(
                    f"the edit of {name} has the shape {tuple(delta.shape)}, not {tuple(shape)}",
                    "make it with Projection.low_rank or Projection.dense",
                )
        for name in edit.adaptors:
            try:
                self.module.get_submodule(name)
            except AttributeError:
                raise PluginError(f"the model has no module {name!r}") from None

    def carries(self, edit: Edit) -> bool:
        """Tell whether rows of this edit can share a batch with rows of others, by hooks."""
        return edit.patch is None and all(name in self._hookable for name in edit.weights)

    def answer(self, questions: Sequence[tuple[Edit, Query]]) -> list[Answer]:
        """Answer each query under its own edit, in order.

        Raises `TooLongError` for a text that does not fit the model.
        """
        from edit_harness.generation import generate_all

        sheet = Worksheet(self.tokens, questions)
        for held, rows in self._groups(sheet.rows):
            with self.applied(held):
                for trees in self._lines(rows):
                    sheet.readings |= self._read(trees, alone=not held.touches_nothing)
        return sheet.answers(generate_all(self, questions))

    def _groups(self, rows: Sequence[Row]) -> Iterator[tuple[Edit, list[Row]]]:
        """Yield rows that can run together, with the edit to write into the weights for them."""
        alone = {id(row.edit): row.edit for row in rows if not self.carries(row.edit)}
        yield Edit(), [row for row in rows if id(row.edit) not in alone]
        for key, edit in alone.items():
            yield edit, [row for row in rows if id(row.edit) == key]

    def _lines(self, rows: Sequence[Row]) -> Iterator[list[Tree]]:
        """Yield batches of trees: rows of one edit together where the model allows it."""
        together: dict[int, list[Row]] = {}
        alone: list[Tree] = []
        for row in rows:
            if self.packs and not row.edit.adaptors and len(row.ids) <= self._window:
                together.setdefault(id(row.edit), []).append(row)
            else:
                alone += packing.grow([row])
        trees = [tree for group in together.values() for tree in packing.grow(group)]
        yield from packing.batches(trees, self.batch_tokens, self.batch_rows)
        yield from packing.batches(alone, self.batch_tokens, self.batch_rows)

    @torch.no_grad()
    def _read(self, trees: Sequence[Tree], *, alone: bool) -> dict[tuple[Row, int], Reading]:
        """Run one batch and keep what its reads ask for.

        ``alone`` says that the weights hold the rows' edit already.
        """
        firsts = [tree.rows[0][0] for tree in trees]
        batch = self._batch_of(trees)
        reads = [(i, read) for i, tree in enumerate(trees) for read in tree.reads().values()]
        places = batch.places([i for i, _ in reads], [read.position for _, read in reads])
        edits = [row.edit.without_weights() if alone else row.edit for row in firsts]
        with self.edited_rows(batch, edits, [row.prompt_length for row in firsts]):
            logits = self.logits(batch, places)
        found = {
            (i, read.position): Reading.of(line, read)
            for (i, read), line in zip(reads, logits, strict=True)
        }
        return {
            (row, position): found[i, path[position]]
            for i, tree in enumerate(trees)
            for row, path in tree.rows
            for position in row.reads
        }

    def _batch_of(self, trees: Sequence[Tree]) -> Batch:
        """Return trees as a batch: with a mask of their own unless each is a single text."""
        if all(tree.is_chain for tree in trees):
            return self.batch([tree.tokens for tree in trees])
        ids, positions, mask = packing.padded(trees, self.dtype)
        starts = torch.zeros(len(trees), dtype=torch.long)
        return Batch(*(t.to(self.device) for t in (ids, mask, starts, positions)))

    @cached_property
    def packs(self) -> bool:
        """Whether a tree of texts is answered as the texts alone; found by trying one.

        The trial has texts that part at once, late and not at all, of several lengths.
        """
        if not self._takes_positions:
            return False
        size = self.architecture.config.vocab_size
        texts = [(1, 2, 3, 4, 5), (1, 2, 3, 6), (1, 2, 3, 4), (7, 8, 3, 4, 5, 6, 1, 2)]
        rows = []
        for text in texts:
            ids = tuple(token % size for token in text)
            last = Read(len(ids) - 1, whole=True)
            rows.append(Row(Edit(), ids, len(ids), {last.position: last}))
        try:
            (together,) = packing.grow(rows)
            packed = self._read([together], alone=False)
        except (RuntimeError, ValueError, TypeError, IndexError):
            return False
        apart = {
            k: v for row in rows for k, v in self._read(packing.grow([row]), alone=False).items()
        }
        pairs = [(packed[key].whole, reading.whole) for key, reading in apart.items()]
        worst = max(float((a - b).abs().max()) for a, b in pairs if a is not None and b is not None)
        return worst <= packing.TRIAL_TOLERANCE[self.dtype]

    def resumes(self, layer: int, longest: int) -> bool:
        """Tell whether passes over texts of so many tokens can begin at a layer.

        See `edit_harness.resume`.
        """
        if layer not in self._resumes:
            self._resumes[layer] = resume.fits(self, layer)
        return self._resumes[layer] and longest <= self._window

    @cached_property
    def _window(self) -> float:
        """Longest text whose tokens may all see each other."""
        window = getattr(self.architecture.config, "sliding_window", None)
        return window or float("inf")

    @contextmanager
    def edited_rows(
        self, batch: Batch, edits: Sequence[Edit], prompt_lengths: Sequence[int]
    ) -> Iterator[None]:
        """Give each row of the coming passes over a batch the effect of its own edit."""
        for edit in {id(edit): edit for edit in edits}.values():
            self.check(edit)
        columns = torch.arange(batch.ids.shape[1], device=self.device)
        last = batch.starts + torch.tensor(prompt_lengths, device=self.device) - 1
        with editing(self.module, edits, columns[None] - last[:, None]):
            yield

    @cached_property
    def _hookable(self) -> frozenset[str]:
        """Names of the parameters of linear maps that no other module shares."""
        names: dict[int, list[str]] = {}
        for name, parameter in self.module.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        single = (group[0] for group in names.values() if len(group) == 1)
        return frozenset(
            n
            for n in single
            if n.rpartition(".")[2] in ("weight", "bias")
            and isinstance(self.module.get_submodule(owner(n)), LINEAR)
        )
