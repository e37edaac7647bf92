"""The authors' own files through every editor and regime, on a tiny random model; skipped without."""

import pytest

import edit_harness as eh
from edit_harness import Regime
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors._search.covariance import collect, save

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
    "a set": None,
}
SEESAW = {"sets": "P21_P101", "max_prompts": 3, "samples": 1}


@pytest.mark.parametrize(
    ("task", "settings", "editor", "regime", "numbers", "count"),
    [
        ("counterfact", {"generation": 3}, "rome", "single", "ES PS NS GE", 3),
        ("counterfact", {}, "ft-l", "sequential", "ES PS NS", 9),
        ("zsre", {}, "memit", "batch", "ET PT NT NU", 5),
        ("zsre", {}, "prompt", "sequential", "ET PT NT NU", 9),
        ("zsre-alt", {}, "rome", "batch", "ET PT NT NU", 5),
        ("seesaw-cf", SEESAW, "ft-l", "a set", "ES", 4),
    ],
)
def test_the_authors_files_go_through(
    task, settings, editor, regime, numbers, count, request, tmp_path
):
    files = {"counterfact": "counterfact_300", "seesaw-cf": "seesaw_files"}
    path = request.getfixturevalue(files.get(task, "zsre_600"))
    model, fields = tiny_model(), EDITORS[editor]
    if editor == "memit":
        texts = [f"Text {i} says that number {i * i} is the square of {i}." for i in range(80)]
        moments = tmp_path / "moments.safetensors"
        save(collect(model, texts, (0, 1), corpus="texts", max_tokens=10_000), moments)
        fields = fields | {"moments": str(moments)}
    run = eh.evaluate(
        editor, task, model, editor_args=fields, task_args={"data": str(path), **settings}, limit=3,
        judge="none", regime=REGIMES[regime], output=tmp_path,
    )  # fmt: skip
    assert run.failures == []
    assert all(run[name].value >= 0 for name in numbers.split())
    assert run[numbers[:2]].n == 3
    assert len(run.everything) == count
    assert len(run.curve) == (3 if regime == "sequential" else 0)
