"""The command that makes data of one's own: what it leaves behind, and what it refuses."""

import json
from functools import partial

import pytest
from support.commands import failed
from support.commands import stored as stored_model
from support.own_facts import TEMPLATES, TRIPLES, lines, people, stored


@pytest.fixture
def tell(tell, tmp_path):
    """Run the command in a folder with facts and templates in it."""
    lines(tmp_path / "facts.jsonl", TRIPLES)
    lines(tmp_path / "people.jsonl", people())
    stored(tmp_path / "words.json", TEMPLATES)
    return partial(tell, "build-data")


def counterfact(*more):
    return ("counterfact", "--triples", "facts.jsonl", "--templates", "words.json", *more)


def seesaw(*more):
    return ("seesaw", "--triples", "people.jsonl", "--builder-args", "cases=3,people=2", *more)


def names(folder):
    return {path.name for path in folder.iterdir()}


GIVEN = {"facts.jsonl", "people.jsonl", "words.json"}


def test_a_file_is_made(tell, tmp_path):
    result = tell(*counterfact("-o", "data/made.json"))
    assert result.exit_code == 0, result.stderr
    assert "data/made.json" in result.stdout
    assert "30 records" in result.stderr
    assert names(tmp_path) == GIVEN | {"data"}
    first = (tmp_path / "data/made.json").read_bytes()
    assert len(json.loads(first)) == 30
    for name, seed in (("again", 0), ("other", 1)):
        assert tell(*counterfact("-o", name, "--seed", seed)).exit_code == 0
    assert first == (tmp_path / "again").read_bytes() != (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("make", [counterfact, seesaw])
def test_what_is_there_is_not_overwritten(tell, tmp_path, make):
    assert tell(*make("-o", "made")).exit_code == 0
    first = tmp_path / "made"
    kept = {p: p.read_bytes() for p in (first.iterdir() if first.is_dir() else [first])}
    failed(tell(*make("-o", "made", "--seed", 1)), 2, "is there already", "--output PATH")
    assert {p: p.read_bytes() for p in kept} == kept
    other = seesaw if make is counterfact else counterfact
    failed(tell(*other("-o", "made")), 2, "made is there already")
    assert names(tmp_path) == GIVEN | {"made"}


@pytest.mark.parametrize(
    ("args", "code", "parts"),
    [
        (("counterfat", "--triples", "facts.jsonl"), 3, ["did you mean counterfact"]),
        (("seesaw", "--triples", "none.csv"), 4, ["none.csv cannot be read", "check its name"]),
        (counterfact("--templates", "none.json"), 4, ["none.json cannot be read"]),
        (("counterfact", "--triples", "facts.jsonl"), 2, ["--templates"]),
        (counterfact("--model", "./none"), 4, ["./none"]),
        (("counterfact",), 2, ["--triples"]),
        (counterfact("--model", "./tiny"), 4, ["known to the model"]),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_left(tell, tmp_path, args, code, parts):
    known = {stored_model(tmp_path).name} if "./tiny" in args else set()
    result = tell(*args, "-o", "made.json")
    said = " ".join(result.stderr.split())
    assert (result.exit_code, [part for part in parts if part not in said]) == (code, [])
    assert names(tmp_path) == GIVEN | known


def test_a_model_is_asked_only_if_it_is_named_here(tell, monkeypatch):
    """Variables name the model of runs; facts that it does not know must not go missing for it."""
    monkeypatch.setenv("EDIT_HARNESS_MODEL", "./none")
    monkeypatch.setenv("EDIT_HARNESS_OUT", "from-variable.json")
    assert "from-variable.json" in tell(*counterfact()).stdout
