"""Checks of an editor in a run: every case ends with a status, and a failure stays with its case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ..cases import Request
from ..edits import Edit
from ..folder.records import OK, Record
from ..interfaces import Editor, Regime
from ..model.model import Model
from ..run import measure, plan
from .editing import EditorSuite, Interrupted, forward_counter
from .facts import FACTS, ODD, TOO_LONG, as_cases

REGIMES = (Regime(), Regime("batch", 2), Regime("sequential", immediate=True))


class RunChecks(EditorSuite):
    """A run asks for statuses: none of its cases may be lost, or take others with it."""

    @pytest.mark.parametrize("regime", REGIMES, ids=lambda regime: regime.mode)
    def test_every_case_of_a_run_is_ok(self, model: Model, regime: Regime) -> None:
        """Each case is edited, asked and recorded, in every regime."""
        requests = (*FACTS, ODD[0])
        records = records_of(model, self.ready(model), requests, regime)
        assert {record.case for record in records} == {c.id for c in as_cases(requests)}
        for record in records:
            assert_ok(record)
            json.dumps([record.edit, record.after], allow_nan=False)

    def test_a_failure_stays_with_its_case(
        self, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An editor that is interrupted fails for that case, and does the next as if nothing was."""
        requests = (FACTS[0], ODD[0], FACTS[1])
        sound = records_of(model, self.ready(model), requests)
        stumbling = Stumbling(self.ready(model), requests[1], monkeypatch)
        found = records_of(model, stumbling, requests)
        assert [record.status for record in found] == [OK, "edit_failed", OK]
        for one, two in ((sound[0], found[0]), (sound[2], found[2])):
            np.testing.assert_allclose(
                numbers(one.after), numbers(two.after), rtol=1e-4, atol=2e-5,
                err_msg="an edit after a failed one is another than without it: keep no state",
            )  # fmt: skip

    def test_what_cannot_be_written_is_a_status(self, model: Model) -> None:
        """A request that has no room in the model fails for itself, and is no crash of the run."""
        requests = (FACTS[0], TOO_LONG, FACTS[1])
        first, hopeless, last = records_of(model, self.ready(model), requests)
        assert_ok(first)
        assert_ok(last)
        told = hopeless.status == OK or hopeless.message
        assert told, f"{hopeless.status} without a message: raise an error that says what is wrong"
        assert hopeless.status != "nonfinite", "raise an error rather than return NaN"


class Stumbling(Editor):
    """An editor that is interrupted, at its first forward pass, when it gets a certain request."""

    def __init__(self, editor: Editor, where: Request, monkeypatch: pytest.MonkeyPatch) -> None:
        self.editor, self.where, self.monkeypatch = editor, where, monkeypatch

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        """Edit, or be interrupted."""
        if self.where not in requests:
            return self.editor.edit(model, requests)
        with self.monkeypatch.context() as patch:
            forward_counter(model, patch, fail_at=1)
            self.editor.edit(model, requests)
        raise Interrupted


def records_of(
    model: Model, editor: Editor, requests: Sequence[Request], regime: Regime = REGIMES[0]
) -> list[Record]:
    """Run a case of each request, one chunk for each case if they are edited one by one."""
    steps = plan.steps(as_cases(requests), regime)
    chunk = 1 if regime.mode == "single" else None
    return list(measure.run(model, editor, steps, {}, size=chunk))


def assert_ok(record: Record) -> None:
    """Fail if a case of a run failed."""
    assert record.status == OK, f"{record.case} is {record.status}: {record.message}"


def numbers(answers: Sequence[Any]) -> list[float]:
    """Return the numbers of stored answers."""
    scores, divergence = answers
    return [*(value for part in scores["logprobs"] for value in part), *divergence[:2]]
