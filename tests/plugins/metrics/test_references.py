"""RS and the reference texts it is of, against the formula written out and published numbers.

The golden numbers have ten digits, hence a limit of 1e-9; 1e-12 is for sums in another order.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import DATA, case
from support.oracles import tf_idf_cosine

from edit_harness import DataError, Generate, Probe, ResourceError, Text
from edit_harness_plugins.metrics.texts import Consistency
from edit_harness_plugins.texts import Library, Weights, cosine, find, keep, name_of

GOLDEN, CORPUS = (DATA / "golden" / name for name in ("open.json", "corpus.json"))
REFERENCES = {"P1/Q1": ["Rome is old.", "Ada went to Rome"], "P1/Q2": ["Oslo is cold"], "P1/Q3": []}
POOL = ["ada", "Ada", "rome", "a", "Ünal", "in-law", "x1", "_b", "日本", ".", "the", "THE", "’s"]
TEXTS = st.lists(st.lists(st.sampled_from(POOL), max_size=12).map(" ".join), max_size=6)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    find.cache_clear()
    return tmp_path


def asked(library, topic, *prompts):
    probes = (Probe("generation", Generate(prompt)) for prompt in prompts)
    return replace(case(*probes), tags={"library": library, "topic": topic})


def told(*texts):
    return [Text(text) for text in texts]


def kept(texts, weights=None):
    name = name_of(str(texts))
    keep(name, lambda: Library.of(texts, weights))
    return name


@given(TEXTS, TEXTS)
def test_a_cosine_is_the_naive_formula(fitted, asked):
    weights = Weights.fitted(fitted)
    rows = weights.vectors(weights.counts(asked))
    for i, one in enumerate(asked):
        for j, other in enumerate(asked):
            expected = tf_idf_cosine(fitted, one, other)
            assert cosine(rows[[i]], rows[[j]]) == pytest.approx(expected, abs=1e-12)


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
    # Without references there is no number.
    texts = told("Rome")
    assert Consistency().measure(case(Probe("generation", Generate("a"))), texts, texts) == {}
    unknown = asked(kept({"P1/Q1": ["Ada"]}), "P1/Q9", "a")
    assert Consistency().measure(unknown, texts, texts) == {}


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


def test_what_is_made_is_kept_and_found():
    """A topic is all its texts joined, whose words weigh what they do in all texts one by one."""
    made = Library.of(REFERENCES)
    every = [text for own in REFERENCES.values() for text in own]
    np.testing.assert_array_equal(made.weights.idf, Weights.fitted(every).idf)
    assert made.likeness("P1/Q1", " ".join(REFERENCES["P1/Q1"])) == pytest.approx(1)
    assert made.likeness("P1/Q3", "Rome") == 0
    name = name_of("a", "b")
    assert len({name, name_of("ab"), name_of("b", "a"), name_of("a")}) == 4
    keep(name, lambda: made)
    keep(name, lambda: pytest.fail("it was made again"))
    found = find(name)
    assert found is not made
    assert found.topics == made.topics
    for topic in REFERENCES:
        text = "Rome and Oslo, is it cold?"
        assert found.likeness(topic, text) == made.likeness(topic, text)


def test_one_that_is_not_there_or_damaged_is_to_be_made_anew(cache):
    name = name_of("a")
    with pytest.raises(DataError, match="not there") as caught:
        find(name)
    assert "edit-harness prepare" in caught.value.remedy
    keep(name, lambda: Library.of(REFERENCES))
    path = cache / "references" / f"{name}.npz"
    whole = path.read_bytes()
    for bad in (whole[: len(whole) // 2], b""):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="are damaged"):
            find(name)
        assert not path.exists()
    # A cache that cannot be written.
    path.parent.rename(cache / "away")
    path.parent.write_text("in the way")
    with pytest.raises(ResourceError, match="cannot be written"):
        keep(name_of("a"), lambda: Library.of(REFERENCES))
