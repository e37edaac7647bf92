"""The command line. It imports nothing heavy until a command needs it.

Flags that mean the same as in lm-evaluation-harness have the same names. stdout carries the
result, stderr progress and messages; an error is a line of cause and a line of remedy, and a
traceback only with ``--debug``.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from edit_harness.blame import said
from edit_harness.errors import HarnessError, PluginError, ResourceError, Terminated, UsageError
from edit_harness.interfaces import MODES
from edit_harness.options import (
    as_json,
    configure,
    debug,
    editor_flags,
    judge_args,
    loading_flags,
    many,
    model_flags,
    with_plugins,
    with_selection,
)
from edit_harness.plugins import Plugins, suggestion

INTERRUPTED, TERMINATED, INTERNAL = 130, 143, 70
KINDS = (
    "editors",
    "tasks",
    "metrics",
    "judges",
    "builders",
    "models",
    "adaptors",
    "plugins",
    "runs",
)


def _terminate(*_: object) -> None:
    raise Terminated


class Harness(click.Group):
    """Runs ``run`` if no command is named, so that ``edit-harness --editor rome`` works."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command; accept ``_`` for ``-`` in the names of flags."""
        args = [_dashed(arg) for arg in args]
        if args and args[0].startswith("-") and args[0] not in ("--help", "-h", "--version"):
            args.insert(0, "run")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a command for one that does not exist."""
        if args and self.get_command(ctx, args[0]) is None:
            guess = suggestion(args[0], self.list_commands(ctx))
            raise click.UsageError(f"there is no command {args[0]!r}{guess}", ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run the command, and turn what goes wrong into a message and an exit code."""
        given = list(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal may not have every character
                stream.reconfigure(errors="replace")
        signal.signal(signal.SIGTERM, _terminate)
        if "--debug" in given:
            logging.basicConfig()
            logging.getLogger("edit_harness").setLevel(logging.DEBUG)
        try:
            code = super().main(given, standalone_mode=False, **extra)
        except BaseException as error:
            if "--debug" in given and not isinstance(error, click.ClickException):
                traceback.print_exc()
            code = _explain(error)
        sys.exit(code if isinstance(code, int) else 0)


def _dashed(arg: str) -> str:
    if not arg.startswith("--"):
        return arg
    name, equals, value = arg.partition("=")
    return name.replace("_", "-") + equals + value


def _explain(error: BaseException) -> int:
    """Print what went wrong on stderr, and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, HarnessError):
        _say(f"error: {error.cause}", f"       {error.remedy}" if error.remedy else "")
        return error.code
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _say("interrupted")
        return INTERRUPTED
    if isinstance(error, Terminated):
        _say("terminated")
        return TERMINATED
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError):
        _say(f"error: {error.filename or 'the output'}: {error.strerror}")
        return ResourceError.code
    if isinstance(error, SystemExit):  # ours return a code
        _say(f"error: a plugin ended the program: {said(error)}", "       see which with --debug")
        return PluginError.code
    _say(f"internal error: {said(error)}", "       please report it with the output of --debug")
    return INTERNAL


def _say(*lines: str) -> None:
    click.echo("\n".join(filter(None, lines)), err=True)


HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
SETTINGS = {"auto_envvar_prefix": "EDIT_HARNESS", **HELP}


@click.group(cls=Harness, context_settings=HELP)
@click.version_option(package_name="edit-harness", message="edit-harness %(version)s")
def main() -> None:
    """Evaluate knowledge edits of language models.

    Without a command, flags go to run: edit-harness --editor rome --task counterfactplus
    """


@main.command(context_settings=SETTINGS)
@editor_flags
@many("-t", "--task", "--tasks", "task", default=["counterfactplus"], metavar="NAME",
       help="Tasks, by comma or repeated.", show_default="counterfactplus")  # fmt: skip
@click.option("--task-args", multiple=True, metavar="K=V,…", help="Fields of the task.")
@many("--metrics", metavar="NAME", help="Instead of the task's own.")
@model_flags
@click.option(
    "--edit-mode",
    type=click.Choice(MODES),
    help="How edits share the model; by default as the task says, mostly single.",
)
@click.option(
    "--edit-batch-size",
    "--num-edits",
    "edit_batch_size",
    metavar="N",
    help="Cases edited at once, or all.",
)
@many("--eval-at", metavar="WHEN", help="Of a sequence: each, end, numbers of cases.")
@click.option(
    "--judge", metavar="NAME", default="", help="Who judges texts; none leaves it to score."
)
@judge_args
@click.option("-L", "--limit", type=click.IntRange(1), help="The first N cases only.")
@many("--samples", metavar="ID", help="These cases only.")
@many("--seed", "seed", default=["0"], metavar="N", help="Seeds; one run for each.",
       show_default="0")  # fmt: skip
@click.option("-o", "--output-path", default="results", show_default=True, metavar="DIR",
              help="Where run folders go.")  # fmt: skip
@click.option("--on-error", type=click.Choice(["skip", "stop"]), default="skip",
              show_default=True, help="When a case fails.")  # fmt: skip
@click.option("--new", is_flag=True, help="Start a sibling of the run's folder.")
@click.option("-C", "--config", is_eager=True, expose_value=False, callback=configure,
              metavar="FILE", help="TOML or JSON with flags as keys.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would run, and how long.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure in the table.")
@as_json
@debug
@with_plugins
def run(plugins: Plugins, **flags: Any) -> int:
    """Edit case by case, ask before and after; the same command again goes on."""
    from edit_harness import running

    return running.run(plugins, running.Flags(**flags))


@main.command("ls")
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS), metavar="[KIND]…")
@click.option("-o", "--output-path", default="results", help="Where run folders are.")
@as_json
@debug
@with_plugins
def list_(
    plugins: Plugins, kinds: tuple[str, ...], output_path: str, as_json: bool, debug: bool
) -> None:
    """List editors, tasks, metrics, judges, builders, models, adaptors, plugins, runs."""
    from edit_harness import listing

    listing.show_kinds(plugins, kinds or KINDS[:6], Path(output_path), as_json)


@main.command("plugins")
@click.option("--check", is_flag=True, help="Load each in a process of its own, within limits.")
@click.option("--enable", metavar="DIST", help="Load one again that killed the interpreter.")
@as_json
@debug
@with_selection
def plugins_(check: bool, enable: str | None, as_json: bool, debug: bool) -> int:
    """Show what is installed, from where, how long it takes to load, and what is broken."""
    from edit_harness import inventory

    if enable:
        return inventory.enable(enable)
    return inventory.check(as_json) if check else inventory.show(as_json)


@main.command()
@click.argument("name")
@click.option("--stats", is_flag=True, help="Count what a task's data are made of.")
@click.option(
    "--task-args", multiple=True, metavar="K=V,…", help="With --stats: the task's fields."
)
@click.option("-m", "--model", default="", metavar="NAME",
              help="With --stats: whose sample, if it brings one.", show_default="pocket")  # fmt: skip
@as_json
@debug
@with_plugins
def show(
    plugins: Plugins,
    name: str,
    stats: bool,
    task_args: Sequence[str],
    model: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Show the card of an editor, a task, a metric, a judge, a builder or a model."""
    from edit_harness import listing

    if stats:
        listing.show_composition(plugins, name, task_args, model or "pocket", as_json)
    elif task_args or model:
        raise UsageError("--task-args and --model say which data are counted", "add --stats")
    else:
        listing.show_card(plugins, name, as_json)


@main.command(context_settings=SETTINGS)
@editor_flags
@many("-t", "--task", "--tasks", "task", metavar="NAME", help="Fetch the data of tasks.")
@click.option("--task-args", multiple=True, metavar="K=V,…", help="Fields of the task.")
@model_flags
@click.option("--corpus", metavar="FILE", help="Text, JSON Lines with a field text, or wikipedia.")
@click.option("--tokens", type=click.IntRange(1), default=10_000_000, show_default=True,
              help="Stop after this many tokens.")  # fmt: skip
@click.option("--max-length", type=click.IntRange(1), default=1024, show_default=True,
              help="Tokens of a text that are used.")  # fmt: skip
@click.option(
    "--import", "imported", metavar="FILE", help="A statistic or network of an editor's authors."
)
@click.option("--data", metavar="NAME|FILE", help="What an editor is trained on, as mend is.")
@click.option("-y", "--yes", is_flag=True, help="Start without asking.")
@debug
@with_plugins
def prepare(plugins: Plugins, **flags: Any) -> None:
    """Compute or fetch beforehand what run needs: second moments, data."""
    from edit_harness import preparing

    preparing.prepare(plugins, preparing.Flags(**flags))


@main.command("build-data", context_settings=SETTINGS)
@click.argument("name", metavar="BUILDER")
@click.option("--triples", required=True, metavar="FILE",
              help="subject, relation, object: .jsonl, .csv, .tsv or .json.")  # fmt: skip
@click.option("--templates", metavar="FILE",
              help='JSON: {"P27": {"training": ["{} is a citizen of", …], "held_out": […]}, …}.')  # fmt: skip
@click.option("--builder-args", multiple=True, metavar="K=V,…", help="Fields of the builder.")
@click.option("-m", "--model", default="", metavar="NAME", help="Only facts that it knows.",
              allow_from_autoenv=False)  # fmt: skip
@loading_flags
@click.option("-o", "--out", required=True, metavar="PATH", help="The file or folder to make.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--force", is_flag=True, help="Move aside what stands at --out, as PATH.old.")
@debug
@with_plugins
def build_data(plugins: Plugins, **flags: Any) -> None:
    """Make a benchmark's records from facts of one's own: see ls builders.

    Templates are prompts that end where the object begins, with {} for the subject: a fact is written
    and asked for in those of training, and rephrased in those of held_out.
    """
    from edit_harness import building

    building.build_data(plugins, building.Flags(**flags))


@main.command()
@click.argument("kind", type=click.Choice(["editor", "task", "metric", "judge"]))
@click.argument("name")
@click.option("-o", "--out", default=".", show_default=True, metavar="DIR",
              help="Where the package's folder goes.")  # fmt: skip
@debug
@with_plugins
def new(plugins: Plugins, kind: str, name: str, out: str, debug: bool) -> None:
    """Write a package of an editor, a task, a metric or a judge of one's own.

    It is edit-harness-NAME, and works as it is; a comment marks what makes it yours.
    """
    from edit_harness import creating

    creating.new(plugins, kind, name, Path(out))


@main.command(context_settings=SETTINGS)
@editor_flags
@model_flags
@click.option("--requests", required=True, metavar="FILE",
              help="JSON Lines: prompt, subject, target_new.")  # fmt: skip
@click.option("--save", metavar="FILE", help="Keep the edit, as safetensors.")
@click.option("--save-model", metavar="DIR", help="Keep the edited model, for transformers.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@as_json
@debug
@with_plugins
def edit(plugins: Plugins, **flags: Any) -> None:
    """Write all facts of a file into a model at once, and keep the result."""
    from edit_harness import editing

    editing.edit(plugins, editing.Flags(**flags))


@main.command(context_settings=SETTINGS)
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@many("--metrics", metavar="NAME", help="Instead of the run's own.")
@click.option("--judge", metavar="NAME", default="",
              help="Who judges what waits; another than the run's goes to a sibling folder.")  # fmt: skip
@judge_args
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("-v", "--verbose", is_flag=True, help="Every measure in the table.")
@as_json
@debug
@with_plugins
def score(plugins: Plugins, **flags: Any) -> int:
    """Compute the numbers of run folders again, without a model; fill in verdicts."""
    from edit_harness import scoring

    return scoring.score(plugins, scoring.Flags(**flags))


@main.command()
@click.argument("run", metavar="RUN")
@click.argument("case", metavar="ID")
@as_json
@debug
def case(run: str, case: str, as_json: bool, debug: bool) -> None:
    """Show one case of a run: what was written, asked and answered."""
    from edit_harness import viewing
    from edit_harness.records import RunFolder

    viewing.show_case(RunFolder.at(run), case, as_json)


@main.group(context_settings=HELP)
def annotate() -> None:
    """Have people label texts of a run: blinded sheets out, their answers in."""


@annotate.command("export")
@click.argument("run", metavar="RUN")
@click.option("--out", required=True, metavar="DIR", help="Where sheets, guidelines and key go.")
@many("--annotators", default=["3"], metavar="NAME", show_default="3",
       help="Names by comma, or how many there are.")  # fmt: skip
@click.option("--number", type=click.IntRange(1), default=100, show_default=True,
              help="How many texts, or pairs of texts, are drawn.")  # fmt: skip
@click.option("--each", default="", metavar="TAG",
              help="So many for each value of this tag of the cases, such as set.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@debug
def export(**flags: Any) -> None:
    """Write a sheet for each annotator, guidelines, and the key to them."""
    from edit_harness import annotating

    annotating.export(annotating.ExportFlags(**flags))


@annotate.command("import")
@click.argument("run", metavar="RUN")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--key", required=True, metavar="FILE", help="The key.json of the export.")
@click.option("--partial", is_flag=True, help="Go by what is filled in.")
@as_json
@debug
def import_(**flags: Any) -> None:
    """Read sheets that were filled in: agreement, means, the judge against people."""
    from edit_harness import annotating

    annotating.import_(annotating.ImportFlags(**flags))


@main.command(context_settings=SETTINGS)
@click.argument("distribution", metavar="PACKAGE")
@click.option("-k", "words", default="", metavar="WORDS", help="Only checks that have these words.")
@click.option("-L", "--limit", type=click.IntRange(1), default=10, show_default=True,
              metavar="N", help="Cases of a run.")  # fmt: skip
@click.option("--no-run", is_flag=True, help="Without a run on the bundled model.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=120.0,
              show_default=True, metavar="S", help="How long a check may take.")  # fmt: skip
@as_json
@debug
@with_selection
def check(**flags: Any) -> int:
    """Try a package of plugins: its conformance suites, and a small run with it.

    A component without a suite is tried with its defaults. Exit code 6 if a check failed,
    and if something was not tried: a check that did not happen is not passed.
    """
    from edit_harness import checking

    return checking.check(checking.Flags(**flags))


@main.command("try", context_settings=SETTINGS)
@editor_flags
@model_flags
@click.option("--prompt", metavar="TEXT", help="With {} for the subject: '{} lives in'.")
@click.option("--subject", metavar="TEXT")
@click.option("--target", metavar="TEXT", help="The new object.")
@click.option("--edit", metavar="FILE", help="An edit that was saved, instead of an editor.")
@many("--ask", metavar="TEXT", help="Another prompt to look at; may be repeated.")
@click.option("--max-new-tokens", type=click.IntRange(1), default=20, show_default=True)
@as_json
@debug
@with_plugins
def try_(plugins: Plugins, **flags: Any) -> None:
    """Edit one fact, or take a saved edit, and see the model before and after."""
    from edit_harness import trying

    trying.try_edit(plugins, trying.Flags(**flags))
