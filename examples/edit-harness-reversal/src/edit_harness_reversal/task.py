"""The task ``reversal``: a fact is written in one direction and asked for in both.

The facts, and what is wrong with a file of them, are the matter of `edit_harness_reversal.facts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from edit_harness import Case, Choose, Probe, Request, Task

from edit_harness_reversal.facts import Fact, read

OWN = Path(__file__).with_name("facts.jsonl")


@dataclass
class Reversal(Task):
    """Capitals that are moved to another country, asked for in both directions."""

    data: str = ""
    """A .jsonl file of your own facts; empty for those of the package."""

    version: ClassVar[str] = "0.1"
    metrics = ("success", "magnitude", "reversal")
    asks = (
        "Each prompt is followed by one space and each of two answers, scored under teacher forcing "
        "before and after the edit. The edited prompt (efficacy), its paraphrases, and the same prompt "
        "of subjects that the edit should leave alone (neighborhood) offer the new object and the "
        "true one. The inverse prompt (reversed) offers the edited subject and the former one."
    )
    citation = (
        "After Ma, Gu, Ling, Liu, Liu: Untying the Reversal Curse via Bidirectional Language Model "
        "Editing. arXiv 2310.10322, 2023. The facts are this package's own"
    )

    @property
    def origin(self) -> str:
        """The file's name; the record of a run has a digest of the cases beside it."""
        return self._path.name

    @classmethod
    def dataset(cls) -> Mapping[str, str]:
        """Say where the facts are from."""
        return {
            "default": "facts.jsonl of the package; or your own, data=FILE",
            "records": f"{len(list(read(OWN)))}",
            "from": "facts that the bundled model pocket knows in both directions",
            "size": f"{OWN.stat().st_size:,} bytes",
        }

    def cases(self) -> Iterable[Case]:
        """Yield a case for every fact. Raises `DataError` for a file that is not right."""
        for fact in read(self._path):
            request = Request(fact.prompt, fact.subject, fact.target_new, fact.target_true)
            tags = {"prompt": fact.prompt}
            yield Case(fact.id, (request,), tuple(_probes(fact, request)), tags)

    @property
    def _path(self) -> Path:
        return Path(self.data).expanduser() if self.data else OWN


def _probes(fact: Fact, request: Request) -> Iterator[Probe]:
    """Yield what is asked; the first candidate is what the edit is for."""
    objects = (fact.target_new, fact.target_true)
    yield Probe("efficacy", Choose(request.text, objects))
    for prompt in fact.paraphrases:
        yield Probe("paraphrase", Choose(prompt.replace("{}", fact.subject), objects))
    for neighbor, true in (fact.neighbors or {}).items():
        prompt = fact.prompt.replace("{}", neighbor)
        yield Probe("neighborhood", Choose(prompt, (fact.target_new, true)))
    inverse = fact.inverse.replace("{}", fact.target_new)
    yield Probe("reversed", Choose(inverse, (fact.subject, fact.former)))
