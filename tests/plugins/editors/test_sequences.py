"""Two dozen requests one after another, against the way of scripts: write into the weights, go on."""

import copy

import pytest
import torch
from support.builders import record
from support.editors import stored_records

import edit_harness as eh
from edit_harness import Regime
from edit_harness.edits import UNEDITED
from edit_harness.model.model import Model
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.locate.rome import Rome
from edit_harness_plugins.editors.tuning.ft import FineTuning

COUNT, POINTS = 24, (1, 5, 12)
EDITORS = {
    "rome": lambda: Rome(
        layer=0,
        steps=2,
        weight_decay=0.0,
        clamp=1.0,
        covariance=False,
        contexts=("{}", "Today. {}"),
    ),
    "ft": lambda: FineTuning(layer=0, steps=2, lr=1e-3, bias=True),
}
VISITS = sum(POINTS) + COUNT + (COUNT - len(POINTS) - 1) + COUNT
"""All cases so far at the points and the end, one case after each other edit, and the control each time."""


def by_hand(name, cases):
    """Yield after each request what the script's model answers to all probes so far."""
    model = tiny_model(dtype=torch.float64)
    for done, case in enumerate(cases, 1):
        edit = EDITORS[name]().edit(model, case.requests)
        module = copy.deepcopy(model.module)
        with torch.no_grad():
            for parameter, delta in edit.weights.items():
                module.get_parameter(parameter).add_(delta.dense().double())
        model = Model(module, model.tokens.tokenizer)
        if done in (*POINTS, COUNT):
            for asked in cases[:done]:
                choices = [p for p in asked.probes if isinstance(p.query, eh.Choose)]
                answers = model.answer([(UNEDITED, probe.query) for probe in choices])
                yield (asked.id, done), answers


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITORS)
def test_every_point_is_what_weights_written_in_turn_answer(name, tmp_path):
    """In float64, within 1e-9 nats: two dozen searches that build on each other enlarge rounding."""
    facts = [record(i, subject=f"Ada {i}") for i in range(COUNT)]
    for i, fact in enumerate(facts):
        fact["neighborhood_prompts"] = [f"Neighbour {i} lives in"]
    made = eh.evaluate(
        EDITORS[name](),
        "counterfact",
        tiny_model(dtype=torch.float64),
        task_args={"data": stored_records(tmp_path / "facts.json", facts)},
        metrics=["success", "magnitude"],
        regime=Regime("sequential", immediate=True, checkpoints=POINTS),
        output=tmp_path / "results",
    )
    records = {r.visit: r for r in made.everything}
    assert len(records) == VISITS
    for visit, expected in by_hand(name, made.cases):
        stored = [a for a in records[visit].after if isinstance(a, dict)]
        for answer, other in zip(stored, expected, strict=True):
            for found, wanted in zip(answer["logprobs"], other.logprobs, strict=True):
                assert found == pytest.approx(wanted, abs=1e-9)
    assert [point.state for point in made.curve] == [*POINTS, COUNT]
    assert made["ES"].n == COUNT
    assert {"post_ES", "post_NS", "post_EM"} <= made.retention.keys()
