"""Which runs may stand in one of a paper's tables: of one precision, one regime, and one data.

Numbers of other data are of other questions, whatever their names; so are those of edits that share a
model. How a table is filled stands in `edit_harness_plugins.commands.report.typesetting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from .papers import Printed
from .subsets import Subsets

Sheet = list[Subsets]


def sheets(table: Printed, every: Sequence[Subsets]) -> Iterator[Sheet]:
    """Yield the runs of a table's tasks in the groups that may share one.

    What edited nothing stands in every regime, since there was no edit that could be shared.
    """
    of_tasks = [each for each in every if task_of(each) in table.tasks]
    for some in _by(of_tasks, lambda each: each.run.manifest.identity.model.dtype):
        edited = [each for each in some if not each.unedited]
        regimes = dict.fromkeys(str(each.run.regime) for each in edited or some)
        for regime in regimes:
            here = [e for e in some if e.unedited or str(e.run.regime) == regime]
            yield from _by_data(table, here)


def task_of(each: Subsets) -> str:
    """Return the name of a run's task."""
    return each.run.manifest.identity.task.name


def _by(every: Sequence[Subsets], kind: Callable[[Subsets], object]) -> list[Sheet]:
    found: dict[str, Sheet] = {}
    for each in every:
        found.setdefault(str(kind(each)), []).append(each)
    return list(found.values())


def _by_data(table: Printed, some: Sequence[Subsets]) -> list[Sheet]:
    """Return runs by their data; tasks that ask of the same facts stand together.

    Where tasks are rows of their own, the first data of each stand together, then the second.
    """
    parts = _by(some, _data)
    if table.split == "task":
        tasks = [[part for part in parts if task_of(part[0]) == task] for task in table.tasks]
        return [[e for part in row if part for e in part] for row in zip_longest(*tasks)]
    found: list[Sheet] = []
    for part in parts:
        other = next((sheet for sheet in found if _joins(sheet, part)), None)
        if other is None:
            found.append(list(part))
        else:
            other += part
    return found


def _data(each: Subsets) -> tuple[str, ...]:
    task = each.run.manifest.identity.task
    return task.name, task.version, task.data


def _joins(sheet: Sheet, part: Sheet) -> bool:
    """Tell whether a part is of another task than those of a sheet, and of the same facts."""
    if task_of(part[0]) in {task_of(each) for each in sheet}:
        return False
    return any(_same_facts(one, two) for one in sheet for two in part)


def _same_facts(one: Subsets, two: Subsets) -> bool:
    shared = one.cases & two.cases
    return bool(shared) and all(
        one.run.by_id[name].requests == two.run.by_id[name].requests for name in shared
    )
