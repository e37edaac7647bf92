"""The judge that compares words, against keys whose verdicts are known."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edit_harness import Key, PluginError, Reply
from edit_harness_plugins.judges.match import Match, within

NAMES = {"aliases": ["Roma", "Eternal City"], "old_aliases": ["Paname"]}
LETTERS = st.text(alphabet=string.ascii_letters + "éßÅ١中 .,-'", max_size=30)
SOME_WORDS = st.lists(st.sampled_from("abc"), max_size=6).map(tuple)


def verdict(text, how="equal", right="Rome", old="Paris", **about):
    key = Key("match", right, old, {**NAMES, "how": how, **about})
    (found,) = Match().judge([Reply("", text, key)])
    return found


@pytest.mark.parametrize(
    ("how", "text", "score", "reverted"),
    [
        ("equal", "Rome", 1, False),
        ("equal", "the Eternal City", 1, False),
        ("equal", "Ｒｏｍｅ", 1, False),  # full-width letters
        ("equal", "Rome, Italy", 0, False),
        ("within", "It is Rome, Italy.", 1, False),
        ("within", "Romeo lives there", 0, False),
        ("within", "Not Paris but Rome", 1, False),
        ("within", "It is Paris still", 0, True),
        ("sentence", "Rome. It lies in Italy.", 1, False),
        ("sentence", "Rome, Italy. It is old.", 0, False),
        ("sentence", "Paris. Rome.", 0, True),
    ],
)
def test_a_text_is_judged(how, text, score, reverted):
    found = verdict(text, how)
    assert (found.status, found.score, found.reverted) == ("decided", score, reverted)


@pytest.mark.parametrize(
    ("how", "name", "text", "score"),
    [
        ("within", "3.5 million", "about 3.5 million people", 1),
        ("within", "5", "It is -5 there", 0),
        ("within", "-5", "It is \u22125 there", 1),
        ("within", "C", "It is written in C++.", 0),
        ("within", "The Who", "Nobody knows who sang.", 0),
        ("equal", "The Who", "Who", 1),
        ("equal", "The", "the The", 1),  # an article alone is a word
        ("within", "東京", "日本の東京都です", 1),
        ("within", "京都", "日本の東京です", 0),
        ("within", "กรุงเทพ", "เมืองหลวงคือกรุงเทพมหานคร", 1),
        ("equal", "!!!", "!!!", 1),
        ("equal", " ", "", 0),
        ("sentence", "J. R. R. Tolkien", "J. R. R. Tolkien. He wrote it.", 1),
        ("sentence", "Washington, D.C.", "Washington, D.C. It is", 1),
    ],
)
def test_signs_and_scripts_are_looked_at(how, name, text, score):
    found = verdict(text, how, name, "", aliases=[""], old_aliases=[""])
    assert (found.score, found.reverted) == (score, False)


@given(LETTERS)
def test_a_text_equals_itself_in_other_case_and_punctuation(text):
    assert (verdict(text, right=text).score == 1) == bool(text.strip())
    if re.search(r"\w", text):
        assert verdict(f"({text.upper()})!", right=text).score == 1


@given(SOME_WORDS.filter(bool), SOME_WORDS)
def test_words_stand_within_as_in_a_text_of_marked_words(name, text):
    """The oracle is the search for a text, each word between bars."""
    marked = ["".join(f"|{word}|" for word in part) for part in (name, text)]
    assert within(" ".join(name), " ".join(text)) == (marked[0] in marked[1])


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (Key("formula", "x"), "knows no key of kind 'formula'"),
        (Key("match", "x", about={"how": "near"}), "no proper 'how': 'near'"),
        (Key("match", "x", about={"how": "equal", "aliases": "Roma"}), "no proper 'aliases'"),
    ],
)
def test_a_key_of_another_kind_is_refused(key, said):
    with pytest.raises(PluginError, match=said):
        Match().judge([Reply("", "x", key)])
