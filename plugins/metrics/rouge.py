"""How much of the right answer is in a text: ROUGE-L recall (Lin, 2004, section 3.1).

The longest common subsequence of words, over the words of the reference. Words are runs of letters and digits
in lower case, without stemming, or single signs of scripts without blanks; a text is one sentence. UnKE's code takes
the package rouge in its place: parts of a text between full stops, distinct words parted by blanks, case and
punctuation kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from edit_harness import Answer, Case, Generate, Measure, Probe, Text

from .answers import Sides, means

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"  # kana, without the dot between names
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
ROLES = {
    "efficacy": ("ERL", "the edited prompt"),
    "paraphrase": ("PRL", "its paraphrases"),
    "sub-question": ("QRL", "questions about parts of the answer"),
}
"""What the number of each role is called, and what is asked."""


def words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case; each sign of a script without blanks."""
    return WORD.findall(text.lower())


def recall(text: str, reference: str) -> float:
    """Return ROUGE-L recall, in [0, 1], for a reference that has words."""
    wanted = words(reference)
    longest = [0] * (len(wanted) + 1)
    for word in words(text):
        before = 0
        for i, other in enumerate(wanted, 1):
            here = before + 1 if word == other else max(longest[i], longest[i - 1])
            before, longest[i] = longest[i], here
    return longest[-1] / len(wanted)


def reference(case: Case, probe: Probe) -> str:
    """Return a probe's tag ``reference``, or what the case's only request writes."""
    only = case.requests[0].target_new if len(case.requests) == 1 else ""
    return probe.tags.get("reference", only)


class Rouge(Sides):
    """ROUGE-L recall of generated answers, the mean over the prompts of each role."""

    citation = (
        "Lin: ROUGE: A Package for Automatic Evaluation of Summaries. Text Summarization Branches "
        "Out, 2004"
    )
    measures: ClassVar[Mapping[str, Measure]] = {
        name: Measure(
            f"words of the reference in the longest common subsequence, {asked}",
            source="Lin (2004), section 3.1; in Deng et al. (2025) by the package rouge",
            probes=(role,),
        )
        for role, (name, asked) in ROLES.items()
    }

    def read(self, case: Case, answers: Sequence[Answer]) -> dict[str, float]:
        """Return the mean recall of each role."""
        return means(
            (ROLES[probe.role][0], recall(answer.text, reference(case, probe)))
            for probe, answer in zip(case.probes, answers, strict=True)
            if _asked(case, probe) and isinstance(answer, Text)
        )

    def wrong(self, case: Case) -> dict[str, float]:
        """Count a failed edit as an answer without a right word."""
        return {ROLES[probe.role][0]: 0.0 for probe in case.probes if _asked(case, probe)}


def _asked(case: Case, probe: Probe) -> bool:
    told = probe.role in ROLES and isinstance(probe.query, Generate)
    return told and bool(words(reference(case, probe)))
