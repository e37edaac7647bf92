"""What a run folder may decide of the judge that fills it in, and what only who scores it may.

A folder may be a stranger's. Where texts and a key are sent, which files are read and which model is
loaded is taken from it only as far as the judge says that nothing leaves for elsewhere by it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edit_harness.errors import RunFolderError, UsageError
from edit_harness.registry import settings as fields
from edit_harness.registry.registry import Component
from edit_harness.registry.settings import Named
from edit_harness.run.outcome import Run


def settings(run: Run, component: Component) -> dict[str, Any]:
    """Return the settings that a run's folder has for its judge.

    Raises `RunFolderError` for one whose value is of another kind than the judge's own.
    """
    assert run.judge is not None
    said = {**run.judge.fields, **(run.manifest.judge_settings or {})}
    usual = fields.defaults(component.load())
    for name, value in said.items():
        if name in usual and not _alike(value, usual[name]):
            raise RunFolderError(
                f"{run.folder.path} has a judge whose {name} is {value!r:.60}",
                f"say who judges, with all settings: --judge {component.name} --judge-args …",
            )
    return said


def check(judge: Named, names: Collection[str], run: Run) -> None:
    """Raise `UsageError` if a setting that nobody but the folder gave leads elsewhere."""
    values, usual = fields.settings(judge.value), fields.defaults(type(judge.value))
    for name in judge.value.outward:
        value = values.get(name)
        if name in names and value != usual.get(name):
            raise UsageError(
                f"{run.folder.path} has judge {judge.name} with {name}={value!r:.200}, and a folder "
                "alone does not decide that",
                f"if you know where that leads, say it again: --judge-args {name}=…",
            )


def _alike(value: Any, usual: Any) -> bool:
    """Tell whether a value is of the kind of a field's default: a text, a truth, a number, a list."""
    kinds: tuple[Any, ...] = (str, bool, (int, float), (list, tuple))
    return all(isinstance(value, k) for k in kinds if isinstance(usual, k))
