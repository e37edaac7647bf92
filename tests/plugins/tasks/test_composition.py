"""What cases are made of, against counting by hand."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edit_harness import Case, Choose, Drift, Generate, Probe, Request
from edit_harness_plugins.composition import counted, of_cases

NAMES = st.sampled_from(["Ada", "Bob", "Ann"])
PROBES = st.builds(
    Probe,
    st.sampled_from(["efficacy", "neighborhood"]),
    st.one_of(
        st.builds(Choose, NAMES, st.just(("Rome",))),
        st.builds(Drift, NAMES),
        st.builds(Generate, NAMES),
    ),
)
REQUESTS = st.builds(Request, st.just("{} is in"), NAMES, st.sampled_from(["Rome", "Oslo"]))
CASES = st.lists(
    st.tuples(st.lists(REQUESTS, min_size=1, max_size=3), st.lists(PROBES, max_size=6)), max_size=6
).map(lambda made: [Case(str(i), tuple(r), tuple(p)) for i, (r, p) in enumerate(made)])


def table(cases):
    (rows,) = of_cases(cases).values()
    return {row[""]: (row["total"], row["distinct"], row.get("per case")) for row in rows}


@given(CASES, st.integers(0, 2))
def test_the_counts(cases, bad):
    """Each count in a loop of its own."""
    unusable = [Case(f"bad {i}", (), (), problem="x") for i in range(bad)]
    found = table([*unusable, *cases])
    many = max(len(cases), 1)
    requests = [request for case in cases for request in case.requests]
    assert found.pop("cases") == (len(cases), len(cases), bool(cases))
    for name, part in (
        ("subjects", "subject"),
        ("new objects", "target_new"),
        ("requests", "statement"),
    ):
        different = len({getattr(request, part) for request in requests})
        assert found.pop(name) == (len(requests), different, pytest.approx(len(requests) / many))
    if bad:
        assert found.pop("of no use") == (bad, bad, None)
    asked = Counter(
        (f"{p.role}, {type(p.query).__name__}", p.query.prompt)
        for case in cases
        for p in case.probes
    )
    assert set(found) == {name for name, _ in asked}
    for name, counts in found.items():
        own = {prompt: n for (role, prompt), n in asked.items() if role == name}
        assert counts == (sum(own.values()), len(own), pytest.approx(sum(own.values()) / many))


def test_a_role_that_some_cases_lack_counts_for_all():
    probe = Probe("efficacy", Drift("Ada"))
    request = Request("{} is in", "Ada", "Rome")
    cases = [Case("a", (request,), (probe,)), Case("b", (request,), ())]
    assert table(cases)["efficacy, Drift"] == (1, 1, 0.5)


def test_a_row():
    assert counted("x", [["a", "b"], ["b"]], "record") == {
        "": "x", "total": 3, "distinct": 2, "per record": 1.5,
    }  # fmt: skip
    assert counted("x", []) == {"": "x", "total": 0, "distinct": 0}
