"""What is said of numbers that no table shows."""

import pytest

from edit_harness import Measure, Metric
from edit_harness.run.remarks import unshown


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
    ],
)
def test_numbers_that_no_table_shows_are_told(rows, summary, expected):
    found = list(unshown("sums", Sums(), rows, summary))
    assert found == [("note", f"metric sums: {odd}") for odd in expected]
