"""Presets that a sweep has written: read again, refused, and told of in runs."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from edit_harness import Case, DataError, Request, ResourceError, UsageError, files
from edit_harness.folder.manifest import as_json
from edit_harness_plugins.commands.run.preset_file import Score, Tuned, TunedModel, read
from edit_harness_plugins.composition import among, mark

FACTS = [Request("{} lives in", name, "Paris") for name in ("Ada", "Bob", "Ann")]
CASES = [Case(str(i), (fact,), ()) for i, fact in enumerate(FACTS)]
TUNED = Tuned(
    editor="rome",
    fields={"layer": 1, "lr": 0.5, "covariance": False, "context_lengths": [5, 10]},
    chosen=["layer"],
    rest="guessed (a rule)",
    model=TunedModel(name="tiny", family="", type="gpt2", layers=2, hidden=32, digest="ab"),
    task="counterfact",
    cases={case.id: mark(case) for case in CASES[:2]},
    points=4,
    score=Score("S", 0.9, 0.8, 0.95, 2),
)

MARKS = TUNED.cases.values()


def test_it_comes_back_from_its_file(tmp_path):
    TUNED.save(tmp_path / "best.json")
    found = read(tmp_path / "best.json")
    assert found == TUNED
    others = {"layer": "1", "covariance": "false", "context_lengths": "5,10"}
    assert found.over("rome", {"lr": "1"}) == {**others, "lr": "1"}
    with pytest.raises(UsageError, match="the preset is of editor rome, not of ft"):
        found.over("ft", {})
    with pytest.raises(ResourceError, match="cannot be written"):
        TUNED.save(tmp_path / "best.json" / "best.json")


def test_where_fields_come_from_is_told_in_full_and_cases_are_known_by_their_facts():
    told = "layer by 2 cases of counterfact, S 90.0 (80.0 to 95.0), best of 4 points"
    assert TUNED.source({}, "ab") == f"tuned ({told}; the rest: guessed (a rule))"
    assert structs.replace(TUNED, rest="").source({"layer": "1"}, "ab") == f"tuned ({told})"
    other = TUNED.source({"layer": "0", "lr": "0.5", "seed": "1"}, "cd")
    assert other.startswith(f"tuned ({told}, on another model (tiny); the rest")
    assert other.endswith(") but for layer")
    # In another task they may have other probes and other ids.
    same = Case("x", CASES[1].requests, (), tags={"of": "another task"})
    assert among(MARKS, [same, CASES[2]]) == ["x"]
    assert among(MARKS, [replace(same, problem="no use")]) == []


def broken(**changes):
    return files.sealed({**as_json(TUNED), **changes}).decode()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("layer = 1", "Expecting value"),
        ("[" * 100_000, "it is nested too deeply"),
        (broken(format=2), "Invalid enum value 2 - at `format`"),
        (broken(points=True), "- at `points`"),
        (broken().replace("0.95", "0.99"), "its content was changed after it was written"),
        (json.dumps(as_json(TUNED)), "it has no digest of its own content"),
    ],
)
def test_a_file_that_is_none(tmp_path, text, cause):
    path = tmp_path / "best.json"
    path.write_text(text)
    with pytest.raises(DataError, match=f"best.json is no preset: .*{cause}") as caught:
        read(path)
    assert "sweep --save-preset FILE" in caught.value.remedy
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "none.json")
