"""How much a pass asks of a device: kernels by the number of edits, and the times that the host waits."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from edit_harness import Request
from edit_harness.edits import Edit
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.locate import value_search
from edit_harness_plugins.editors.locate.value_search import Settings, search

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique")
"""Parts of names of operations whose result the host has to wait for."""
FREE = ("aten::_unsafe_view", "aten::promote_types")
"""Operations that compute nothing, besides views."""


class Counted(TorchDispatchMode):
    """Counts operations that compute, and those that a host waits for; what runs is as without it."""

    def __init__(self):
        super().__init__()
        self.kernels = self.waits = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        masks = [a for a in torch.utils._pytree.tree_leaves(args) if isinstance(a, torch.Tensor)]
        name = func._schema.name
        by_mask = "index" in name and any(m.dtype == torch.bool for m in masks)
        self.waits += by_mask or any(part in name for part in WAITING)
        self.kernels += not func.is_view and name not in FREE
        return func(*args, **(kwargs or {}))


def counted(run):
    with Counted() as found:
        run()
    return found


def test_kernels_of_a_pass_do_not_grow_with_its_edits():
    """64 edits of five layers, as MEMIT makes them, beside the unedited model."""
    model = tiny_model("gpt2", num_hidden_layers=6)
    texts = [[(7 * i + j) % 200 for j in range(9)] for i in range(64)]
    batch = model.batch(texts)
    places = batch.places(range(64), [8] * 64)
    noise = torch.Generator().manual_seed(0)

    def spread():
        weights = {}
        for layer in range(5):
            projection = model.architecture.projection(layer)
            pair = (torch.randn(n, 1, generator=noise) for n in projection.shape)
            weights |= projection.low_rank(next(pair), next(pair).T)
        return Edit(weights)

    edits = [spread() for _ in texts]
    prepared = model.logits(batch, places)
    with torch.no_grad():
        plain = counted(lambda: model.logits(batch, places)).kernels

        def edited():
            with model.edited_rows(batch, edits, [9] * 64):
                return model.logits(batch, places)

        assert counted(edited).kernels <= plain + 30
        assert float((edited() - prepared).abs().max()) > 0.1


@pytest.mark.parametrize(
    ("family", "narrow"), [("gpt2", True), ("llama", True), ("gptj", True), ("bloom", False)]
)
@pytest.mark.parametrize("watched", [False, True])
def test_the_last_mlp_runs_where_logits_are_read(family, narrow, watched):
    """Unless something looks at it or behind it; BLOOM's adds the residual stream itself."""
    model = tiny_model(family)
    batch = model.batch([range(1, 9), range(2, 7)])
    read = batch.places([0, 1, 1], [3, 4, 4])
    seen, last = [], model.architecture.down(1).rpartition(".")[0]
    with torch.no_grad():
        whole = model.module(batch.ids, attention_mask=batch.mask).logits[read.rows, read.columns]
        with model.module.get_submodule(last).register_forward_hook(
            lambda _, __, output: seen.append(output.shape[:2].numel())
        ):
            model.architecture._late = [*model.architecture._late] if watched else []
            found = model.logits(batch, read)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-5)
    assert seen == [2 if narrow and not watched else 16]


@pytest.mark.parametrize("kl_factor", [0.0, 0.0625])
def test_the_host_does_not_wait_within_a_search(monkeypatch, kl_factor):
    """But for one look every fifth pass, to begin and to end; Adam's counter of steps lies on the host."""
    monkeypatch.setattr(value_search, "waits", lambda device: 5)
    model = tiny_model("gpt2")
    requests = [Request("{} lives in", name, "Rome") for name in ("Ada", "Bob", "Carl")]

    def run(steps):
        given = Settings(steps, 0.1, 0.5, 4.0, kl_factor, stop=0.0)
        return counted(lambda: search(model, 0, requests, ("{}", "So {}"), given)).waits

    run(2)
    assert run(5) - run(2) == 3
    assert run(21) - run(11) == 10 + 2
