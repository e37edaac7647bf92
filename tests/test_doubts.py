"""What is said of numbers that no table shows, or that are out of their ranges."""

import pytest

from edit_harness import Measure, Metric
from edit_harness.run.remarks import odd_numbers


class Sums(Metric):
    measures = {"X": Measure("x"), "N": Measure("how many", unit="")}  # noqa: RUF012

    def measure(self, case, before, after):
        return {}


@pytest.mark.parametrize(
    ("rows", "summary", "expected"),
    [
        ([{"post_X": 1.0, "pre_X": 0.0}, {}], {"post_X": 1.0, "pre_X": 0.0}, []),
        ([{"post_N": 7.0}], {"post_N": 7.0}, []),
        ([{"hits": 7.0}], {"post_X": 0.5}, []),
        ([{"post_X": 1 + 1e-12}], {"post_X": 1 + 1e-12}, []),
        ([{"post_X": None}], {"post_X": float("nan")}, []),
        ([{"X": 1.0}], {"X": 1.0}, ["no table shows X, of 1 case: no pre_ or post_ before it"]),
        (
            [{"post_Y": 1.0}] * 2,
            {"post_Y": 1.0},
            ["no table shows post_Y, of 2 cases: it is not in measures"],
        ),
        ([{"hits": 7.0}], {"post_Y": 1.0}, ["no table shows post_Y: it is not in measures"]),
        (
            [{"post_X": 2.0}, {"post_X": 1.0}, {"post_X": -1.0}],
            {"post_X": 0.7},
            ["post_X is not from 0 to 1, of 2 cases: see Measure.unit"],
        ),
        ([{"hits": 7.0}], {"post_X": 7.0}, ["post_X is not from 0 to 1: see Measure.unit"]),
    ],
)
def test_doubts(rows, summary, expected):
    found = list(odd_numbers("sums", Sums(), rows, summary))
    assert found == [f"metric sums: {doubt}" for doubt in expected]
