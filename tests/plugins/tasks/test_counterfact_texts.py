"""The texts that CounterFact asks for, and the references that they are compared with."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.builders import SNIPPETS, record, with_texts
from support.complaints import complaint

import edit_harness as eh
from edit_harness import ModelSource
from edit_harness.files import sha256_of
from edit_harness.folder.encoding import decode_answer
from edit_harness.folder.folder import RunFolder
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import make_task
from edit_harness_plugins.downloads import Remote
from edit_harness_plugins.metrics.texts import Consistency, Fluency
from edit_harness_plugins.models.pocket import Pocket
from edit_harness_plugins.tasks.counterfact import snippets
from edit_harness_plugins.tasks.counterfact.counterfact import CounterFact, CounterFactPlus
from edit_harness_plugins.texts import find


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(folder))
    find.cache_clear()
    return folder


def texts(case):
    return [probe.query for probe in case.probes if probe.role == "generation"]


def test_texts_are_asked_for_as_in_the_paper(store):
    record_ = record() | {"generation_prompts": ["Ada works", "Ada goes", "Ada works"]}
    path = store(record_)
    (case,) = CounterFact(path, generation=1).cases()
    (plain,) = CounterFact(path).cases()
    queries = texts(case)
    assert [query.prompt for query in queries] == record_["generation_prompts"]
    assert {(q.top_k, q.max_tokens, q.to_the_end) for q in queries} == {(5, 100, True)}
    assert all(q.max_new_tokens >= 100 for q in queries)
    assert case.probes[: len(plain.probes)] == plain.probes
    assert case.tags == plain.tags == {"relation": "P551"}
    (plus,) = CounterFactPlus(path, generation=1).cases()
    assert texts(plus) == queries


def test_every_text_has_a_seed_of_its_own_from_that_of_the_run(tmp_path):
    def seeds(**settings):
        return [q.seed for case in with_texts(tmp_path, 3, **settings).cases() for q in texts(case)]

    first = seeds(generation=1)
    assert len(set(first)) == len(first) == 3
    assert not set(seeds(generation=1, seed=1)) & set(first)
    assert seeds(generation=2) == [first[0], first[2]]
    assert seeds(generation=10) == first[:1]
    assert seeds() == []
    made = make_task(Plugins.installed(), "counterfact", {}, ModelSource("m"), seed=3)
    assert made.value.seed == 3


def test_a_case_names_its_references_and_does_not_hold_them(tmp_path):
    (case,) = with_texts(tmp_path, 1, generation=1).cases()
    library = find(case.tags["library"])
    assert case.tags == {"relation": "P551", "topic": "P551/Q90", "library": case.tags["library"]}
    joined = "Marie lives in the city of Paris. Ann is of Paris."
    assert library.likeness("P551/Q90", joined) == pytest.approx(1)
    assert library.likeness("P551/Q220", joined) == 0


def test_other_references_are_another_library(tmp_path, store, cache):
    def name(*data):
        task = with_texts(tmp_path, 1, generation=1)
        store(*data, name="snippets.json")
        return next(iter(task.cases())).tags["library"]

    assert name(*SNIPPETS) != name(*SNIPPETS[:1])
    assert len(list((cache / "references").iterdir())) == 2
    # Entries of one topic are joined.
    assert len(snippets.read(Path(store(*SNIPPETS[:1] * 2)))["P551/Q90"]) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "has not the layout"),
        ('[{"relation_id": "P1"}]', "has not the layout"),
        ('[{"relation_id": "P1", "target_id": "Q1", "samples": []}]', "has no reference texts"),
    ],
)
def test_references_that_are_of_no_use(tmp_path, store, text, said):
    task = with_texts(tmp_path, 1, generation=1)
    store(name="snippets.json", text=text)
    assert said in complaint(task).cause


def test_the_model_brings_its_references_along_with_its_sample(tmp_path):
    made = with_texts(tmp_path, 1)
    source = ModelSource("m", data={"counterfact": made.data, "references": made.references})
    bound = CounterFact(generation=1).bind(source)
    assert bound.references == made.references
    assert bound.notes == ("RS is of the texts in snippets.json, not of the authors' references",)
    assert CounterFact(generation=1, references="none").bind(source).references == "none"
    # Its world has nothing on the objects of other data.
    (case,) = CounterFact(made.data, generation=1).bind(source).cases()
    assert "library" not in case.tags
    bare = CounterFact(generation=1).bind(ModelSource("m", data={"counterfact": made.data}))
    assert "no RS" in bare.notes[0]


@pytest.fixture
def authors(cache, tmp_path, monkeypatch):
    """Put small files into the cache as if they had been downloaded."""
    cache.mkdir()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (cache / "attribute_snippets.json").write_text(json.dumps(SNIPPETS), encoding="utf-8")
    np.save(cache / "idf.npy", np.array([3.0, 1.0]))
    (cache / "tfidf_vocab.json").write_text('{"paris": 1, "city": 0}', encoding="utf-8")
    for constant in ("TEXTS", "IDF", "VOCABULARY"):
        remote = getattr(snippets, constant)
        known = Remote(remote.urls, remote.name, 0, sha256_of(cache / remote.name))
        monkeypatch.setattr(snippets, constant, known)
    return with_texts(tmp_path, 1, generation=1, references="authors")


def test_the_authors_weights_are_used_for_their_texts_once(authors, cache):
    assert authors.notes == ()
    (case,) = authors.cases()
    library = find(case.tags["library"])
    # Their vector is that of one "city" of weight 3 and two "paris" of weight 1.
    assert library.likeness("P551/Q90", "city") == pytest.approx(3 / np.hypot(3, 2))
    assert library.likeness("P551/Q90", "lives") == 0
    (cache / "attribute_snippets.json").unlink()
    assert list(authors.cases()) == [case], "the library is enough"


def test_weights_and_words_that_do_not_fit(authors, cache, monkeypatch):
    np.save(cache / "idf.npy", np.ones(3))
    monkeypatch.setattr(snippets, "IDF", replace(snippets.IDF, sha256=""))
    assert "tfidf_vocab.json has 2 words, idf.npy 3" in complaint(authors).cause


def test_numbers_are_recomputed_from_the_run_folder(tmp_path):
    """Without the model; the references are in no cache, so the task fills it again."""
    settings = {"generation": 2}
    run = eh.evaluate("none", "counterfact", task_args=settings, limit=2, output=tmp_path / "runs")
    assert 0.05 < run.estimates["post_RS"].value < 0.8
    assert 4 < run.estimates["post_GE"].value < 6.3
    find.cache_clear()
    for path in (tmp_path / "cache" / "references").iterdir():
        path.unlink()
    list(CounterFact(**settings).bind(Pocket()).cases())
    folder = RunFolder(run.folder.path)
    cases, records = {case.id: case for case in folder.cases().values()}, folder.records()
    assert [bool(r.values["fluency"]) for r in records] == [True, False]
    for stored in records:
        before, after = ([decode_answer(a) for a in part] for part in (stored.before, stored.after))
        for name, metric in (("fluency", Fluency()), ("consistency", Consistency())):
            values = metric.measure(cases[stored.case], before, after)
            assert values == stored.values[name]
