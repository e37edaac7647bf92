"""The trial before case 1: sound models pass, and every mistake that was ever made with batches does not."""

import dataclasses

import pytest
import torch
from support.loops import CASES

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


def without_mask(batch):
    return dataclasses.replace(batch, mask=torch.ones_like(batch.mask))


def without_positions(batch):
    columns = torch.arange(batch.ids.shape[1]).expand_as(batch.ids)
    return dataclasses.replace(batch, position_ids=columns)


def positions_all_alike(batch):
    return dataclasses.replace(batch, position_ids=torch.ones_like(batch.position_ids))


def positions_off_by_one(batch):
    return dataclasses.replace(batch, position_ids=batch.position_ids + 1)


def mask_off_by_one(batch):
    return dataclasses.replace(batch, mask=batch.mask.roll(1, 1))


def read_off_by_one(batch):
    return dataclasses.replace(batch, starts=(batch.starts - 1).clamp(min=0))


def padded_on_the_wrong_side(batch):
    width = batch.ids.shape[1]
    return dataclasses.replace(batch, starts=width - batch.mask.sum(1) - batch.starts)


BUGS = (
    without_mask, mask_off_by_one, read_off_by_one, padded_on_the_wrong_side, positions_all_alike,
)  # fmt: skip
ABSOLUTE = (without_positions, positions_off_by_one)
"""No mistakes where a model knows distances only."""
FAMILIES = ("gpt2", "gptj", "llama", "qwen2", "gemma", "phi")
SEEDED = [(family, bug) for family in FAMILIES for bug in BUGS] + [
    ("gpt2", bug) for bug in ABSOLUTE
]


@pytest.mark.parametrize(
    ("family", "bug"), SEEDED, ids=lambda part: getattr(part, "__name__", part)
)
def test_a_mistake_with_batches_is_found(family, bug, monkeypatch):
    for dtype in DTYPES:
        model = tiny_model(family, dtype)
        monkeypatch.setattr(trial, "padded", lambda rows, **kw: bug(padded(rows, **kw)))
        with pytest.raises(DataError, match="otherwise in a batch that is padded on the") as caught:
            trial.check_batches(model)
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
    with pytest.raises(
        HarnessError, match="changes nothing changes an answer of case Ada"
    ) as caught:
        trial.check_nothing(model, CASES[0])
    assert caught.value.code == 70


def test_distances_are_in_nats_and_infinite_between_other_things():
    one = Scores(((1,),), ((-1.0,),), ((1,),))
    assert trial.distance(one, Scores(((1,),), ((-1.5,),), ((1,),))) == 0.5
    assert trial.distance(one, Scores(((2,),), ((-1.0,),), ((1,),))) == float("inf")
    assert trial.distance(Divergence(0.1, 0.2, 9), Divergence(0.1, 0.5, 9)) == pytest.approx(0.3)
    assert trial.distance(one, Divergence(0.1, 0.2, 9)) == float("inf")
