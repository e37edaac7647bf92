"""ROUGE-L recall by hand, and against a longest common subsequence by trying all of them."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edit_harness import Case, Generate, Probe, Request, Text
from edit_harness_plugins.metrics.rouge import Rouge, recall

BY_HAND = [
    ("Ada lived in Oslo.", "Ada lived in Oslo.", 1.0),
    ("In OSLO, ada lived", "Ada lived in Oslo.", 1 / 2),
    ("He wrote of the sea; and she, of the hills.", "She wrote of the old hills.", 2 / 3),
    ("Oslo Oslo Oslo", "Oslo, then Rome, then Oslo", 2 / 5),
    ("", "Over a decade.", 0.0),
    ("她住在罗马。", "她住在奥斯陆。", 1 / 2),
    ("アダはNHK1で働く", "アダはNHK2で働く", 6 / 7),
    ("Café 3.5 오슬로에 산다", "café, 3.5 오슬로에 살다", 4 / 5),
]


@pytest.mark.parametrize(("text", "reference", "share"), BY_HAND)
def test_pairs_by_hand(text, reference, share):
    assert recall(text, reference) == share


@given(*[st.text("abc", max_size=7)] * 2)
def test_the_longest_of_all_common_subsequences(said, wanted):
    wanted += "c"
    one, two = ({c for n in range(9) for c in combinations(own, n)} for own in (said, wanted))
    longest = max(map(len, one & two))
    assert recall(" ".join(said), " ".join(wanted)) == longest / len(wanted)


def test_a_role_has_the_mean_over_its_prompts_and_its_own_references():
    asked = (
        *(Probe(role, Generate("Who?")) for role in ("efficacy", "paraphrase")),
        *(Probe("sub-question", Generate("?"), {"reference": r}) for r in ("Oslo", "Rome", "!")),
    )
    told = [Text(t) for t in ("Ada is in Oslo", "Ada, Ada", "I think Oslo", "Oslo", "Oslo")]
    case = Case("0", (Request.of("Who?", "Ada lives in Oslo"),), asked)
    values = {"ERL": 3 / 4, "PRL": 1 / 4, "QRL": 1 / 2}
    assert Rouge().read(case, told) == values
    assert Rouge().failed(case, told).items() >= {f"post_{n}": 0.0 for n in values}.items()
