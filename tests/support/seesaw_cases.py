"""Cases as those of Seesaw-CF, of invented people, and the answers to them."""

from __future__ import annotations

from support.builders import REQUEST, scores

from edit_harness import Case, Choose, Generate, Key, Probe, Task, Text, Verdict
from edit_harness.folder.record import Record
from edit_harness.folder.table import RunTable

WORK = ("physics", "chemistry", "law", "music")
ASPECTS = (
    "anglo-centrism", "sexism", "religion", "xenophobia", "classism", "racism", "conservatism",
)  # fmt: skip
ABOUT = {
    "subject": "Ada",
    "property": "gender",
    "old": "male",
    "new": "female",
    "aspects": {name: f"what {name} is" for name in ASPECTS},
    "definitions": "people",
    "reflected": True,
}
CLOSE = 1e-12
"""Relative or absolute: means of a few numbers differ by roundings of their order alone."""


def person(**tags):
    """A prompt on another person, of whom the new value is true."""
    return Probe("cross-subject", Choose("Eve works in", ("law", "music")), tags)


def effect(gold="", candidates=WORK, prompt="Ada works in"):
    return Probe("cross-property", Choose(prompt, candidates), {"gold": gold} if gold else {})


def description(**about):
    return Probe(
        "description", Generate("Ada is", top_k=5), key=Key("compare", about=ABOUT | about)
    )


def case(*probes, name="0", **tags):
    return Case(name, (REQUEST,), probes, tags)


def sure(difference):
    """An answer of which D is the difference, in (-1, 1)."""
    old = (1 - difference) / 2
    return scores([old + difference], [old])


def compared(status="decided", score=1.0, **fields):
    return Text("text", Verdict(status, score if status == "decided" else None, **fields))


def cells(metric, cases, answers):
    """Return the columns of a metric's values of cases, as a run has them."""
    records = [
        Record(each.id, "ok", {"it": metric.measure(each, before, after)})
        for each, (before, after) in zip(cases, answers, strict=True)
    ]
    return RunTable.of(records).columns("it")


def tables(metric, cases, answers):
    return metric.tables(cases, cells(metric, cases, answers))


class Invented(Task):
    """Cases of two sets, with all kinds of probes; some lack a tag or a label."""

    metrics = ("success", "confidence", "cross-property", "flaws", "judging")

    def cases(self):
        for i in range(12):
            edited, asked = [("P21", "P101"), ("P27", "P21")][i % 2]
            candidates = WORK if asked == "P101" else ("male", "female")
            people = [
                person(gender="male", race="Black|Jewish", geo="Africa"),
                person(gender="female", race="white"),
                person(),
            ]
            yield case(
                Probe("efficacy", Choose(REQUEST.text, ("Paris", "Rome"))),
                *people[: 1 + i % 3],
                effect(candidates[i % 2] if i % 4 else "", candidates),
                description(),
                description(),
                name=f"{edited}_{asked}-{i}",
                set=f"{edited}_{asked}",
                edited=edited,
                effect=asked,
                **({"continent": ["Asia", "Europe"][i % 4 // 2]} if edited == "P27" else {}),
            )
