"""The parts of a run, built and checked: its model, editor, benchmark and judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from ..data import Case, Query, Request
from ..edits import Edit
from ..errors import DataError, HarnessError, PluginError, UsageError
from ..folder.table import cases_digest
from ..interfaces import Editor, ModelSource, Task, whole
from ..model.model import Model
from ..registry.guard import blamed, named
from ..registry.packages import Package
from ..registry.registry import Plugins
from ..registry.settings import (
    Configured,
    Named,
    build_component,
    configure,
    make_named,
    make_task,
    shape_of,
    source_of,
    typed,
)
from . import judging
from .controls import is_control

PREPARING = (HarnessError, OSError, torch.OutOfMemoryError)
"""What an editor may raise before it edits, for the user to mend."""


@dataclass(frozen=True)
class Benchmark:
    """A task with all its cases, read and checked."""

    task: Named
    cases: Sequence[Case]
    digest: str

    def selected(self, limit: int | None, samples: Sequence[str] = ()) -> list[Case]:
        """Return the first ``limit`` cases, or those with the given ids. Raises `UsageError`."""
        by_id = {case.id: case for case in self.cases}
        if unknown := [sample for sample in samples if sample not in by_id]:
            first = next(iter(by_id), "")
            raise UsageError(f"the task has no case {unknown[0]!r}", f"its ids look like {first!r}")
        chosen = [by_id[sample] for sample in dict.fromkeys(samples)] or list(self.cases[:limit])
        if not chosen or (limit is not None and limit < 1):
            raise UsageError("there is nothing to do: no case is left", "raise --limit")
        return chosen


def load(plugins: Plugins, name: str, **options: Any) -> Model:
    """Load a model by a registered name, or else by folder or hub name."""
    source = source_of(plugins, name)
    found = plugins.call("edit_harness_load_model", Model, source=source, options=options)
    return cast(Model, next(found))


def make_benchmark(
    plugins: Plugins, task: str | Task, args: Mapping[str, Any], source: ModelSource, seed: int = 0
) -> Benchmark:
    """Build a task and read its cases, before any model is loaded. Raises `DataError`."""
    made = make_task(plugins, task, args, source, seed)
    whose = named("task", made.name, made.value)
    with blamed(f"{whose} failed to read its cases", made.value):
        cases = list(made.value.cases())
        digest = cases_digest(cases)  # what is no case, or no JSON, fails here
        if strange := [p.query for c in cases for p in c.probes if not isinstance(p.query, Query)]:
            raise PluginError(
                f"{whose} asks {strange[0]!r:.60}, which is no query",
                "ask by Choose, Drift, NextToken or Generate of edit_harness",
            )
        times = Counter(case.id for case in cases)
        taken = [name for name in times if is_control(name)]
    if repeated := [name for name, count in times.items() if count > 1]:
        raise DataError(f"task {made.name} has {len(repeated)} ids twice, such as {repeated[0]!r}")
    if taken:
        raise DataError(f"task {made.name} has a case {taken[0]!r}, as only controls are called")
    return Benchmark(made, cases, digest)


def make_editor(
    plugins: Plugins,
    model: Model,
    editor: str | Editor,
    args: Mapping[str, Any],
    seed: int,
    source: str = "",
) -> tuple[Named, Configured]:
    """Build an editor, fill its fields for the model, and prepare it.

    ``source`` says where ``args`` come from, if the user did not type them.
    """
    if isinstance(editor, Editor):
        name, version, made, package = type(editor).__name__.lower(), "", editor, None
    else:
        component = plugins.find("editor", editor)
        name, version, package = component.name, component.origin, component.package
        made = build_component(component, args, seed)
    shape = shape_of(model.module.config, model.source.family)
    configured = configure(made, shape, name)
    if source:
        configured = replace(configured, source=source)
    whose = named("editor", name, made)
    with blamed(f"{whose} failed to prepare for the model", made, passing=PREPARING):
        configured.editor.check(model)
        configured.editor.prepare(model)
    return Named(name, version, configured.editor, package), configured


def check_requests(named: Named, requests: Collection[Request]) -> None:
    """Raise `UsageError` if an editor, or one that it calls, needs what a request does not have."""
    for need in sorted(need for part in whole(named.value) for need in part.takes):
        lacking = [
            r for r in requests if not (r.subject if need == "subject" else r.tags.get(need))
        ]
        if lacking:
            raise UsageError(
                f"{named.name} needs a {need} in each request; {len(lacking)} of {len(requests)} have "
                f"none, such as {lacking[0].text[:60]!r}",
                "choose another editor: edit-harness ls editors",
            )


def written(named: Named, model: Model, requests: Sequence[Request]) -> Edit:
    """Return one edit of all requests, as it is kept. Raises what `check_requests` raises."""
    check_requests(named, requests)
    return named.value.finish(model, named.value.edit(model, requests))


_prepares: ContextVar[bool] = ContextVar("prepares", default=True)
"""Whether `inner` prepares an editor; the command ``prepare`` first makes what that needs."""


@contextmanager
def unprepared() -> Iterator[None]:
    """Let `inner` leave editors unprepared."""
    before = _prepares.set(False)
    try:
        yield
    finally:
        _prepares.reset(before)


def inner(editor: str | Editor, model: Model, **fields: Any) -> Editor:
    """Return an editor for another one to call: its presets filled in, checked and prepared.

    Call it in `Editor.check`, keep what it returns, and name it in `Editor.parts`. Raises `UsageError`
    for a name or a field that does not exist, and what the editor's own `check` and `prepare` raise.
    """
    plugins = Plugins.installed()
    if isinstance(editor, Editor):
        name, made = type(editor).__name__.lower(), cast(Any, editor)
        made = replace(made, **typed(type(editor), fields, f"editor {name}"))
    else:
        try:
            component = plugins.find("editor", editor)
        except PluginError as error:
            raise UsageError(error.cause, error.remedy) from None
        name, made = component.name, build_component(component, fields, fields.get("seed", 0))
    configured = configure(made, shape_of(model.module.config, model.source.family), name).editor
    configured.check(model)
    if _prepares.get():
        configured.prepare(model)
    return configured


def contributing(plugins: Plugins, parts: Iterable[tuple[Any, Package | None]]) -> list[Package]:
    """Return the packages of objects' classes, and our own, by name.

    Each object comes with the package that registered it, or None.
    """
    found = [package for value, by in parts for package in plugins.packages_of(type(value), by)]
    ours = plugins.packages_of(Plugins)
    distinct = {tuple(package.identity.values()): package for package in [*ours, *found]}
    return [distinct[identity] for identity in sorted(distinct)]


def judge_of(
    plugins: Plugins, name: str, args: Mapping[str, Any], seed: int, cases: Sequence[Case]
) -> Named | None:
    """Return the judge of that name; None if there is no name, or the name is ``none``.

    Raises `UsageError` for settings without a judge, and for a judge that cannot judge these cases.
    """
    if name in ("", "none"):
        if args:
            raise UsageError("--judge-args are for a judge, and there is none", "name it: --judge")
        return None
    made = make_named(plugins.find("judge", name), args, seed)
    judging.check_kinds(made.value, made.name, cases)
    return made
