"""Windows of a long target: AnyEdit's search (Jiang et al., 2025), for editors that aim at values.

The target is cut into windows of so many tokens. Each has a value of its own, at the last token before it,
which is searched under the changes that the windows before have found; then all are written as one batch. No
subject is looked for and no essence prompt is read. As in the authors' code only the bare prompt is learned,
unless contexts are given; unlike there, the metric does not count the keys of the tokens between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from edit_harness import Editor, Request
from edit_harness.model.hooks import Places
from edit_harness.model.model import Model
from edit_harness.model.tokens import Continuation
from edit_harness.registry.settings import Natural

from .._search.bases import in_groups
from .._search.contexts import fill
from .._search.suffix import SuffixForward
from .._search.texts import of_kinds
from .regular import named
from .value_search import Found, Objective, Row, Settings, descend


@dataclass
class Windowed(Editor):
    """An editor that may cut targets into windows."""

    window: Natural = 0
    """Tokens of a window, from the last token before which each is written: AnyEdit, where it is 40;
    requests need no subject then. 0 writes the whole target from the subject on."""

    @property
    def takes(self) -> frozenset[str]:  # type: ignore[override]
        """A subject, unless there are windows."""
        return frozenset() if self.window else frozenset({"subject"})

    @property
    def variant(self) -> str:
        """Name the field if it is on."""
        return named({f"window={self.window}": self.window > 0}, super().variant)


def cut(model: Model, request: Request, context: str, size: int) -> list[Continuation]:
    """Return the windows of a target, each as what stands before it and its own tokens."""
    whole = model.tokens.split(fill(context, request.text), request.target_new)
    return [
        Continuation(whole.prompt + whole.target[:start], whole.target[start : start + size])
        for start in range(0, len(whole.target), size)
    ]


class LaterForward(SuffixForward):
    """Passes that begin at the first window, and change what is behind the windows before."""

    earlier: Sequence[Tensor]
    """What is added to each changed module before, texts by tokens by width."""

    def only(self, texts: Sequence[int]) -> Self:
        """Return the passes of some of the texts, by index."""
        fewer = super().only(texts)
        fewer.earlier = [change[list(texts)] for change in self.earlier]
        return fewer

    def logits(self, read: Places, *changes: Tensor) -> Tensor:
        """Return logits at places under the earlier changes and a change of the token behind them."""
        pairs = zip(self.earlier, changes, strict=True)
        return super().logits(read, *(torch.cat(pair, 1) for pair in pairs))


@dataclass(frozen=True)
class WindowSearch:
    """Finds the values of windows in one layer's block, with what `value_search.search` is given."""

    model: Model
    layer: int
    contexts: Sequence[str]
    given: Settings
    changed: Sequence[str]
    size: int

    def __call__(self, requests: Sequence[Request]) -> list[Found]:
        """Return the values of all windows, request by request."""
        windows = [[cut(self.model, r, c, self.size) for c in self.contexts] for r in requests]
        counts = [len(bare) for bare, *_ in windows]
        lengths = [len(own[0][-1].prompt + own[0][-1].target) for own in windows]
        groups = of_kinds(self.model, counts, lengths, len(self.contexts))
        found = in_groups(groups, lambda group: self._together([windows[i] for i in group]))
        return [each for own in found for each in own]

    def _together(self, windows: Sequence[Sequence[Sequence[Continuation]]]) -> list[list[Found]]:
        """Search window after window for requests that have equally many; each by context, by window."""
        found = list[list[Found]]()
        earlier: Tensor | None = None
        for number in range(len(windows[0][0])):
            texts = [[own[number] for own in request] for request in windows]
            starts = [len(own[0].prompt) - 1 for request in windows for own in request]
            own, delta = self._window(texts, starts, earlier)
            found.append(own)
            gap = delta.new_zeros(*delta.shape[:2], self.size - 1, delta.shape[2])
            known = [delta[:, :, None], gap]
            earlier = torch.cat(known if earlier is None else [earlier, *known], 2)
        return [list(each) for each in zip(*found, strict=True)]

    def _window(
        self,
        texts: Sequence[Sequence[Continuation]],
        starts: Sequence[int],
        earlier: Tensor | None,
    ) -> tuple[list[Found], Tensor]:
        """Return the values of one window of each request, and their δ, requests by modules by width.

        ``earlier`` is what is added from the first window on, requests by modules by tokens by width.
        """
        count, contexts = len(texts), len(self.contexts)
        rows = [
            Row(text.inputs, tuple(text.places), text.target, len(text.prompt) - 1, i)
            for i, own in enumerate(texts)
            for text in own
        ]
        ids = [row.ids for row in rows]
        again = LaterForward(self.model, self.layer, ids, starts, changed=self.changed)
        at = rows[0].place - starts[0]
        values = [seen.view(count, contexts, -1) for seen in again.values(at)]
        clean = torch.stack([value[:, 0] for value in values], dim=1)
        before = (
            clean.new_zeros(*clean.shape[:2], 0, clean.shape[2]) if earlier is None else earlier
        )
        again.earlier = before[[row.owner for row in rows]].unbind(1)
        given = replace(self.given, kl_factor=0.0)
        objective = Objective(rows, clean.norm(dim=2), contexts, given)
        delta, losses = descend(again, objective, torch.zeros_like(clean))
        keys = again.keys[:, at].view(count, contexts, -1)
        parts = zip(keys, values[0], delta[:, 0], map(tuple, losses), strict=True)
        return [Found(*each) for each in parts], delta
