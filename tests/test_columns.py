"""Values of rows as columns."""

import math

import numpy as np
import pytest

from edit_harness.folder.columns import Values

NAN = math.nan
ALL = np.arange(4)


@pytest.fixture
def values():
    made = Values()
    made.extend([{"m": {"b": 1.0}}, {"m": {}}])
    made.extend([{"m": {"a": 2, "b": None}, "n": {"a": 3.0}}, {}])
    return made


def test_a_row_without_a_value_has_nan(values):
    found = values.chosen("m", ALL)
    np.testing.assert_equal(found, {"b": [1.0, NAN, NAN, NAN], "a": [NAN, NAN, 2.0, NAN]})
    assert values.chosen("other", ALL) == {}


def test_names_stand_in_the_order_in_which_chosen_rows_have_them(values):
    assert list(values.chosen("m", ALL)) == ["b", "a"]
    assert list(values.chosen("m", ALL[::-1])) == ["a", "b"]
    assert list(values.chosen("m", np.array([0, 1]))) == ["b"]


def test_a_metric_has_values_of_a_row_if_only_none(values):
    assert values.has("m").tolist() == [True, False, True, False]
    assert values.has("n").tolist() == [False, False, True, False]
    assert not values.has("other").any()


@pytest.mark.parametrize("row", [[], {"m": [1.0]}, {"m": {"a": "many"}}, {"m": {"a": {}}}])
def test_what_are_no_values_is_refused(values, row):
    with pytest.raises((TypeError, ValueError)):
        values.extend([row])
