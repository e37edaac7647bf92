"""Answers of the unedited model: asked once for all editors."""

from msgspec import structs
from support.loops import CASES, Push, case, worked

from edit_harness.interfaces import Regime
from edit_harness.model.reuse import start_of_edit
from edit_harness.run.clean import CleanPass
from edit_harness.run.plan import steps


def test_editors_share_one_clean_pass(model, monkeypatch):
    """Counted positions of the first block: those of the second editor are not among them."""
    editors = [Push(), Push(fails=("Bob",))]
    assert all(start_of_edit(model, editors[0].edit(model, c.requests)) for c in CASES)
    run = []
    model.architecture.block(0).register_forward_hook(
        lambda module, args, output: run.append(args[0].shape[:2].numel())
    )
    before, plan = CleanPass(model), list(steps(CASES, Regime()))
    # Which asks its own texts after each chunk.
    monkeypatch.setattr(before.guard, "verify", lambda *_, **__: None)
    streams = [worked(model, e, plan, before, size=3) for e in editors]
    next(streams[0])
    first = sum(run)
    next(streams[1])
    assert sum(run) == first > 0


def test_sharing_changes_no_record(model):
    plan = list(steps([*CASES, case("Fiat", "Ada " * 600)], Regime()))
    editors = [Push(), Push(fails=("Bob",), infinite=("Ann",))]
    alone = [list(worked(model, e, plan, size=2)) for e in editors]
    before = CleanPass(model)
    streams = [worked(model, e, plan, before, size=2) for e in editors]
    together = list(zip(*streams, strict=True))
    for number, (first, second) in enumerate(together):
        for mine, theirs in ((first, alone[0][number]), (second, alone[1][number])):
            assert [timeless(r) for r in mine] == [timeless(r) for r in theirs]


def timeless(record):
    return {**structs.asdict(record), "seconds": None, "values": repr(record.values)}
