"""The composition tables of the bundled tasks, against naive counts and the paper's own way."""

import json

import pytest
from support.builders import record

from edit_harness_plugins.composition import of_cases
from edit_harness_plugins.tasks.counterfact.counterfact import (
    TITLE,
    CounterFact,
    CounterFactPlus,
    table,
)


def stored(folder, *records):
    path = folder / "data.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return str(path)


def rows(found):
    return {row.pop(""): tuple(row.values()) for row in map(dict, found)}


def test_counterfact_as_in_its_paper(tmp_path):
    """Counted by hand: totals of different texts, and means over relations and records."""
    records = [
        record(0, subject="Ada"),
        record(1, subject="ADA") | {"neighborhood_prompts": ["Bob lives in", "Bob lives in"]},
        record(2, subject="Bob", relation_id="P19", target_new={"str": "Oslo", "id": "Q585"}),
        record(3, subject=""),
    ]
    task = CounterFact(stored(tmp_path, *records))
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


def test_records_without_a_relation_have_no_mean_over_relations():
    bare = record()
    del bare["requested_rewrite"]["relation_id"], bare["generation_prompts"]
    found = rows(table([bare]))
    assert found["records"] == (1, None, 1)
    assert found["generation prompts"] == (0, None, 0)


def test_the_genuine_records(counterfact_300):
    raw = json.loads(counterfact_300.read_text(encoding="utf-8"))
    found = CounterFactPlus(str(counterfact_300)).composition()
    of_relation = {}
    for each in raw:
        own = of_relation.setdefault(each["requested_rewrite"]["relation_id"], set())
        own.update(each["neighborhood_prompts"])
    total = len({p for each in raw for p in each["neighborhood_prompts"]})
    mean = sum(map(len, of_relation.values())) / len(of_relation)
    each = sum(len(set(r["neighborhood_prompts"])) for r in raw) / len(raw)
    assert rows(found[TITLE])["neighborhood prompts"] == pytest.approx((total, mean, each))
    asked = rows(found["what is edited and asked"])
    assert asked["neighborhood-plus, Choose"] == (3000, asked["neighborhood-plus, Drift"][1], 10)
