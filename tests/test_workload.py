"""How much there is to do in a step."""

from edit_harness import Case, Choose, Drift, Generate, Probe, Request
from edit_harness.data import Examined
from edit_harness.interfaces import Control, Regime
from edit_harness.run import plan
from edit_harness.run.plan import steps

REQUEST = Request("{} lives in", "Ada", "Paris")
PROBES = (
    Probe("efficacy", Choose("abcd", ("x", "yz"))),
    Probe("drift", Drift("abc")),
    Probe("texts", Generate("ab", max_new_tokens=10)),
)


def test_what_is_read_before_and_after_and_what_is_searched_count():
    assert plan.work_of_answers(Case("a", (), PROBES)) == 2 * (5 + 6 + 3 + 42)
    (step,) = steps([Case("a", (REQUEST,), PROBES)], Regime())
    assert plan.work_of_edit(step) == 25 * len("Ada lives inParis")
    assert plan.work_of_step(step) == plan.work_of_edit(step) + 112


def test_a_control_of_its_own_code_counts_more_than_any_case():
    control = Examined("control:x", (), (), control=Control())
    assert plan.work_of_answers(control) > plan.work_of_answers(Case("a", (), 10 * PROBES))
