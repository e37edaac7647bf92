"""What the checks of editors share: a tiny model, the editor made ready, and how it is interrupted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest
import torch

from ..cases import Request
from ..edits import Edit
from ..interfaces import Editor
from ..model.model import Model
from ..registry.presets import configure, shape_of
from .suite import Suite
from .tiny import tiny_model


class EditorSuite(Suite):
    """The base of all checks of editors."""

    editor: Editor
    family: ClassVar[str] = "gpt2"
    """The family of the tiny model: "gpt2" or "llama"."""
    trains: ClassVar[bool] = True
    """Set to False if a random model cannot show the edit's effect, as with prompting."""

    @pytest.fixture
    def model(self) -> Model:
        """Return a fresh tiny model; override it to use another."""
        torch.set_num_threads(1)
        return tiny_model(self.family)

    def ready(self, model: Model) -> Editor:
        """Return a copy of the editor that is configured for the model, checked and prepared."""
        shape = shape_of(model.module.config, model.source.family)
        editor = configure(copy.copy(self.editor), shape, type(self.editor).__name__).editor
        editor.check(model)
        editor.prepare(model)
        return editor

    def edits(self, model: Model, requests: Sequence[Request]) -> Iterator[tuple[str, Edit]]:
        """Yield what every way of editing returns, with the way's name."""
        editor = self.ready(model)
        batches = [[request] for request in requests] + [list(requests)]
        first = editor.edit(model, requests[:1])
        yield "edit() of one request", first
        yield "edit() of several requests", editor.edit(model, requests)
        yield "extend()", editor.extend(model, first, requests[1:])
        for edit in editor.edit_each(model, batches):
            yield "edit_each()", edit

    def skip_unless_trains(self) -> None:
        """Skip what a random model cannot show."""
        if not self.trains:
            pytest.skip("a random model cannot show it")


def forward_counter(
    model: Model, monkeypatch: pytest.MonkeyPatch, fail_at: int = 0
) -> Callable[[], int]:
    """Count the forward passes from now on; raise `Interrupted` instead of number ``fail_at``."""
    forward, count = model.module.forward, 0

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == fail_at:
            raise Interrupted
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.module, "forward", counting)
    return lambda: count


class Interrupted(Exception):
    """What a forward pass raises when a check interrupts an editor."""
