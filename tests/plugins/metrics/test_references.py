import numpy as np
import pytest

from edit_harness import DataError, ResourceError
from edit_harness_plugins.texts import Library, Weights, find, keep, name_of

TEXTS = {"P1/Q1": ["Rome is old.", "Ada went to Rome"], "P1/Q2": ["Oslo is cold"], "P1/Q3": []}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    find.cache_clear()
    return tmp_path


def test_a_topic_is_all_its_texts_joined():
    library = Library.of(TEXTS)
    joined = " ".join(TEXTS["P1/Q1"])
    assert library.likeness("P1/Q1", joined) == pytest.approx(1)
    assert library.likeness("P1/Q1", "zebra") == 0
    assert library.likeness("P1/Q1", "Rome") > library.likeness("P1/Q2", "Rome") == 0
    assert library.likeness("P1/Q3", joined) == 0


def test_what_is_made_is_kept_and_found():
    made = Library.of(TEXTS)
    every = [text for own in TEXTS.values() for text in own]
    np.testing.assert_array_equal(made.weights.idf, Weights.fitted(every).idf)
    name = name_of("a", "b")
    assert len({name, name_of("ab"), name_of("b", "a"), name_of("a")}) == 4
    keep(name, lambda: made)
    keep(name, lambda: pytest.fail("it was made again"))
    found = find(name)
    assert found is not made
    assert found.topics == made.topics
    for topic in TEXTS:
        text = "Rome and Oslo, is it cold?"
        assert found.likeness(topic, text) == made.likeness(topic, text)


def test_one_that_is_not_there():
    with pytest.raises(DataError) as caught:
        find(name_of("a"))
    assert "not there" in caught.value.cause
    assert "edit-harness prepare" in caught.value.remedy


def test_one_that_is_damaged(cache):
    name = name_of("a")
    keep(name, lambda: Library.of(TEXTS))
    path = cache / "references" / f"{name}.npz"
    whole = path.read_bytes()
    for bad in (whole[: len(whole) // 2], b"", b"{}"):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="are damaged") as caught:
            find(name)
        assert "made anew" in caught.value.remedy
        assert not path.exists()


def test_a_cache_that_cannot_be_written(cache):
    (cache / "references").write_text("in the way")
    with pytest.raises(ResourceError, match="cannot be written"):
        keep(name_of("a"), lambda: Library.of(TEXTS))
