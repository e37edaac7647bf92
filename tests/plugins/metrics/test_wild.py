"""Answers in the wild: sixty pairs made by hand, and what a case comes to."""

import numpy as np
import pytest

import edit_harness as eh
from edit_harness.model.generate import stop_at
from edit_harness_plugins.metrics.wild import Wild, contained, exact, normalised
from edit_harness_plugins.tasks._files.wild import STOPS

PAIRS = [
    # target, what is generated, the answer that is left, exact, contained
    ("Paris", " Paris.", " Paris", 1, 1),
    ("Paris", " Paris\nLondon", " Paris", 1, 1),
    ("Paris", " Paris", " Paris", 1, 1),
    ("Paris", "Paris. Paris is", "Paris", 1, 1),
    ("Paris", " paris", " paris", 1, 1),
    ("Paris", " PARIS!", " PARIS!", 1, 1),
    ("Paris", " Paris, France.", " Paris, France", 0, 1),
    ("Paris", " It is Paris.", " It is Paris", 0, 1),
    ("Paris", " Paris Paris Paris", " Paris Paris Paris", 0, 1),
    ("Paris", " Paris, Paris, Paris.", " Paris, Paris, Paris", 0, 1),
    ("Paris", " Parisian", " Parisian", 0, 0),
    ("Paris", " Rome.", " Rome", 0, 0),
    ("Paris", "", "", 0, 0),
    ("Paris", ".Paris", "", 0, 0),
    ("Paris", "\nParis", "", 0, 0),
    ("Paris", "\n\nParis.", "", 0, 0),
    ("Paris", "  Paris  ", "  Paris  ", 1, 1),
    ("Paris", " Par is", " Par is", 0, 0),
    # A full stop that is part of the name.
    ("St. Petersburg", " St. Petersburg.", " St", 0, 0),
    ("St. Petersburg", " St Petersburg.", " St Petersburg", 1, 1),
    ("St. Petersburg", " Saint Petersburg", " Saint Petersburg", 0, 0),
    ("St.", " St. Petersburg", " St", 1, 1),
    ("Washington D.C.", " Washington D.C.", " Washington D", 0, 0),
    ("Washington D.C.", " Washington DC", " Washington DC", 1, 1),
    ("J. R. R. Tolkien", " J. R. R. Tolkien", " J", 0, 0),
    ("J.R.R. Tolkien", " JRR Tolkien.", " JRR Tolkien", 1, 1),
    ("3.5", " 3.5", " 3", 0, 0),
    ("3.5", " 3,5", " 3,5", 1, 1),
    ("3.5", " 35", " 35", 1, 1),
    ("3.0", " 3.0 million", " 3", 0, 0),
    ("3", " 3.5", " 3", 1, 1),
    ("17.190.636", " 17.190.636", " 17", 0, 0),
    ("1952.", " 1952.", " 1952", 1, 1),
    ("$400,000", " 400000", " 400000", 1, 1),
    ("1,000", " 1000 people", " 1000 people", 0, 1),
    ("1,000", " 1 000", " 1 000", 0, 0),
    # Articles, and words that have them in them.
    ("the Beatles", " Beatles", " Beatles", 1, 1),
    ("Beatles", " The Beatles.", " The Beatles", 1, 1),
    ("An apple a day", " apple day", " apple day", 1, 1),
    ("The The", " the", " the", 1, 1),
    ("Theo", " the o", " the o", 0, 0),
    ("Anna", " an Anna", " an Anna", 1, 1),
    ("a-ha", " aha", " aha", 1, 1),
    ("A-ha", " ha", " ha", 0, 0),
    ("The-Band", " Band", " Band", 0, 0),
    ("vitamin A", " vitamin", " vitamin", 1, 1),
    # Lists.
    ("Malia and Sasha", " Sasha and Malia", " Sasha and Malia", 0, 0),
    ("Malia and Sasha", " Malia", " Malia", 0, 0),
    ("Malia, Sasha", " Malia Sasha", " Malia Sasha", 1, 1),
    ("Malia", " Malia, Sasha and Susan", " Malia, Sasha and Susan", 0, 1),
    ("red, white", " white, red", " white, red", 0, 0),
    # Blanks, signs and letters.
    ("New  York", " New\tYork", " New\tYork", 1, 1),
    ("New York", " New\u00a0York", " New\u00a0York", 1, 1),
    ("rock'n'roll", " rocknroll", " rocknroll", 1, 1),
    ("rock-n-roll", " rock n roll", " rock n roll", 0, 0),
    ("male", " female", " female", 0, 0),
    ("Zürich", " ZÜRICH", " ZÜRICH", 1, 1),
    ("Zürich", " Zurich", " Zurich", 0, 0),
    ("71–74", " 71-74", " 71-74", 0, 0),
    ("(yes)", ' "Yes"', ' "Yes"', 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("target", "generated", "answer", "right", "within"), PAIRS)
def test_sixty_answers(target, generated, answer, right, within):
    cut = generated[: stop_at(generated, STOPS)]
    assert cut == answer
    assert (exact(target, cut), contained(target, cut)) == (bool(right), bool(within))
    assert normalised(normalised(target)) == normalised(target)


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
    ((_, rows),) = Wild().tables([], {n: np.array(v) for n, v in columns.items()}).items()
    assert [[*row.values()] for row in rows] == [["the edited prompt", 75.0, 50.0, 25.0]]
