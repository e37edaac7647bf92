"""From probabilities to effects: kinds of token, means over facts and noises, their intervals."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats

from edit_harness import stats
from edit_harness.files import finite
from edit_harness.model.tokens import Continuation
from edit_harness_plugins.commands.studies.trace import effects
from edit_harness_plugins.commands.studies.trace.effects import (
    END,
    FIRST,
    FURTHER,
    LAST,
    MIDDLE,
    NEXT,
    ROLES,
)
from edit_harness_plugins.commands.studies.trace.method import Fact, Traced

LAYERS = 3


def fact(tokens, subject):
    return Fact("text", Continuation(tuple(range(tokens)), (9,)), subject)


def traced(tokens, subject, noises=4, seed=0, clean=0.9):
    """Random probabilities; none is changed before the subject."""
    rng = np.random.default_rng(seed)
    noised = rng.uniform(0, 0.3, noises)
    restored = {}
    for kind in ("hidden", "mlp"):
        restored[kind] = noised[:, None, None] + rng.uniform(0, 0.5, (noises, tokens, LAYERS))
        restored[kind][:, : subject.start] = noised[:, None, None]
    return Traced(fact(tokens, subject), clean, noised, restored)


@pytest.mark.parametrize(
    ("tokens", "subject", "expected"),
    [
        (8, range(1, 5), [FIRST, MIDDLE, MIDDLE, LAST, NEXT, FURTHER, END]),
        (5, range(1, 3), [FIRST, LAST, NEXT, END]),
        (3, range(1), [LAST, NEXT, END]),
        (2, range(1), [LAST, END]),
        (4, range(2, 4), [FIRST, LAST]),
    ],
)
def test_each_token_from_the_subject_on_is_of_one_kind(tokens, subject, expected):
    assert effects.roles(fact(tokens, subject)) == expected


def test_effects_of_facts_are_means_over_noises_tokens_and_facts():
    traces = [traced(8, range(1, 5), seed=1), traced(3, range(1), seed=2)]
    found = effects.of_facts(traces)
    assert (found.over, found.rows) == ("facts", ROLES)
    one, other = (t.restored["mlp"] - t.noised[:, None, None] for t in traces)
    last = found.indirect["mlp"][ROLES.index(LAST)][2]
    assert last.value == pytest.approx((one[:, 4, 2].mean() + other[:, 0, 2].mean()) / 2)
    assert last.n == 2
    middle = found.indirect["mlp"][ROLES.index(MIDDLE)][0]
    assert middle.value == pytest.approx(one[:, 2:4, 0].mean())
    assert middle.n == 1
    assert found.total.value == pytest.approx(0.9 - np.mean([t.noised.mean() for t in traces]))


def test_a_kind_that_no_fact_has_is_missing():
    found = effects.of_facts([traced(2, range(1), seed=s) for s in range(12)])
    missing = found.indirect["hidden"][ROLES.index(MIDDLE)][0]
    assert missing.n == 0
    assert math.isnan(missing.value)
    heat = effects.maps(found, 1)[0]
    assert heat.values[ROLES.index(MIDDLE)] == [None] * LAYERS
    only = finite(effects.as_data(found))["indirect_effects"]["hidden"][ROLES.index(MIDDLE)][0]
    assert json.loads(json.dumps(only, allow_nan=False)) == {
        "value": None, "low": None, "high": None, "n": 0
    }  # fmt: skip


def test_intervals_are_those_of_stats_over_facts():
    traces = [traced(2, range(1), seed=s) for s in range(30)]
    found = effects.of_facts(traces)
    values = np.array([(t.restored["mlp"][:, 1, 0] - t.noised).mean() for t in traces])
    alone = stats.estimates({"x": values}, stats.column_means)["x"]
    shown = found.indirect["mlp"][ROLES.index(END)][0]
    assert (shown.value, shown.n) == (pytest.approx(alone.value), 30)
    assert (shown.low, shown.high) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_effects_of_one_fact_are_by_token_and_over_its_noises():
    one = traced(4, range(1, 3), noises=20)
    found = effects.of_fact(one, ["The", " Sp", "ace", " is"])
    assert found.rows == ("The", " Sp*", "ace*", " is")
    assert (found.clean.value, found.clean.n) == (0.9, 1)
    assert found.total.n == 20
    assert found.total.low < found.total.value < found.total.high
    assert found.indirect["hidden"][0][0].value == 0
    expected = (one.restored["mlp"][:, 3, 1] - one.noised).mean()
    assert found.indirect["mlp"][3][1].value == pytest.approx(expected)


def test_maps_share_one_scale():
    one = traced(4, range(1, 3))
    one.restored["mlp"][:, 2, 1] = one.noised + 0.8
    one.restored["hidden"][:, 3, 2] = one.noised + 0.6
    hidden, mlp = effects.maps(effects.of_fact(one, ["The", " Sp", "ace", " is"]), 2)
    assert hidden.scale == mlp.scale == (0.0, pytest.approx(0.8))
    assert hidden.title == "Indirect effect of a hidden state"
    assert mlp.title == "Indirect effect of MLP outputs of 2 layers around each"


def test_one_noise_has_no_interval():
    one = traced(3, range(1), noises=1)
    found = effects.of_fact(one, ["a", "b", "c"])
    assert effects.shown(found.noised) == f"{one.noised[0]:.2f}"
    assert effects.shown(replace(found.noised, value=-0.001)) == "0.00"


def test_intervals_of_few_noises_stay_within_what_a_probability_can_be():
    own = replace(traced(2, range(1), noises=2), noised=np.array([0.01, 0.11]), clean=0.99)
    found = effects.of_fact(own, ["Ada", " lives"])
    most = scipy_stats.beta.ppf(0.995, 2 * 0.06 + 1, 2 - 2 * 0.06)  # as of a share of 0.06 of 2
    assert effects.shown(found.noised) == f"0.06 (0.00 to {most:.2f})"
    least = 2 * scipy_stats.beta.ppf(0.005, 2 * 0.965, 3 - 2 * 0.965) - 1  # and of 0.93, in -1 to 1
    assert effects.shown(found.total) == f"0.93 ({least:.2f} to 1.00)"
    assert effects.shown(found.clean) == "0.99"
    clean = finite(effects.as_data(found))["probability"]["clean"]
    assert clean == {"value": 0.99, "low": None, "high": None, "n": 1}
