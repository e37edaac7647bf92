"""Which runs may stand in one of a paper's tables: of one precision, one regime, and one data.

Numbers of other data are of other questions, whatever their names; so are those of edits that share
a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .papers import Printed
from .subsets import Subsets, unedited


def sheets(table: Printed, every: Sequence[Subsets]) -> Iterator[list[Subsets]]:
    """Yield the runs of a table's tasks in the groups that may share one: of one precision, regime, data.

    What edited nothing stands in every regime, since there was no edit that could be shared.
    """
    of_tasks = [each for each in every if each.task in table.tasks]
    for some in grouped(of_tasks, lambda each: each.run.manifest.identity.model.dtype):
        edited = [each for each in some if not unedited(each.run)]
        for regime in dict.fromkeys(str(each.run.regime) for each in edited or some):
            here = [e for e in some if unedited(e.run) or str(e.run.regime) == regime]
            yield from _by_data(table, here)


def grouped(every: Sequence[Subsets], kind: Callable[[Subsets], object]) -> list[list[Subsets]]:
    """Return runs in groups that are alike in something."""
    found: dict[object, list[Subsets]] = {}
    for each in every:
        found.setdefault(kind(each), []).append(each)
    return list(found.values())


def _by_data(table: Printed, some: Sequence[Subsets]) -> list[list[Subsets]]:
    """Return runs by their data; tasks that ask of the same facts stand together.

    Where tasks are rows of their own, the first data of each stand together, then the second.
    """
    found: list[list[Subsets]] = []
    for part in grouped(some, _data_of):
        fits = (s for s in found if part[0].task not in {each.task for each in s})
        other = next((s for s in fits if table.split == "task" or _same_facts(s, part)), None)
        if other is None:
            found.append(part)
        else:
            other += part
    return found


def _data_of(each: Subsets) -> tuple[str, ...]:
    task = each.run.manifest.identity.task
    return task.name, task.version, task.data


def _same_facts(sheet: Sequence[Subsets], part: Sequence[Subsets]) -> bool:
    """Tell whether some cases are in both, and all these with the same requests."""
    return any(
        bool(shared := one.cases & two.cases)
        and all(one.run.by_id[n].requests == two.run.by_id[n].requests for n in shared)
        for one in sheet
        for two in part
    )
