"""The bundled commands by name, imported when they are called, and what else is built on the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from edit_harness import (
    Answer,
    Case,
    ModelSource,
    Register,
    RegisterCommand,
    RegisterKind,
    hookimpl,
)

if TYPE_CHECKING:
    from edit_harness import Identity

# fmt: off
COMMANDS = {
    "Run": {
        "run": ("run.measuring:run", "Edit case by case, and ask before and after."),
        "try": ("run.measuring:try_", "Edit one fact, and see the model before and after."),
        "edit": ("run.measuring:edit", "Write a file of facts into a model, and keep it."),
        "prepare": ("run.measuring:prepare", "Compute or fetch what a run needs."),
    },
    "Look": {
        "ls": ("catalog.list:ls", "List editors, tasks, metrics, models, and what is there else."),
        "show": ("catalog.show:show", "Show the card of what `ls` lists, or of a column."),
        "case": ("results.case:case", "Show one case of a run: edit, questions, answers."),
        "score": ("results.score:score", "Compute the numbers of runs again, and fill in verdicts."),
        "compare": ("results.compare:compare", "Test whether two runs differ, case by case, and why."),
        "report": ("report.report:report", "Write a table, a paper's table, or a page."),
    },
    "Study": {
        "sweep": ("studies.studies:sweep", "Try an editor's fields on a grid, and map what comes of it."),
        "trace": ("studies.studies:trace", "Find which hidden states carry a fact: causal tracing."),
        "reproduce": ("studies.studies:reproduce", "Run a paper's table again, and compare it cell by cell."),
    },
    "Publish": {
        "leaderboard": ("leaderboard:leaderboard", "Submit a run, verify bundles, build the board's page."),
    },
    "Extend": {
        "plugins": ("authoring:plugins", "List what is installed, write a new package, check one."),
        "build-data": ("authoring.build_data:build_data", "Make a benchmark's records from facts of one's own."),
    },
    "Many machines": {
        "merge": ("distributed.merge:merge_command", "Join the shards of a run to one."),
    },
    "": {name: (f"old_names:{name}", "") for name in ("submit", "verify")},
}
# fmt: on
"""By section: module and function of each, and what it does."""


@hookimpl
def edit_harness_register_commands(register: RegisterCommand) -> None:
    """Name the commands."""
    for group, commands in COMMANDS.items():
        for name, (where, summary) in commands.items():
            register(name, f"{__name__}.{where}", summary, group)


@hookimpl
def edit_harness_check_answers(
    source: ModelSource,
    identity: Identity,
    answered: Callable[[], Iterator[tuple[Case, Sequence[Answer | None]]]],
) -> str:
    """Compare them with the baseline that the model brings along."""
    from .leaderboard import baseline

    return baseline.mismatch(source, identity, answered())


@hookimpl
def edit_harness_register_executors(register: Register) -> None:
    """Name who can run the cases."""
    register("local", f"{__name__}.run.local:Local", "This process")
    register("ray", f"{__name__}.distributed.on_ray:Ray", "Workers of a Ray cluster")


@hookimpl
def edit_harness_register_kinds(register: RegisterKind) -> None:
    """Name the kinds of components that commands use, and the core knows nothing of."""
    register("builder", f"{__name__}.authoring:Builder", "A user's own facts to a task's data")
    register("pack", f"{__name__}.studies.reproduce:Pack", "A printed table to runs")
