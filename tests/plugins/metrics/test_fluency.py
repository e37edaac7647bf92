"""GE and the words it is of, against counts by hand and published reference numbers.

The golden numbers have ten digits, hence a limit of 1e-9; 1e-12 is for sums in another order.
"""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.builders import DATA, case

from edit_harness import Generate, Probe, Text
from edit_harness_plugins.metrics.texts import Fluency, entropy
from edit_harness_plugins.metrics.treebank import tokens

GOLDEN = DATA / "golden" / "open.json"


def asked(*prompts):
    return case(*(Probe("generation", Generate(prompt)) for prompt in prompts))


def told(*texts):
    return [Text(text) for text in texts]


def naive(words):
    """Return the mean of 2/3 H2 and 4/3 H3, as the published code has it."""
    weighted = []
    for n, weight in ((2, 2 / 3), (3, 4 / 3)):
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        shares = [grams.count(gram) / len(grams) for gram in set(grams)]
        weighted.append(weight * -sum(share * math.log2(share) for share in shares))
    return sum(weighted) / 2


def test_the_reference_numbers():
    if not GOLDEN.exists():
        pytest.skip(f"{GOLDEN} is not here")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["gpt2-tiny"]["results"]["texts"]
    assert [tokens(text) for text in golden["texts"]] == golden["tokens"]
    found = [entropy(words) for words in golden["tokens"]]
    assert found == pytest.approx(golden["entropy"], abs=1e-9)
    probes, texts = asked(*[""] * len(found)), told(*golden["texts"])
    values = Fluency().measure(probes, texts[::-1], texts)
    assert values["post_GE"] == pytest.approx(golden["ge"], abs=1e-9)


@given(st.lists(st.sampled_from("abcde"), max_size=60))
@example(["a"] * 50)
@example([f"w{i}" for i in range(80)])
def test_the_entropy_is_the_naive_one(words):
    assert entropy(words) == pytest.approx(naive(words), abs=1e-12)


def test_a_text_has_its_prompt_and_the_mean_runs_over_texts():
    values = Fluency().measure(
        asked("Ada lives", "Ada"), told("", ""), told(" in Rome now", " works\n\nﬁne")
    )
    ge = (naive(["Ada", "lives", "in", "Rome", "now"]) + naive(["Ada", "works", "fine"])) / 2
    assert values["post_GE"] == pytest.approx(ge, abs=1e-12)
    assert values["post_GE-equation"] == pytest.approx(2 * ge, abs=1e-12)
    assert values["pre_GE"] == values["pre_GE-equation"] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A. Jones left (at last.) No one saw.", "A. Jones left ( at last . ) No one saw ."),
        ("In 1984. Then in 5. place", "In 1984 . Then in 5. place"),
        ("It is 3.5 m... or so", "It is 3.5 m ... or so"),
        ("Why? he asked! gladly", "Why ? he asked ! gladly"),
        ("Mr. Smith", "Mr . Smith"),  # by a list of abbreviations: Mr. Smith
        ("At 3:30, or 5,000: so", "At 3:30 , or 5,000 : so"),
        (",,,, a, b,", ", , , , a , b ,"),
        ("$5 & 10% #a @b; c*d", "$ 5 & 10 % # a @ b ; c * d"),
        ("a--b [c] {d} <e>", "a -- b [ c ] { d } < e >"),
        ('"So," he said "no" and ("yes").', "`` So , '' he said `` no '' and ( `` yes '' ) ."),
        ("«Oui» and “yes”", "« Oui » and “ yes ”"),
        ("dogs' bones aren't I'd we'll", "dogs ' bones are n't I 'd we 'll"),
        ("isn't's DON'T Rome's", "is n't 's DO N'T Rome 's"),
        ("I cannot, gonna, 'Tis so", "I can not , gon na , 'T is so"),
        (" \n ", ""),
    ],
)
def test_words_by_the_treebank_rules(text, words):
    assert tokens(text) == words.split()
