"""What errors are called, and the runs that they end: time, memory, devices, plugins."""

from itertools import count

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


@pytest.mark.parametrize(("nth", "rows"), [(1, 0), (4, 0), (10, 0), (19, 0), (0, 2)])
def test_wherever_memory_is_short_the_numbers_stay(model, monkeypatch, nth, rows):
    """Once, at some pass, or whenever a batch has more than two rows."""
    expected = ran(model, Push())
    plain, passes, told = type(model).logits, count(1), []

    def short(self, batch, *args, **kwargs):
        if next(passes) == nth or (rows and len(batch.ids) > rows):
            raise torch.OutOfMemoryError
        return plain(self, batch, *args, **kwargs)

    before = CleanPass(model)
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "logits", short)
        (records,) = worked(model, Push(), PLAN, before, tell=told.append)
    before.guard.verify()
    assert not rows or "memory did not suffice: batches are of" in " ".join(told)
    same(records, expected)
