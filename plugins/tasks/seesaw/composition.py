"""The composition of Seesaw-CF's sets, counted as in Table 3 of Halevy et al. (2024).

Attribute prompts are those on other people, generation prompts those to be continued. The paper's
column of unique prompts has totals; here both stand. On the authors' files it should
give the paper's figures, such as 29,000 prompts on other people in P21_P101, of which 200 differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edit_harness_plugins.composition import Row

from .._files.records import Record
from .files import GENERATION, PROMPTS

TITLE = "the sets, as the paper counts their prompts"


def table(sets: Mapping[str, Sequence[Record]]) -> list[Row]:
    """Return a row for each set, and one for all of them if there are several."""
    rows = [_row(name, records) for name, records in sets.items()]
    if len(sets) > 1:
        rows.append(_row("all", [record for records in sets.values() for record in records]))
    return rows


def _row(name: str, records: Sequence[Record]) -> Row:
    others, told = (
        [prompt for record in records for prompt in record.get(field, ())]
        for field in (PROMPTS, GENERATION)
    )
    return {
        "set": name,
        "cases": len(records),
        "subjects": len({record["requested_rewrite"]["subject"] for record in records}),
        "attr": len(others),
        "unique attr": len(set(others)),
        "gen": len(told),
        "unique gen": len(set(told)),
        "case ids": _range([record["case_id"] for record in records]),
    }


def _range(ids: Sequence[int | str]) -> str:
    """Return the least and the greatest id, if they are numbers."""
    numbers = [int(each) for each in ids if str(each).isdecimal()]
    return f"{min(numbers)}-{max(numbers)}" if numbers else ""
