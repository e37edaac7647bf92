"""What a record in CounterFact's schema must have.

How a file is read stands in `edit_harness_plugins.tasks._files.records`, what a case is made of in
`edit_harness_plugins.tasks.counterfact`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .._files import records
from .._files.records import Entry, Problem, Record, wrong_list, wrong_text

TEXTS = tuple(
    f"requested_rewrite.{name}"
    for name in ("prompt", "subject", "target_new.str", "target_true.str")
)
LISTS = {"paraphrase_prompts": True, "neighborhood_prompts": True}
LISTS |= {"attribute_prompts": False, "generation_prompts": False}
"""The lists of texts in a record, and whether it must have them."""


def read(path: Path) -> list[Entry]:
    """Return the records of a .json or .jsonl file; raises `DataError` that lists problems."""
    seen: dict[str, str] = {}

    def wrong(here: str, record: Record) -> Iterator[Problem]:
        yield from wrong_rewrite(record)
        yield from _wrong_lists(record)
        yield from wrong_id(record, here, seen)

    return records.read(path, wrong)


def topic(relation: str, target: str) -> str:
    """Return the name that reference texts of a relation and its target go by."""
    return f"{relation}/{target}"


def wrong_rewrite(record: Record) -> Iterator[Problem]:
    """Say what is wrong with the edit of a record."""
    for field in TEXTS:
        if problem := wrong_text(record, field) or _wrong_places(record, field):
            yield problem


def _wrong_lists(record: Record) -> Iterator[Problem]:
    for field, needed in LISTS.items():
        if needed or record.get(field, []) != []:
            yield from wrong_list(field, record.get(field))


def _wrong_places(record: Record, field: str) -> Problem | None:
    """Say how many places for the subject a prompt has, if not one."""
    if not field.endswith(".prompt"):
        return None
    if (count := record["requested_rewrite"]["prompt"].count("{}")) == 1:
        return None
    return Problem(
        f"{field} has {count} places '{{}}' for the subject, expected 1", of_content=True
    )


def wrong_id(record: Record, here: str, seen: dict[str, str]) -> Iterator[Problem]:
    """Say whether a record has no id, or that of an earlier one, which ``seen`` keeps."""
    name = record.get("case_id")
    if isinstance(name, bool) or not isinstance(name, int | str) or name == "":
        yield Problem(f"case_id is {name!r}, expected a whole number or a text")
    elif (first := seen.setdefault(str(name), here)) != here:
        yield Problem(f"case_id {name} is also that of {first}")
