"""Does the model follow an edited rule? The measures of RULE-EDIT, from a judge's verdicts.

After the paper's Rel, Gen, Loc, IP, RU and HG. What the judge could not decide counts as wrong, and its share
is given; what it has not judged yet is left out. Rev, the parts of IP, RU and HG, and two localities are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from edit_harness import Answer, Case, Measure, Metric, Probe, Text, Verdict
from edit_harness.stats import column_means
from edit_harness_plugins.citations import RULE_EDIT

from ..answers import Sides, counted, means

if TYPE_CHECKING:
    import numpy as np

NEIGHBORHOOD, HIERARCHY = "neighborhood", "hierarchy"
ANSWERS = {"efficacy": "Rel", "paraphrase": "Gen", "instance": "IP"}
"""What the share of right answers to the probes of a role is called."""
UNDERSTANDING = "understanding"
FORMS = {"formula": "RU-f", "description": "RU-d"}
SPLIT = {
    UNDERSTANDING: ("of", FORMS),
    "instance": ("kind", {"direct": "IP-direct", "steps": "IP-steps"}),
}
"""The roles whose probes are of several parts: the tag that tells, and the name of each part's share."""
CHECKS = " checks"
"""Ends the name of a column that says how many checks a share is of."""
ASKING = (*ANSWERS, UNDERSTANDING, HIERARCHY)
"""The roles that ask for what the edit makes right."""
PAPER = "RULE-EDIT, Tables 1-3"
OURS = "ours, beside those of RULE-EDIT"
PIECE = re.compile(r"\w+|[^\w\s]")


def _measure(role: str, formula: str, source: str = OURS, *, detail: bool = False) -> Measure:
    return Measure(formula, detail=detail, source=source, probes=(role,))


def _share(prompts: str, source: str, role: str, *, detail: bool = False) -> Measure:
    return _measure(role, f"share of right answers, {prompts}", source, detail=detail)


_locality, _checked = partial(_measure, NEIGHBORHOOD), partial(_measure, HIERARCHY)


class Judged(NamedTuple):
    """A probe that asks for the new rule, and the verdict on its reply."""

    probe: Probe
    verdict: Verdict

    @property
    def score(self) -> float:
        """1 for a right reply, 0 for a wrong or undecided one."""
        return self.verdict.score or 0.0


def judged(case: Case, answers: Sequence[Answer]) -> list[Judged]:
    """Return what has been judged of what the edit makes right."""
    return [
        Judged(probe, verdict)
        for probe, answer in zip(case.probes, answers, strict=True)
        if _asks(probe) and (verdict := counted(answer))
    ]


def _asks(probe: Probe) -> bool:
    return probe.key is not None and probe.role in ASKING


class RuleAnswers(Sides):
    """Right answers about the edited rule, each the mean over a case's probes, then over cases.

    RU is the mean of its two parts where a case has both, as when instances are written; a case of
    which one part has not been judged has no RU.
    """

    citation = RULE_EDIT
    measures: ClassVar[Mapping[str, Measure]] = {
        "Rel": _share("the edited prompts", PAPER, "efficacy"),
        "Gen": _share("their rephrasings", PAPER, "paraphrase"),
        "IP": _share("instances that were not written", PAPER, "instance"),
        "RU": _share("the rule in the other form; or (RU-f + RU-d)/2", PAPER, "understanding"),
        "Rev": Measure(
            "share of answers that are right by the old rule, all prompts", "lower",
            source=OURS, probes=ASKING,
        ),
        "IP-direct": _share("instances asked at once", OURS, "instance", detail=True),
        "IP-steps": _share("instances worked out", OURS, "instance", detail=True),
        "RU-f": _share("the formula", PAPER, "understanding", detail=True),
        "RU-d": _share("the description", PAPER, "understanding", detail=True),
        "Undecided": Measure(
            "share of answers that the judge could not decide, all prompts; they count as wrong",
            "lower", detail=True, source=OURS, probes=ASKING,
        ),
    }  # fmt: skip

    def read(self, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
        """Return the shares; before the edit, Rev is what was known of the old rule."""
        found = judged(case, answers)
        shares = means((name, each.score) for each in found for name in _names(each.probe))
        shares = _with_understanding(shares, case)
        if found:
            shares["Rev"] = fmean(each.verdict.reverted for each in found)
            shares["Undecided"] = fmean(each.verdict.status == "undecided" for each in found)
        return shares

    def wrong(self, case: Case) -> dict[str, float]:
        """Count a failed edit as wrong answers; it has neither reverted nor undecided ones."""
        return _with_understanding(dict.fromkeys(_asked(case), 0.0), case)


def _with_understanding(shares: Mapping[str, float], case: Case) -> dict[str, float]:
    """Add RU, if what a case asks for it has all been judged."""
    parts = [name for name in FORMS.values() if name in _asked(case)]
    if not parts or not all(name in shares for name in parts):
        return dict(shares)
    return {**shares, "RU": fmean(shares[name] for name in parts)}


def _asked(case: Case) -> dict[str, None]:
    """Return the shares of right answers that a case's probes belong to, in their order."""
    return dict.fromkeys(name for probe in case.probes if _asks(probe) for name in _names(probe))


def _names(probe: Probe) -> list[str]:
    """Return which shares of right answers a probe belongs to, RU as a whole left out."""
    tag, parts = SPLIT.get(probe.role, ("", {}))
    names = ANSWERS.get(probe.role), parts.get(probe.tags.get(tag, ""))
    return [name for name in names if name]


class RuleLocality(Metric):
    """Do other rules stay as they were? Replies after the edit against those before, by three rules.

    What the replies are worth does not matter. There is no ``pre_`` value, which would be 1.
    """

    citation = RULE_EDIT
    measures: ClassVar[Mapping[str, Measure]] = {
        "Loc": _locality(
            "share of the first L words and symbols that are as before the edit, L those of the reply "
            "before; prompts on other rules",
            f"{PAPER}, whose values fit an overlap of tokens; EasyEdit's is of ids of tokens",
        ),
        "Loc-exact": _locality("share of replies that are the same text, prompts on other rules"),
        "Loc-sem": _locality(
            "share of replies that say the same by the judge, prompts on other rules",
            f"{PAPER}, whose text has a judge compare replies",
        ),
        "Loc-same-shape": _locality("Loc, rules of the same shape", detail=True),
        "Loc-other-shape": _locality("Loc, rules of other shapes", detail=True),
        "Loc-undecided": replace(
            _locality(
                "share of replies of which the judge could not tell; Loc-sem counts them as changed",
                detail=True,
            ),
            better="lower",
        ),
    }

    def measure(
        self, case: Case, before: Sequence[Answer], after: Sequence[Answer]
    ) -> dict[str, float]:
        """Return the mean over the prompts on other rules, after the edit."""
        values = means(
            found
            for probe, old, new in zip(case.probes, before, after, strict=True)
            if _neighbor(probe) and isinstance(old, Text) and isinstance(new, Text)
            for found in _kept(probe, old, new).items()
        )
        return {f"post_{name}": values[name] for name in self.measures if name in values}

    def failed(self, case: Case, before: Sequence[Answer]) -> dict[str, float]:
        """Count a failed edit as one that has left nothing as it was."""
        found = {name for probe in case.probes if _neighbor(probe) for name in _localities(probe)}
        return {f"post_{name}": 0.0 for name in self.measures if name in found}


def _neighbor(probe: Probe) -> bool:
    return probe.role == NEIGHBORHOOD and probe.key is not None


def _localities(probe: Probe) -> list[str]:
    kind = probe.tags.get("kind", "").replace("_", "-")
    return ["Loc", "Loc-exact", "Loc-sem", f"Loc-{kind}"]


def _kept(probe: Probe, old: Text, new: Text) -> dict[str, float]:
    """Return how much of one reply is as before, by each rule that can tell."""
    share = agreement(old.text, new.text)
    values = dict.fromkeys(_localities(probe), share)
    values["Loc-exact"] = float(old.text.strip() == new.text.strip())
    del values["Loc-sem"]
    if verdict := counted(new):
        values["Loc-sem"] = verdict.score or 0.0
        values["Loc-undecided"] = float(verdict.status == "undecided")
    return values


def agreement(old: str, new: str) -> float:
    """Return the share of the words and symbols of the old text that the new one has in its place.

    EasyEdit compares ids of tokens; a text is cut here into runs of letters and digits, and single
    other signs. What the new text lacks differs, and what it has more is not looked at. An empty
    text agrees with an empty one alone.
    """
    pieces, others = PIECE.findall(old), PIECE.findall(new)
    if not pieces:
        return float(not others)
    return sum(one == two for one, two in zip(pieces, others, strict=False)) / len(pieces)


PARTS: Mapping[str, Mapping[str, str]] = {
    "HG": {},
    "HG-f": {"of": "formula"},
    "HG-i": {"of": "instance"},
    "HG-published": {"link": "published"},
    "HG-ours": {"link": "ours"},
}
"""The tags that the checks of each share have."""


class RuleHierarchy(Sides):
    """Right answers about rules that depend on the edited one: all checks of all cases count alike.

    Cases have different numbers of checks, which are stored beside their shares.
    """

    citation = RULE_EDIT
    measures: ClassVar[Mapping[str, Measure]] = {
        "HG": _checked("right answers / all checks of dependent rules, pooled over cases", PAPER),
        "HG-f": _checked("HG, formulas", detail=True),
        "HG-i": _checked("HG, instances", detail=True),
        "HG-published": _checked("HG, dependences that the paper has", detail=True),
        "HG-ours": _checked("HG, dependences that are ours", detail=True),
    }

    def read(self, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
        """Return the shares of right answers, and what they are of."""
        return _pooled([(each.probe, each.score) for each in judged(case, answers)])

    def wrong(self, case: Case) -> dict[str, float]:
        """Count a failed edit as wrong in every check."""
        return _pooled([(probe, 0.0) for probe in case.probes if _asks(probe)])

    def summarize(self, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return right answers over checks, over all cases."""
        found = {}
        for name, shares in columns.items():
            if not name.endswith(CHECKS):
                checks = columns[f"{name}{CHECKS}"]
                sums = column_means({"right": shares * checks, "checks": checks})
                found[name] = sums["right"] / sums["checks"]
        return found


def _pooled(scored: Sequence[tuple[Probe, float]]) -> dict[str, float]:
    """Return the share of right answers in each part of the checks, and how many these are."""
    values: dict[str, float] = {}
    asked = [(probe.tags.items(), score) for probe, score in scored if probe.role == HIERARCHY]
    for name, part in PARTS.items():
        if scores := [score for tags, score in asked if part.items() <= tags]:
            values[name] = fmean(scores)
            values[f"{name}{CHECKS}"] = float(len(scores))
    return values
