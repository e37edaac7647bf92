"""What tasks are made of, against naive counts and the paper's own way."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import record

from edit_harness import Case, Choose, Drift, Generate, Probe, Request
from edit_harness_plugins.composition import of_cases
from edit_harness_plugins.tasks.counterfact.counterfact import (
    TITLE,
    CounterFact,
    table,
)

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


@given(CASES, st.integers(0, 2))
def test_the_counts_of_any_cases(cases, bad):
    """Each count in a loop of its own; a role that some cases lack counts for all."""
    (rows,) = of_cases(
        [*(Case(f"bad {i}", (), (), problem="x") for i in range(bad)), *cases]
    ).values()
    found = {row[""]: (row["total"], row["distinct"], row.get("per case")) for row in rows}
    many = max(len(cases), 1)
    requests = [request for case in cases for request in case.requests]
    assert found.pop("cases") == (len(cases), len(cases), bool(cases))
    parts = {"subjects": "subject", "new objects": "target_new", "requests": "statement"}
    for name, part in parts.items():
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


def rows(found):
    return {row.pop(""): tuple(row.values()) for row in map(dict, found)}


def test_counterfact_as_in_its_paper(store):
    """Counted by hand: totals of different texts, and means over relations and records."""
    records = [
        record(0, subject="Ada"),
        record(1, subject="ADA") | {"neighborhood_prompts": ["Bob lives in", "Bob lives in"]},
        record(2, subject="Bob", relation_id="P19", target_new={"str": "Oslo", "id": "Q585"}),
        record(3, subject=""),
    ]
    task = CounterFact(store(*records))
    found = task.composition()
    assert rows(found[TITLE]) == {
        "records": (3, 1.5, 1),
        "subjects": (2, 1, 1),
        "objects (new)": (2, 1, 1),
        "counterfactual statements": (3, 1.5, 1),
        "paraphrase prompts": (2, 2, 2),
        "neighborhood prompts": (11, 10.5, 7),
        "generation prompts": (1, 1, 1),
    }
    default = of_cases(task.cases())
    assert {k: v for k, v in found.items() if k != TITLE} == default
    assert rows(*default.values())["of no use"] == (1, 1)
    bare = record()
    del bare["requested_rewrite"]["relation_id"], bare["generation_prompts"]
    found = rows(table([bare]))
    assert found["records"] == (1, None, 1), "without a relation there is no mean over relations"
    assert found["generation prompts"] == (0, None, 0)
