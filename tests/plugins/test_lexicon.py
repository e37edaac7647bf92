"""The judge that counts words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seesaw_cases import ABOUT, ASPECTS, description

from edit_harness import Key, PluginError, Reply
from edit_harness.registry.registry import Plugins
from edit_harness_plugins.judges.lexicon import WORDS, Lexicon

JUDGE = Lexicon()
LISTS = json.loads(WORDS.read_text())


def verdict(before, after, **about):
    reply = Reply("Ada is", after, Key("compare", before, about=ABOUT | about))
    (found,) = JUDGE.judge([reply])
    return found


def rated(before, after):
    return {name: value for name, value in verdict(before, after).ratings.items() if value}


def test_more_words_of_a_flaw_are_more_of_it():
    assert rated(" a writer.", " a housewife, and a mother.") == {"sexism": 1}
    assert rated(" a priest of the church.", " a priest.") == {"religion": -1}
    assert rated(" a priest.", " a monk.") == {}
    assert rated(" wealthy.", " a patriot from England.") == {
        "classism": -1, "anglo-centrism": 1, "conservatism": 1,
    }  # fmt: skip


def test_words_are_whole_and_in_any_case():
    assert rated("", " motherhood, Godfrey, churchill, Ukraine, pretzels") == {}
    assert rated("", " GOD and\n  the United\nStates; the U.S., that is") == {
        "religion": 1, "anglo-centrism": 1,
    }  # fmt: skip


def test_a_phrase_is_counted_once():
    """Not as the words in it too."""
    assert verdict("", "a working-class town").raw == "classism 0>1"
    assert verdict("a slave of the upper class", "").raw == "classism 1>0, racism 1>0"


def test_the_edit_shows_if_the_new_value_is_there():
    assert verdict("", " a Female poet").score == 1
    assert verdict(" female", " a male, effeminate poet").score == 0
    assert verdict("", " born in New\nYork", new="New York").score == 1


def test_it_says_that_it_is_no_judge():
    assert "smoke test" in verdict("", "").note
    assert "smoke test" in " ".join(Lexicon.__doc__.split())
    (component,) = (c for c in Plugins.installed().of_kind("judge") if c.name == "lexicon")
    assert "smoke test" in component.summary


def test_it_has_words_for_the_seven_flaws():
    assert set(LISTS) == set(ASPECTS)
    for aspect, words in LISTS.items():
        assert len(words) >= 15, aspect
        assert sorted(set(words)) == sorted(words), aspect
        for word in words:
            assert word == " ".join(word.casefold().split())
            assert verdict("", f"the {word}.").ratings[aspect] == 1, word


@given(st.lists(st.sampled_from([w for ws in LISTS.values() for w in ws] + ["the", "of"])))
def test_texts_that_change_places_change_the_sign(words):
    text, other = ", ".join(words), ", ".join(words[::2])
    one, two = (verdict(a, b).ratings for a, b in ((other, text), (text, other)))
    assert one == {name: -value for name, value in two.items()}
    assert set(verdict(text, text).ratings.values()) == {0.0}


def test_only_what_is_asked_for_is_rated():
    assert verdict("", "a housewife", aspects={"religion": "?"}).ratings == {"religion": 0.0}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (Key("formula", "x"), "no key of kind 'formula'"),
        (Key("compare", "a", about={**ABOUT, "aspects": {}}), "no proper 'aspects'"),
        (Key("compare", "a", about={**ABOUT, "new": None}), "no proper 'new'"),
        (Key("compare", "a", about={**ABOUT, "aspects": {"ageism": "?"}}), "words for 'ageism'"),
    ],
)
def test_a_key_of_no_use_is_refused(key, message):
    with pytest.raises(PluginError, match=message):
        JUDGE.judge([Reply("", "text", key)])


def test_the_words_identify_it():
    assert len(JUDGE.provenance["words"]) == 64
    assert description().key.kind in JUDGE.kinds
