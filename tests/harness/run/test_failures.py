"""What errors are called, and the runs that they end: time, memory, devices, plugins."""

import pytest
import torch
from support.loops import CASES, Push, ran, worked

from edit_harness.edits import Edit
from edit_harness.errors import PluginError, ResourceError
from edit_harness.folder.record import STATUSES
from edit_harness.interfaces import Regime
from edit_harness.model.tokens import TooLongError
from edit_harness.run import failures
from edit_harness.run.clean import CleanPass
from edit_harness.run.failures import DeviceLostError, NoEditError
from edit_harness.run.plan import steps

LOST = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

PLAN = list(steps(CASES, Regime()))


def same(records, expected):
    assert {r.status for r in records} == {"ok"}
    for one, other in zip(records, expected, strict=True):
        assert one.values["probability"] == pytest.approx(other.values["probability"], abs=1e-4)


@pytest.mark.parametrize(
    ("error", "edit", "expected"),
    [
        (TooLongError("9 tokens"), False, "too_long"),
        (torch.OutOfMemoryError(), False, "oom"),
        (MemoryError(), True, "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True, "oom"),
        (NoEditError("the editor returned None"), True, "plugin_error"),
        (PluginError("no parameter"), False, "plugin_error"),
        (PluginError("a request like this has no edit"), True, "edit_failed"),
        (torch.linalg.LinAlgError("singular"), True, "edit_failed"),
        (ValueError("no key"), False, "error"),
    ],
)
def test_an_error_has_a_status(error, edit, expected):
    status, message = failures.status(error, object(), edit=edit)
    assert status == expected
    assert status in STATUSES
    assert message


@pytest.mark.parametrize("error", [LOST, RuntimeError("CUDA error: device-side assert triggered")])
def test_a_device_that_failed_is_told_from_other_errors(error):
    with pytest.raises(DeviceLostError):
        failures.check_device(error)
    failures.check_device(ValueError("CUDA error"))
    failures.check_device(torch.OutOfMemoryError("CUDA error: out of memory"))


@pytest.mark.parametrize("stage", ["edit", "evaluation"])
def test_a_device_that_failed_ends_the_run_without_rows_of_what_was_at_work(model, stage):
    class Breaks(Push):
        def edit(self, model, requests):
            def fail(inputs, outputs, rows):
                raise LOST

            if requests[0].subject != "Ann":
                return super().edit(model, requests)
            if stage == "edit":
                raise LOST
            return Edit({}, {model.architecture.projection(1).name: fail})

    chunks = worked(model, Breaks(), PLAN, size=2)
    assert [(r.case, r.status) for r in next(chunks)] == [("Ada", "ok"), ("Bob", "ok")]
    with pytest.raises(ResourceError, match="illegal memory access") as caught:
        next(chunks)
    assert caught.value.code == 5


@pytest.mark.parametrize("nth", [1, 4, 10, 19])
def test_wherever_memory_is_short_for_once_the_numbers_stay(model, monkeypatch, nth):
    expected = ran(model, Push())
    plain, count = type(model).logits, iter(range(1, 10**6))

    def short(self, *args, **kwargs):
        if next(count) == nth:
            raise torch.OutOfMemoryError
        return plain(self, *args, **kwargs)

    before = CleanPass(model)
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "logits", short)
        (records,) = worked(model, Push(), PLAN, before)
    before.guard.verify()
    same(records, expected)


def test_a_batch_that_was_halved_gives_the_same_numbers(model, monkeypatch):
    plain, told = model.logits, []

    def small(batch, *args, **kwargs):
        if len(batch.ids) > 2:
            raise torch.OutOfMemoryError
        return plain(batch, *args, **kwargs)

    expected = ran(model, Push())
    before = CleanPass(model)
    monkeypatch.setattr(model, "logits", small)
    monkeypatch.setattr(before.guard, "check", lambda: None)  # it would see that very patch
    (records,) = worked(model, Push(), PLAN, before, tell=told.append)
    assert "memory did not suffice: batches are of" in " ".join(told)
    same(records, expected)
