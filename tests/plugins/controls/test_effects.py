"""What controls come to: by hand, and with intervals that are of paired differences."""

import math

import pytest

from edit_harness import Graded, Marks, Scores
from edit_harness.folder.encoding import encode_answer
from edit_harness_plugins.controls.effects import ENOUGH, Seen, effects, left_out


def graded(*values, documents="same", **fields):
    return [encode_answer(Graded(documents, {"m": Marks(values, **fields)}))]


def summed(*seen, last=False):
    (effect,) = effects("mine", seen, last=last)
    return effect


def test_of_one_model_documents_are_resampled_and_of_several_the_models():
    effect = summed(Seen(7, graded(0, 0, 1, 1), graded(1, 0, 1, 0)))
    assert (effect.before, effect.after, effect.change.value) == (0.5, 0.5, 0.0)
    assert (effect.over, effect.documents, effect.models) == ("documents", 4, 1)
    assert effect.change.low < 0 < effect.change.high
    assert effect.states == {7: (0.5, 0.5)}
    # Documents that all move with an edit are one observation, not many.
    seen = [Seen(i, graded(*[0.0] * 50), graded(*[float(i % 2)] * 50)) for i in range(1, 13)]
    effect = summed(*seen)
    assert (effect.over, effect.documents, effect.models) == ("models", 50, 12)
    assert effect.change.value == 0.5
    assert effect.change.high - effect.change.low > 0.5


def test_the_interval_is_of_paired_differences():
    """Where all move alike nothing is known of it, however much documents differ; of shares, something."""
    values = (0.0, 1.0, 5.0, -3.0)
    effect = summed(Seen(1, graded(*values), graded(*(v + 0.25 for v in values))))
    assert effect.change.value == 0.25
    assert math.isnan(effect.change.low)
    effect = summed(Seen(1, graded(0, 1, 1), graded(0, 1, 1)))
    assert effect.change.high == -effect.change.low == pytest.approx(1 - 0.005 ** (1 / 3))
    assert math.isnan(summed(Seen(1, graded(1), graded(0))).change.low), "of one document"

    # A text is one document, with its perplexity.
    def scores(*logprobs):
        size = len(logprobs)
        return [encode_answer(Scores(((1,) * size,), (logprobs,), ((1,) * size,)))]

    effect = summed(*(Seen(i, scores(-1.0, -3.0), scores(-2.0, -4.0 - i)) for i in (1, 2)))
    assert (effect.name, effect.better, effect.documents) == ("perplexity", "lower", 1)
    assert effect.before == pytest.approx(math.exp(2))
    assert effect.after == pytest.approx(math.exp((2 + 5 + 2 + 6) / 4))


def test_of_a_sequence_the_last_state_stands_and_only_equal_documents_are_paired():
    seen = [Seen(10, graded(1, 1), graded(0, 1)), Seen(5, graded(1, 1), graded(1, 1))]
    effect = summed(*seen, last=True)
    assert (effect.after, effect.over, effect.models) == (0.5, "documents", 1)
    assert effect.states == {5: (1.0, 1.0), 10: (1.0, 0.5)}
    other = Seen(2, graded(1), graded(0, documents="other"))
    seen = [Seen(1, graded(1), graded(0)), other]
    assert summed(*seen).models == 1
    assert list(effects("mine", [other], last=False)) == []
    assert list(effects("mine", seen, last=True)) == []
    why = "the documents of 1 of 2 edited models are not those of before"
    assert left_out(seen, last=False) == {"": why}


@pytest.mark.parametrize(
    ("how", "expected"),
    [("mean", -6 / 4), ("perplexity", math.exp(6 / 4)), ("bits", 6 / 4 / math.log(2))],
)
def test_values_are_summed_up_by_weight(how, expected):
    stored = graded(-4.0, -2.0, weights=(1.0, 3.0), how=how)
    assert summed(Seen(1, stored, stored)).before == pytest.approx(expected)


def measured(left_out=(), **marks):
    each = {name: Marks(values) for name, values in marks.items()}
    return [encode_answer(Graded("same", each, dict(left_out)))]


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (measured(acc=(1.0,)), "the edited model has none"),
        (measured(acc=(1.0,), ppl=(math.nan,)), "not all documents have a finite number"),
        (measured(acc=(1.0,), left_out={"ppl": "NaN of 1"}), "NaN of 1, of the edited model"),
        (measured(acc=(1.0,), ppl=(1.0, 1.0)), "it is of other documents than before"),
    ],
)
def test_a_measure_without_a_number_is_left_out_with_the_reason(after, why):
    before = measured(acc=(0.0,), ppl=(1.0,))
    seen = [Seen(1, before, after), Seen(2, before, before)]
    (effect,) = effects("mine", seen, last=False)
    assert effect.name == "acc"
    ((name, said),) = left_out(seen, last=False).items()
    assert name == "ppl"
    assert why in said
    assert said.endswith("(1 of 2 edited models)")


@pytest.mark.parametrize("models", [ENOUGH - 1, ENOUGH])
def test_an_interval_keeps_to_what_can_be_and_takes_enough_models(models):
    """The unedited model has 0.5 of the share: it can lose as much, and gain as much."""
    ends = [graded(1, 1), graded(0, 0)]
    effect = summed(*(Seen(i, graded(0, 1), ends[i % 2]) for i in range(1, models + 1)))
    if models < ENOUGH:
        assert math.isnan(effect.change.low)
        assert math.isnan(effect.change.high)
    else:
        assert -0.5 <= effect.change.low < -0.4
        assert 0.4 < effect.change.high <= 0.5
