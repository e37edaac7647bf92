"""The trial before case 1: sound models pass, and every mistake that was ever made with batches does not."""

import dataclasses

import pytest
import torch
from support.builders import people
from support.loops import CASES

import edit_harness as eh
from edit_harness import DataError
from edit_harness.data import Divergence, Scores
from edit_harness.errors import HarnessError
from edit_harness.model.batch import padded
from edit_harness.testing import tiny_model
from edit_harness.testing.tiny import CONFIGS
from edit_harness_plugins.loading import edit_harness_try_model, trial

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("family", CONFIGS)
def test_every_architecture_passes_in_every_precision(family):
    for dtype in DTYPES:
        edit_harness_try_model(tiny_model(family, dtype), CASES[0])


def columns(batch):
    return torch.arange(batch.ids.shape[1]).expand_as(batch.ids)


BUGS = {
    "without a mask": lambda b: {"mask": torch.ones_like(b.mask)},
    "mask off by one": lambda b: {"mask": b.mask.roll(1, 1)},
    "read off by one": lambda b: {"starts": (b.starts - 1).clamp(min=0)},
    "wrong side": lambda b: {"starts": b.ids.shape[1] - b.mask.sum(1) - b.starts},
    "positions all alike": lambda b: {"position_ids": torch.ones_like(b.position_ids)},
}
ABSOLUTE = {
    "without positions": lambda b: {"position_ids": columns(b)},
    "positions off by one": lambda b: {"position_ids": b.position_ids + 1},
}
"""No mistakes where a model knows distances only."""

SEEDED = [(family, bug) for family in ("gpt2", "gptj", "llama") for bug in BUGS]
SEEDED += [("gpt2", bug) for bug in ABSOLUTE]


@pytest.mark.parametrize(("family", "bug"), SEEDED)
def test_a_mistake_with_batches_is_found(family, bug, monkeypatch):
    change = (BUGS | ABSOLUTE)[bug]

    def mistaken(rows, **options):
        batch = padded(rows, **options)
        return dataclasses.replace(batch, **change(batch))

    monkeypatch.setattr(trial, "padded", mistaken)
    for dtype in DTYPES:
        with pytest.raises(DataError, match="otherwise in a batch that is padded on the") as caught:
            trial.check_batches(tiny_model(family, dtype))
        assert "--batch-size 1" in caught.value.remedy


def test_a_model_that_answers_with_nan_is_refused_before_case_one(model):
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(DataError, match="NaN or infinity"):
        edit_harness_try_model(model, CASES[0])


def test_an_edit_of_nothing_that_changes_something_is_a_mistake_of_ours(model, monkeypatch):
    zeros = trial.zeros

    def moved(model):
        edit = zeros(model)
        (delta,) = edit.weights.values()
        for part in (delta.left, delta.right):
            part.normal_(generator=torch.Generator().manual_seed(0))
        return edit

    trial.check_nothing(model, CASES[0])
    monkeypatch.setattr(trial, "zeros", moved)
    with pytest.raises(HarnessError, match="changes nothing changes an answer of case Ada"):
        trial.check_nothing(model, CASES[0])


def test_distances_are_in_nats_and_infinite_between_other_things():
    one = Scores(((1,),), ((-1.0,),), ((1,),))
    assert trial.distance(one, Scores(((1,),), ((-1.5,),), ((1,),))) == 0.5
    assert trial.distance(one, Scores(((2,),), ((-1.0,),), ((1,),))) == float("inf")
    assert trial.distance(Divergence(0.1, 0.2, 9), Divergence(0.1, 0.5, 9)) == pytest.approx(0.3)
    assert trial.distance(one, Divergence(0.1, 0.2, 9)) == float("inf")


# Previews: what rounding does is measured, and said wherever the numbers are.

PROMPTS = ("Ada lives in", "Bob works at Fiat in", "The mother tongue of Danielle is", "Ann")


def cases():
    request = eh.Request("{} lives in", "Ada", "Paris")
    probes = [eh.Probe("any", eh.Choose(prompt, ("Paris", "Rome"))) for prompt in PROMPTS]
    return [eh.Case("0", (request,), tuple(probes))]


@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)])
def test_the_floor_is_that_of_rounding(dtype, bits):
    """A divergence goes with the square of a change, and the change is some roundings of a logit."""
    found = trial.preview(tiny_model("llama", dtype), cases())
    assert found.precision == str(dtype)[6:]
    assert 0 < found.floor < 2.0 ** (-2 * bits) * 400
    assert 0 < found.largest < 2.0**-bits * 60
    assert f"{found.floor:.1e} nats" in str(found)


def test_a_preview_says_so_wherever_its_numbers_are(tmp_path):
    facts = people(tmp_path, ("Ada", "Bob"))

    def evaluate(dtype):
        return eh.evaluate(
            "ft",
            "counterfactplus",
            tiny_model(dtype=dtype),
            editor_args={"layer": 0, "lr": 1e-9, "bias": True, "steps": 1},
            task_args={"data": facts},
            output=tmp_path / "results",
        )

    half, full = evaluate(torch.bfloat16), evaluate(torch.float32)
    manifest = half.folder.manifest()
    floor = manifest.preview.floor
    assert manifest.identity.model.dtype == "bfloat16"
    assert half.results()["precision"] == "bfloat16"
    assert half.folder.path != full.folder.path
    assert f"< {floor:.2g}" in half.table(), "an edit of nearly nothing drowns in rounding"
    assert "<" not in full.table()
    assert full.folder.manifest().preview is None
    assert trial.preview(tiny_model(), cases()) is None
