"""Checks of what an editor leaves behind: in the model, in the process and in itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from ..edits import Edit
from ..model.model import Model
from .editing import EditorSuite, Interrupted, forward_counter
from .effects import assert_same_answers, same_weights
from .facts import FACTS
from .state import left_alone


class StateChecks(EditorSuite):
    """An edit is data: nothing else may change, and nothing else may matter."""

    def test_leaves_the_model_and_the_process_as_they_were(self, model: Model) -> None:
        """Weights, hooks, modes, the tokenizer and global states stay when requests are written."""
        editor = self.ready(model)
        with left_alone(model):
            first = editor.edit(model, FACTS[:1])
        with left_alone(model):
            editor.extend(model, first, FACTS[1:])
        with left_alone(model):
            editor.edit_each(model, [[fact] for fact in FACTS])

    def test_preparing_leaves_the_model_and_the_process_as_they_were(self, model: Model) -> None:
        """Nor does it do any harm to prepare."""
        assert model.architecture.blocks
        with left_alone(model):
            self.ready(model)

    def test_leaves_the_model_as_it_was_when_interrupted(
        self, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An exception at any forward pass leaves nothing behind."""
        self.ready(model).edit(model, FACTS)
        editor = self.ready(model)
        with monkeypatch.context() as patch:
            passes = forward_counter(model, patch)
            editor.edit(model, FACTS)
        total = passes()
        if not total:
            pytest.skip("this editor runs no forward pass")
        for fail_at in sorted({1, (total + 1) // 2, total}):
            editor = self.ready(model)
            with left_alone(model), monkeypatch.context() as patch:
                forward_counter(model, patch, fail_at)
                with pytest.raises(Interrupted):
                    editor.edit(model, FACTS)

    def test_is_deterministic(self, model: Model) -> None:
        """The same requests give the same edit, whatever the global random states."""
        first, second = (self.edited_under(model, seed) for seed in (1, 2))
        how = "draw random numbers from a generator of your own, seeded by a field"
        assert first.prefix == second.prefix, how
        assert same_weights(first, second), f"two edits of the same requests differ: {how}"
        assert_same_answers(model, first, second, rtol=1e-6, atol=1e-6)

    def edited_under(self, model: Model, seed: int) -> Edit:
        """Return the edit of the facts that is made when all random states begin at a seed."""
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        return self.ready(model).edit(model, FACTS)

    def test_earlier_edits_leave_no_trace_in_the_editor(self, model: Model) -> None:
        """What an edit depends on is the model and its requests, not what was written before."""
        fresh = self.ready(model).edit(model, FACTS[1:])
        used = self.ready(model)
        used.edit(model, FACTS[:1])
        again = used.edit(model, FACTS[1:])
        how = "an editor keeps nothing of its requests; what `extend` needs goes into Edit.state"
        assert again.prefix == fresh.prefix, how
        try:
            assert_same_answers(model, fresh, again, rtol=1e-3, atol=1e-3)
        except AssertionError as error:
            pytest.fail(f"{how}: {error}")
