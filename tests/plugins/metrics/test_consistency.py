"""RS against published reference numbers, of ten digits, hence a limit of 1e-9."""

import json
from dataclasses import replace

import pytest
from support.builders import DATA, case

from edit_harness import DataError, Generate, Probe, Text
from edit_harness_plugins.metrics.texts import Consistency
from edit_harness_plugins.texts import Library, Weights, find, keep, name_of

GOLDEN, CORPUS = (DATA / "golden" / name for name in ("open.json", "corpus.json"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    find.cache_clear()


def asked(library, topic, *prompts):
    probes = (Probe("generation", Generate(prompt)) for prompt in prompts)
    return replace(case(*probes), tags={"library": library, "topic": topic})


def told(*texts):
    return [Text(text) for text in texts]


def kept(texts, weights=None):
    name = name_of(str(texts))
    keep(name, lambda: Library.of(texts, weights))
    return name


def test_the_reference_numbers():
    if not GOLDEN.exists():
        pytest.skip(f"{GOLDEN} is not here")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["gpt2-tiny"]["results"]["texts"]
    weights = Weights.fitted(json.loads(CORPUS.read_text(encoding="utf-8"))["texts"])
    name = kept({"P1/Q1": golden["reference_texts"]}, weights)
    for text, expected in zip(golden["texts"], golden["tfidf_pairwise"], strict=True):
        values = Consistency().measure(asked(name, "P1/Q1", ""), told("Rome"), told(text))
        assert values["post_RS"] == pytest.approx(expected, abs=1e-9)
    whole = asked(name, "P1/Q1", *[""] * len(golden["texts"]))
    values = Consistency().measure(whole, told(*golden["texts"]), told(*golden["texts"]))
    assert values["pre_RS"] == values["post_RS"]
    assert values["post_RS"] == pytest.approx(golden["reference_score"], abs=1e-9)


def test_the_prompts_belong_to_the_texts():
    name = kept({"P1/Q1": ["Ada", "lives in Rome"], "P1/Q2": ["Oslo"]})
    values = Consistency().measure(
        asked(name, "P1/Q1", "Ada lives", "in"), told(" Oslo", ""), told(" in", " Rome lives")
    )
    assert 0 < values["pre_RS"] < values["post_RS"]
    exact = Consistency().measure(asked(name, "P1/Q1", "Ada"), told(""), told(" lives in Rome"))
    assert exact["post_RS"] == pytest.approx(1)


def test_without_references_there_is_no_number():
    texts = told("Rome")
    assert Consistency().measure(case(Probe("generation", Generate("a"))), texts, texts) == {}
    unknown = asked(kept({"P1/Q1": ["Ada"]}), "P1/Q9", "a")
    assert Consistency().measure(unknown, texts, texts) == {}


def test_references_that_have_gone():
    with pytest.raises(DataError, match="not there"):
        Consistency().measure(asked(name_of("gone"), "P1/Q1", "a"), told("b"), told("b"))


def test_the_references_are_part_of_what_identifies_a_run(tmp_path):
    """Item 6 of issue I: other texts under the same name in the cache are another run."""
    name = kept({"P1/Q1": ["Rome and Oslo"]})
    cases = [asked(name, "P1/Q1", ""), case()]
    first = Consistency().provenance(cases)
    assert set(first) == {name}
    other = kept({"P1/Q1": ["Rome, Rome and Oslo"]})
    folder = tmp_path / "references"
    (folder / f"{other}.npz").replace(folder / f"{name}.npz")
    find.cache_clear()
    assert Consistency().provenance(cases) != first
    assert Consistency().provenance([case()]) == {}
