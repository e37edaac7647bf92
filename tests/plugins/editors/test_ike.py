"""IKE: demonstrations word by word, retrieval against a naive oracle, and the example edits it reads."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.builders import stored
from support.editors import OnBothKinds
from support.oracles import tf_idf_cosine

from edit_harness import DataError, ModelSource, PluginError, Request
from edit_harness.files import sha256_of
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.in_context import ike, lessons
from edit_harness_plugins.editors.in_context.ike import Ike, demonstrations, fitting, framed, tfidf
from edit_harness_plugins.editors.in_context.lessons import Lesson

NAMES = ("Ada", "Bob", "Danielle", "Ann")
CITIES = ("Oslo", "Rome", "Paris", "London")
ADA = Request("{} lives in", "Ada", "Rome")
BOB = Request("{} lives in", "Bob", "Paris")


def records():
    """Return eight edits in the layout of zsRE, in words that the tiny tokenizers know."""
    live = [("lives in", "The city of", city) for city in CITIES]
    speak = [("speaks", "The mother tongue of", tongue) for tongue in ("English", "French") * 2]
    return [
        {"subject": name, "src": f"{name} {verb}", "alt": target, "rephrase": f"{other} {name} is",
         "loc": "where is the Eiffel Tower", "loc_ans": "Paris"}
        for facts in (live, speak)
        for name, (verb, other, target) in zip(NAMES, facts, strict=True)
    ]  # fmt: skip


@pytest.fixture
def data(tmp_path):
    return Path(stored(tmp_path, *records(), name="lessons.json"))


class TestIke(OnBothKinds):
    trains = False

    @pytest.fixture(autouse=True)
    def with_lessons(self, data, monkeypatch):
        monkeypatch.setattr(TestIke, "editor", Ike(k=3, data=str(data), room=100), raising=False)


def ready(data, model=None, **fields):
    editor = Ike(**{"k": 3, "data": str(data), "room": 100} | fields)
    editor.prepare(model or tiny_model())
    return editor


# What the model is shown.


def test_demonstrations_copy_update_and_retain():
    lesson = Lesson("Ann lives in", "Oslo", ("The home of Ann is", "Ann dwells in"),
                    "Bob lives in", "Rome")  # fmt: skip
    assert demonstrations(lesson) == [
        "New Fact: Ann lives in Oslo\nPrompt: Ann lives in Oslo\n\n",
        "New Fact: Ann lives in Oslo\nPrompt: The home of Ann is Oslo\n\n",
        "New Fact: Ann lives in Oslo\nPrompt: Bob lives in Rome\n\n",
    ]
    bare = Lesson("Ann lives in", "Oslo", (), "Bob lives in", "Rome")
    assert demonstrations(bare) == demonstrations(lesson)[::2]


def test_the_prefix_is_the_nearest_demonstrations_and_the_fact_and_more_facts_behind(data, model):
    prefix = ready(data, model).edit(model, [ADA]).prefix
    *shown, fact = prefix.split("\n\n")
    assert fact == "New Fact: Ada lives in Rome\nPrompt: "
    assert not any("New Fact: Ada lives in" in text for text in shown), "not even with Oslo"
    store = [text for own in lessons.read(data) for text in demonstrations(own)]
    assert len(shown) == 3
    assert {f"{text}\n\n" for text in shown} < set(store)
    assert all("lives in" in text for text in shown)
    editor = ready(data, model, k=12, room=30)
    one, both = editor.edit(model, [ADA]), editor.edit(model, [ADA, BOB])
    assert editor.extend(model, one, [BOB]).prefix == both.prefix
    assert both.prefix.endswith(
        "\n\nNew Fact: Ada lives in Rome\nNew Fact: Bob lives in Paris\nPrompt: "
    )
    # Bob's own lesson was among them, and Bob is asked for now.
    assert "New Fact: Bob lives in Rome\n" in one.prefix
    assert "New Fact: Bob lives in Rome\n" not in both.prefix
    kept = [t for t in one.prefix.split("\n\n")[:-1] if not t.startswith("New Fact: Bob lives in")]
    assert both.prefix.split("\n\n")[:-1] == kept
    assert len(kept) < one.prefix.count("\n\n")


# Retrieval.


def naive(texts, query):
    return [tf_idf_cosine(texts, text, query) for text in texts]


@pytest.mark.parametrize(
    "query", ["New Fact: Ada lives in Rome", "a Ω of OF the THE ann", "zebra 17", "", "a"]
)
def test_tf_idf_is_the_naive_formula(query):
    """The limit is for sums of floats in another order."""
    texts = ["Ada lives in Rome.", "Bob: in Oslo, in Oslo!", "x y z", "the mother tongue of Ann"]
    assert tfidf(texts)(query) == pytest.approx(naive(texts, query), abs=1e-12)


def test_the_likest_come_first_and_ties_in_the_order_of_the_file(data):
    shared = ready(data)._shared
    expected = naive(shared.demonstrations, framed(ADA.statement, ADA.text))
    order = sorted(range(len(expected)), key=lambda i: (-round(expected[i], 10), i))
    kept = [shared.demonstrations[i] for i in order if shared.prompts[i] != ADA.text]
    assert ike.nearest(shared, ADA) == kept[:3]


# Sentence embeddings, by a stand-in for the package.


class Encoder:
    """Embeds a text as its counts of two letters."""

    weights = (1.0, 1.0)

    def __init__(self, name):
        assert name == "sentence-transformers/all-MiniLM-L6-v2"

    def state_dict(self):
        return {"letters": torch.tensor(self.weights)}

    def encode(self, texts, *, normalize_embeddings):
        assert normalize_embeddings
        counts = np.array([[1 + text.count("F"), text.count("E")] for text in texts], float)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.fixture
def package(monkeypatch):
    stand_in = SimpleNamespace(SentenceTransformer=Encoder)
    monkeypatch.setitem(sys.modules, "sentence_transformers", stand_in)
    return stand_in


def test_sentence_embeddings_rank_by_their_cosine_and_without_them_there_is_a_way_out(
    data, model, package, monkeypatch
):
    editor = ready(data, model, retriever="minilm")
    assert editor.variant == ""
    shared = editor._shared
    query = framed(ADA.statement, ADA.text)
    (asked,) = Encoder(ike.MINILM).encode([query], normalize_embeddings=True)
    each = Encoder(ike.MINILM).encode(shared.demonstrations, normalize_embeddings=True)
    assert shared.likeness(query) == pytest.approx(each @ asked)

    def offline(name):
        raise OSError("offline")

    package.SentenceTransformer = offline
    with pytest.raises(DataError, match="MiniLM-L6-v2 cannot be loaded: offline") as caught:
        ready(data, model, retriever="minilm")
    assert "retriever=tfidf" in caught.value.remedy
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(PluginError, match="needs the package sentence-transformers") as caught:
        ready(data, model, retriever="minilm")
    assert "edit-harness[ike]" in caught.value.remedy


def test_lessons_and_retriever_are_part_of_what_identifies_a_run(data, model, package, monkeypatch):
    """Item 6 of issue I: each change of their bytes is another run."""
    first = ready(data, model, retriever="minilm").provenance
    assert set(first) == {"lessons", "retriever"}
    monkeypatch.setattr(Encoder, "weights", (1.0, 2.0))
    second = ready(data, model, retriever="minilm").provenance
    assert second["lessons"] == first["lessons"]
    assert second["retriever"] != first["retriever"]
    data.write_text(json.dumps(records()[:-1]))
    assert ready(data, model).provenance["lessons"] != first["lessons"]


# Room.


def test_as_many_demonstrations_as_fit_whichever_they_are_and_tables_say_how_many(data, model):
    texts = ["Ada lives in Oslo." * n for n in (1, 2, 3, 4)]
    sizes = [len(model.tokens.encode(text).ids) for text in texts]
    limit = model.tokens.limit
    assert fitting(model, texts, 16, 0) == 4
    assert fitting(model, texts, 2, 0) == 2
    for count in (1, 2, 3):
        room = limit - sum(sizes[-count:])
        assert fitting(model, texts, 16, room) == count
        assert fitting(model, texts, 16, room + 1) == count - 1
    assert fitting(model, [*texts, "Ada " * limit], 16, 0) == 0
    with pytest.raises(DataError, match="512 positions have no room") as caught:
        ready(data, model, room=500)
    assert "room=100" in caught.value.remedy
    model.tokens.limit = None
    assert fitting(model, texts, 3, 10_000) == 3
    whole = tiny_model()
    assert Ike().variant == ready(data, whole).variant == "TF-IDF"
    assert Ike().provenance == Ike().found == {}
    store = ready(data, whole)._shared.demonstrations
    longest = sorted(len(whole.tokens.encode(text).ids) for text in store)
    editor = ready(data, whole, k=8, room=whole.tokens.limit - sum(longest[-5:]))
    assert editor.variant == "TF-IDF, 5 of 8 demonstrations"
    assert editor.found == {"store": 24, "demonstrations": 5}
    assert editor.edit(whole, [ADA]).prefix.count("New Fact: ") == 5 + 1


# Example edits.


def test_the_examples_are_recorded_and_may_come_with_the_model(data, model):
    model.source = ModelSource("", data={"lessons": str(data)})
    own = ready("", model)
    assert own.provenance == {"lessons": sha256_of(data)} == ready(data).provenance
    assert own.edit(model, [ADA]).prefix == ready(data).edit(tiny_model(), [ADA]).prefix


ZSRE = {
    "subject": "Ann", "src": "Where does Ann live?", "alt": "Oslo", "answers": ["Rome"],
    "rephrase": "Ann lives where?", "loc": "nq question: who wrote faust", "loc_ans": "Goethe",
}  # fmt: skip
COUNTERFACT = {
    "requested_rewrite": {"prompt": "{} lives in", "subject": "Ann",
                          "target_new": {"str": "Oslo"}, "target_true": {"str": "Rome"}},
    "paraphrase_prompts": ["The home of Ann is"],
    "neighborhood_prompts": ["Bob lives in"],
}  # fmt: skip


@pytest.mark.parametrize("name", ["lessons.json", "lessons.jsonl"])
def test_both_layouts_are_read_without_edits_that_have_no_new_object(tmp_path, name):
    path, given = tmp_path / name, [ZSRE, ZSRE | {"alt": ""}, COUNTERFACT]
    lines = "\n".join(map(json.dumps, given))
    path.write_text(lines if name.endswith("l") else json.dumps(given), encoding="utf-8")
    assert lessons.read(path) == [
        Lesson("Where does Ann live?", "Oslo", ("Ann lives where?",), "who wrote faust?", "Goethe"),
        Lesson("Ann lives in", "Oslo", ("The home of Ann is",), "Bob lives in", "Rome"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "is no list of records"),
        ('[{"src": "a"}]', "record 0 is in the layout of neither zsRE nor CounterFact"),
        ("[3]", "record 0"),
    ],
)
def test_examples_that_are_damaged(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        lessons.read(path)


def test_examples_that_are_missing():
    with pytest.raises(DataError, match=r"no file 'nowhere\.json'"):
        lessons.find("nowhere.json", ModelSource(""))
    with pytest.raises(DataError, match="example edits are missing") as caught:
        lessons.find("", ModelSource(""))
    assert "zsre" in caught.value.remedy
