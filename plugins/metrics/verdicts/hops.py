"""Does an edit reach the end of a chain? Edit-wise, instance-wise and multi-hop accuracy, from verdicts.

After Zhong et al. (2023). One right answer to an instance's questions is enough. What is not judged is left
out, and with it every number that the verdicts that are there do not decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from edit_harness import Answer, Case, Measure, Scores, Verdict
from edit_harness.stats import column_means
from edit_harness_plugins.citations import MQUAKE

from ..answers import Sides, counted, every, some

EDIT, HOP, OLD_HOP, QUESTION = "efficacy", "single-hop", "old-single-hop", "multi-hop"
WINS, EDITS = " successes", " edits"
"""End the names of columns that say of how many edits a share is, and how many succeed."""
PAPER = "Zhong et al. (2023)"
SHOWN = {
    "MH-old before": "pre_MH-old", "MH before": "pre_MH", "MH-old": "post_MH-old", "MH": "post_MH",
    "IW": "post_IW",
}  # fmt: skip
"""What tables by the length of chains show, and the columns that it is the mean of."""


class MultiHop(Sides):
    """Is the chain's new end named, and are its links? Shares over instances, and over edits.

    MH-old before the edit is what the paper calls pre-edit accuracy; after it, what stays with the old
    answer.
    """

    citation = MQUAKE
    measures: ClassVar[Mapping[str, Measure]] = {
        "MH": Measure(
            "share of instances with the new answer to one of the questions at least",
            source=f"{PAPER}, multi-hop accuracy", probes=(QUESTION,),
        ),
        "MH-old": Measure(
            "share of instances with the old answer to one of the questions at least", "lower",
            source=f"{PAPER}, multi-hop accuracy before the edit", probes=(QUESTION,), known=True,
        ),
        "EW": Measure(
            "share of edits whose new object is argmax after the cloze prompt, over the edits of all "
            "instances together (n counts instances)",
            source=f"{PAPER}, edit-wise success rate; prompts are the cloze ones, without aliases",
            probes=(EDIT,),
        ),
        "IW": Measure(
            "share of instances all of whose links, as they are after the edit, are answered right",
            source=f"{PAPER}, instance-wise accuracy", probes=(HOP,),
        ),
        "IW-old": Measure(
            "share of instances all of whose links, as they were, are answered right", "lower",
            source=f"{PAPER}, instance-wise accuracy before the edit", probes=(OLD_HOP,),
            detail=True,
        ),
        "SH": Measure(
            "share of links, as they are after the edit, that are answered right",
            source="ours, the links of IW one by one", probes=(HOP,), detail=True,
        ),
        "MH-mean": Measure(
            "share of questions with the new answer",
            source="ours, beside the paper's one of three", probes=(QUESTION,), detail=True,
        ),
    }  # fmt: skip

    def read(self, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
        """Return the shares, and the numbers of edits."""
        new, old = (_right(_verdicts(case, answers, role)) for role in (HOP, OLD_HOP))
        links = _told({"IW": every(new), "SH": _share(new)}, new)
        links |= _told({"IW-old": every(old)}, old)
        return _edits(case, answers) | links | _ends(case, answers)

    def wrong(self, case: Case) -> dict[str, float]:
        """Count a failed edit as wrong everywhere; what it left of the old is not counted."""
        roles = [probe.role for probe in case.probes]
        values = {
            name: 0.0
            for name, measure in self.measures.items()
            if measure.better == "higher" and measure.probes[0] in roles
        }
        if EDIT in roles:
            values |= {f"EW{WINS}": 0.0, f"EW{EDITS}": float(roles.count(EDIT))}
        return values

    def summarize(self, columns: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return the means over instances; of EW, over all edits."""
        means = column_means({n: c for n, c in columns.items() if not n.endswith((WINS, EDITS))})
        for name in [name for name in columns if name.endswith("_EW")]:
            # Counts, since shares times their numbers would round.
            wins, edits = (np.nansum(columns[name + end]) for end in (WINS, EDITS))
            means[name] = float(wins / edits) if edits else float("nan")
        return means

    def tables(
        self, cases: Sequence[Case], columns: Mapping[str, np.ndarray]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the shares by the number of links and by the number of edits."""
        groups = {"by number of hops, %": "hops", "by number of edits, %": "edits"}
        found = {title: _rows(tag, cases, columns) for title, tag in groups.items()}
        return {title: rows for title, rows in found.items() if rows}


def _rows(
    tag: str, cases: Sequence[Case], columns: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """Return a row for every value of a tag; shares are in percent."""
    values = np.array([case.tags.get(tag, "") for case in cases])
    shown = {title: columns[name] for title, name in SHOWN.items() if name in columns}
    return [
        {tag: value, "cases": int((values == value).sum())}
        | {title: _percent(column[values == value]) for title, column in shown.items()}
        for value in sorted({*values.tolist()} - {""}, key=lambda text: (len(text), text))
    ]


def _percent(column: np.ndarray) -> float | None:
    """Return how many in a hundred are 1, of those with a value."""
    count = np.count_nonzero(~np.isnan(column))
    return float(100 * np.nansum(column) / count) if count else None


def _edits(case: Case, answers: Sequence[Answer]) -> dict[str, float]:
    """Return the share of edits whose new object comes first among all tokens, and its counts."""
    found = [
        answer.exact(0)
        for probe, answer in zip(case.probes, answers, strict=True)
        if probe.role == EDIT and isinstance(answer, Scores)
    ]
    if not found:
        return {}
    return {"EW": fmean(found), f"EW{WINS}": float(sum(found)), f"EW{EDITS}": float(len(found))}


def _ends(case: Case, answers: Sequence[Answer]) -> dict[str, float]:
    """Return whether one of the questions gets the new answer, or the old one."""
    verdicts = _verdicts(case, answers, QUESTION)
    right = _right(verdicts)
    reverted = [None if verdict is None else verdict.reverted for verdict in verdicts]
    values = {"MH": some(right), "MH-old": some(reverted), "MH-mean": _share(right)}
    return _told(values, verdicts)


def _told(values: Mapping[str, float | None], asked: Sequence[Any]) -> dict[str, float]:
    """Return the values that are known, as numbers; none if nothing was asked."""
    return {name: float(v) for name, v in values.items() if asked and v is not None}


def _share(found: Sequence[bool | None]) -> float | None:
    """Return the share of what is true; None if something is not known."""
    known = [each for each in found if each is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _right(verdicts: Sequence[Verdict | None]) -> list[bool | None]:
    return [None if verdict is None else verdict.score == 1 for verdict in verdicts]


def _verdicts(case: Case, answers: Sequence[Answer], role: str) -> list[Verdict | None]:
    """Return the verdicts on the probes of a role; None in the place of one that does not count."""
    pairs = zip(case.probes, answers, strict=True)
    return [counted(answer) for probe, answer in pairs if probe.role == role]
