import pytest

from edit_harness import Case, Choose, Probe, Request
from edit_harness.plan import Regime, steps


def cases(count: int) -> list[Case]:
    request = Request("{} lives in", "Ada", "Paris")
    probe = Probe("efficacy", Choose(request.text, ("Paris", "Rome")))
    return [Case(str(i), (request,), (probe,)) for i in range(count)]


def ids(group) -> str:
    return "".join(case.id for case in group)


def shown(count: int, **regime) -> list[tuple[str, str, bool, int]]:
    made = steps(cases(count), Regime(**regime))
    return [(ids(s.edit), ids(s.measure), s.fresh, s.done) for s in made]


def test_single_edits_start_from_the_unedited_model_each_time():
    assert shown(3) == [("0", "0", True, 1), ("1", "1", True, 1), ("2", "2", True, 1)]


def test_a_batch_is_edited_and_measured_together():
    assert shown(5, mode="batch", size=2) == [
        ("01", "01", True, 2),
        ("23", "23", True, 2),
        ("4", "4", True, 1),
    ]


def test_a_sequence_keeps_its_edits_and_is_measured_at_the_end():
    assert shown(3, mode="sequential") == [
        ("0", "", True, 1),
        ("1", "", False, 2),
        ("2", "012", False, 3),
    ]


def test_a_sequence_measures_all_so_far_when_due():
    found = shown(5, mode="sequential", size=2, measure_every=2)
    assert [measured for _, measured, _, _ in found] == ["01", "0123", "01234"]


@pytest.mark.parametrize("mode", ["single", "batch", "sequential"])
def test_nothing_to_edit_is_no_step(mode):
    assert shown(0, mode=mode) == []


def test_a_step_has_the_requests_of_all_its_cases():
    (step,) = steps(cases(2), Regime("batch", 2))
    assert len(step.requests) == 2
