"""The authors' own files through every regime, on a tiny random model; skipped where they are not."""

import pytest

import edit_harness as eh
from edit_harness import Regime
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search.covariance import collect, save

TEXTS = [f"Text {i} says that number {i * i} is the square of {i}." for i in range(80)]
EDITORS = {
    "rome": {"layer": 0, "steps": 2, "weight_decay": 0.0, "clamp": 4.0, "covariance": False,
             "context_count": 1},
    "memit": {"layers": "0,1", "steps": 2, "weight_decay": 0.0, "clamp": 4.0, "moment_weight": 1.0},
    "ft-l": {"layer": 0, "steps": 2, "lr": 0.01, "epsilon": 0.1},
    "prompt": {},
}  # fmt: skip
REGIMES = {
    "single": Regime(),
    "batch": Regime("batch", 2),
    "sequential": Regime("sequential", immediate=True, checkpoints=(1, 2)),
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("editor", EDITORS)
@pytest.mark.parametrize("task", ["counterfact", "zsre", "zsre-alt"])
def test_the_authors_files_go_through(task, editor, regime, request, tmp_path):
    path = request.getfixturevalue("counterfact_300" if task == "counterfact" else "zsre_600")
    settings = {"data": str(path)} | ({"generation": 1} if task == "counterfact" else {})
    model, fields = tiny_model(), EDITORS[editor]
    if editor == "memit":
        moments = tmp_path / "moments.safetensors"
        save(collect(model, TEXTS, (0, 1), corpus="texts", max_tokens=10_000), moments)
        fields = fields | {"moments": str(moments)}
    run = eh.evaluate(
        editor, task, model, editor_args=fields, task_args=settings, limit=3,
        regime=REGIMES[regime], output=tmp_path,
    )  # fmt: skip
    assert run.failures == []
    names = ("ES", "PS", "NS", "GE") if task == "counterfact" else ("ET", "PT", "NT", "NU")
    for name in names:
        assert run[name].n == 3
        assert run[name].value >= 0
    assert len(run.everything) == {"single": 3, "batch": 5, "sequential": 9}[regime]
    assert len(run.curve) == (3 if regime == "sequential" else 0)
