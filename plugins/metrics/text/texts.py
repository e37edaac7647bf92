"""The texts that a model wrote for a case, as the metrics on texts read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from edit_harness import Answer, Case, Generate, Text

ROLE = "generation"


def written(case: Case, answers: Sequence[Answer]) -> list[str]:
    """Return the texts of a case, each with its prompt in front, cleaned as in ROME's code.

    That is NFKD, and a space for an empty line.
    """
    return [
        unicodedata.normalize("NFKD", probe.query.prompt + answer.text).replace("\n\n", " ")
        for probe, answer in zip(case.probes, answers, strict=True)
        if probe.role == ROLE and isinstance(probe.query, Generate) and isinstance(answer, Text)
    ]
