"""What tasks are made of, against naive counts and the paper's own way."""

from support.builders import record

from edit_harness_plugins.composition import of_cases
from edit_harness_plugins.tasks.counterfact.counterfact import (
    TITLE,
    CounterFact,
    table,
)


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
    (asked,) = of_cases(task.cases()).values()
    assert [*found.values()][1:] == [asked]
    assert rows(asked) == {
        "cases": (3, 3, 1),
        "of no use": (1, 1),
        "subjects": (3, 3, 1),
        "new objects": (3, 2, 1),
        "requests": (3, 3, 1),
        "efficacy, Choose": (3, 3, 1),
        "paraphrase, Choose": (6, 2, 2),
        "neighborhood, Choose": (22, 11, 22 / 3),
        "neighborhood, Drift": (22, 11, 22 / 3),
        "attribute, Choose": (3, 1, 1),
    }
    bare = record()
    del bare["requested_rewrite"]["relation_id"], bare["generation_prompts"]
    found = rows(table([bare]))
    assert found["records"] == (1, None, 1), "without a relation there is no mean over relations"
    assert found["generation prompts"] == (0, None, 0)
