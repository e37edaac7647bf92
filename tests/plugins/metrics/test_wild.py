"""Answers in the wild: sixty pairs made by hand, and what a case comes to."""

import json

import numpy as np
import pytest
from support.builders import ROOT

import edit_harness as eh
from edit_harness.model.generate import stop_at
from edit_harness_plugins.metrics.wild import Wild, contained, exact, normalised
from edit_harness_plugins.tasks._files.wild import STOPS

PAIRS = json.loads((ROOT / "tests/support/wild_answers.json").read_text("utf-8"))
"""Target, what is generated, the answer that is left; whether it is exact, and whether the target is in it. Full stops
in names, numbers, articles and words that have them in them, lists, blanks, signs."""


@pytest.mark.parametrize(("target", "generated", "answer", "right", "within"), PAIRS)
def test_sixty_answers(target, generated, answer, right, within):
    cut = generated[: stop_at(generated, STOPS)]
    assert cut == answer
    assert (exact(target, cut), contained(target, cut)) == (bool(right), bool(within))
    assert normalised(normalised(target)) == normalised(target)


@pytest.mark.parametrize("target", [")", "The The", "A", " an"])
def test_an_empty_answer_is_never_right(target):
    for text in ("", " ", "the", "(", "!"):
        assert not exact(target, text), text
        assert not contained(target, text), text
    assert exact(target, target.upper() + " ")
    assert contained(target, f"so {target}  it is")


def answers(forced, *texts):
    """Token accuracy of the edited prompt, and texts with their tokens; the last has a verdict."""
    *rest, (text, tokens, verdict) = texts
    scores = eh.Scores(((1, 2, 3, 4),), ((-1.0,) * 4,), (forced,))
    judged = eh.Text(text, eh.Verdict("decided", verdict), tokens)
    return [scores, *(eh.Text(text, tokens=tokens) for text, tokens in rest), judged]


ASKED = [
    eh.Probe("efficacy", eh.Choose("Where?", ("St Ives",))),
    eh.Probe("paraphrase", eh.Generate("In which town?", stop=STOPS)),
    eh.Probe("neighborhood", eh.Generate("Who?", stop=STOPS)),
    eh.Probe("neighborhood", eh.Generate("When?", stop=STOPS)),
    eh.Probe("generation", eh.Generate("Ada", stop=STOPS)),
    eh.Probe("efficacy", eh.Generate("Ada lives", stop="\n")),
    eh.Probe("efficacy", eh.Generate("Where?", stop=STOPS), key=eh.Key("match", "St Ives")),
]
CASE = eh.Case("1", (eh.Request.of("Where?", "St Ives"),), tuple(ASKED))


def test_a_case_comes_to_what_is_counted_by_hand():
    """Tokens of the longer answer are the denominator, and two empty answers are equal."""
    ignored = ("St Ives", (9,)), ("St Ives", (9,))
    before = answers(
        (1, 2, 0, 0), ("Rome", (5,)), ("Bob", (6, 7)), ("", ()), *ignored, ("Rome", (5,), 0.0)
    )
    after = answers((1, 2, 3, 0), ("the St. Ives", (5,)), ("Bob Fiat", (6, 8, 9, 9)), ("", ()), *ignored, ("St Ives!", (5,), 1.0))  # fmt: skip
    assert Wild().measure(CASE, before, after) == {
        "pre_Rel-EM": 0, "pre_Rel-in": 0, "pre_Rel-judge": 0, "pre_Gen-EM": 0, "pre_Gen-in": 0, "pre_Rel-gap": 0.5,
        "post_Rel-EM": 1, "post_Rel-in": 1, "post_Rel-judge": 1, "post_Gen-EM": 1, "post_Gen-in": 1,
        "post_Rel-gap": -0.25, "post_Loc-same": (1 / 4 + 1) / 2,
    }  # fmt: skip
    failed = Wild().failed(CASE, [])
    assert failed.keys() == {n for n in Wild().measure(CASE, before, after) if n[:4] == "post"}
    assert set(failed.values()) == {0.0}
    columns = {"post_Rel-gap": [0.5, 0.0], "post_Rel-EM": [0.25, 0.75]}
    ((_, (row,)),) = Wild().tables([], {n: np.array(v) for n, v in columns.items()}).items()
    assert [*row.values()][:4] == ["the edited prompt", 75.0, 50.0, 25.0]
    ((_, (row,)),) = Wild().tables([], {n: np.array(v[:1]) for n, v in columns.items()}).items()
    assert [*row.values()][3:] == [50.0, None], "one case has no interval"


def test_the_sources_are_said_of_what_is_theirs_alone():
    sources = {name: measure.source for name, measure in Wild().measures.items()}
    ours = {name for name, source in sources.items() if source.startswith("ours")}
    assert ours == {"Rel-in", "Gen-in", "Rel-gap", "Gen-gap"}
    assert "context=qa_inst" in sources["Rel-gap"]
