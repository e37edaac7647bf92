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
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from types import FrameType
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from .errors import HarnessError, PluginError, ResourceError, Terminated, one_line, printable
from .hookspecs import DISTRIBUTION
from .registry.guard import said
from .registry.registry import Component, Plugins, suggestion
from .run.options import HELP

INTERNAL = 70
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
"""The exit code of each signal. A closed terminal is as SIGTERM."""
COMPLETE = "_EDIT_HARNESS_COMPLETE"
"""The variable by which a shell asks for completions; click answers, and ends the process."""


class Harness(click.Group):
    """The commands that plugins register, each imported when it is called.

    It runs ``run`` if none is named, so that ``edit-harness --editor rome`` works.
    """

    _called: Component | None = None
    """The command that is called, if it is a stranger's."""

    @cached_property
    def _bundled(self) -> dict[str, Component]:
        return {c.name: c for c in Plugins.bundled().components if c.kind == "command"}

    def _listed(self, plugins: Plugins | None = None) -> dict[str, Component]:
        """All commands; what shares its name with another has its distribution's too."""
        plugins = plugins or Plugins.installed(ours=False)
        others = [c for c in plugins.of_kind("command") if c.package]
        names = Counter([*self._bundled, *(c.name for c in others)])
        shown = {c.name if names[c.name] == 1 else c.qualified: c for c in others}
        return self._bundled | shown

    def _find(self, name: str, ctx: click.Context) -> Component:
        """Return a command; plugins are loaded only if it is none of ours.

        Raises `PluginError` for several, and `click.UsageError`, with what is like it or broken, for none.
        """
        if own := self._bundled.get(name.removeprefix(f"{DISTRIBUTION}/")):
            return own
        plugins = Plugins.installed(ours=False)
        if any(name in (c.name, c.qualified) for c in plugins.of_kind("command")):
            return plugins.find("command", name)
        guess = suggestion(name, sorted(self._listed(plugins)))
        broken = "".join(f"; {failure}" for failure in plugins.failures)
        raise click.UsageError(f"there is no command {name!r}{guess}{broken}", ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self._listed())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command, if there is one."""
        try:
            command: click.Command = self._find(name, ctx).load()
        except click.UsageError:
            return None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands as they were registered, with their summaries; none is imported for it."""
        found = self._listed()
        longest = max(map(len, found))
        room = formatter.width - 6 - longest
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, component in found.items():
            if component.summary:  # else it is an old name
                short = click.Command(name, help=component.summary).get_short_help_str(room)
                row = (name.ljust(longest), short)
                sections.setdefault(component.group or "Further", []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command; accept ``_`` for ``-`` in the names of flags."""
        args = [_dashed(arg) for arg in args]
        if args[:1] in (["-q"], ["--quiet"]) and not "".join(args[1:2]).startswith("-"):
            args[:2] = args[1::-1]  # of the command that follows
        if args and args[0].startswith("-") and args[0] not in ("--help", "-h", "--version"):
            args.insert(0, "run")
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands, and the default command's flags."""
        run: click.Command = self._bundled["run"].load()
        flags = run.shell_complete(click.Context(run), incomplete)
        return [*super().shell_complete(ctx, incomplete), *flags]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with, and leave the others to it."""
        name, *rest = args
        found = self._find(name, ctx)
        command: click.Command = found.load()
        self._called = found if found.package else None
        return name, command, rest

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run the command, and turn what goes wrong into a message and an exit code."""
        if COMPLETE in os.environ:
            super().main(args, **extra)
        given = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in given or "EDIT_HARNESS_DEBUG" in os.environ
        given = [arg for arg in given if arg != "--debug"]  # of whatever command
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal may not have every character
                stream.reconfigure(errors="replace")
        handle_signals()
        self._called = None
        if debug:
            logging.basicConfig()
            for name in ("edit_harness", "edit_harness_plugins"):
                logging.getLogger(name).setLevel(logging.DEBUG)
        try:
            code = super().main(given, standalone_mode=False, **extra)
        except BaseException as error:
            if debug and not isinstance(error, click.ClickException):
                _say(*traceback.format_exc().splitlines())
            code = _explain(error, self._called)
        sys.exit(code if isinstance(code, int) else 0)


def _dashed(arg: str) -> str:
    if not arg.startswith("--"):
        return arg
    name, equals, value = arg.partition("=")
    return name.replace("_", "-") + equals + value


def _explain(error: BaseException, called: Component | None) -> int:
    """Print what went wrong on stderr, and return the exit code; what a stranger's command raises is its author's."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)
        click.echo(printable(shown.getvalue()), err=True, nl=False)
        return error.exit_code
    if isinstance(error, HarnessError):
        return _failed(error.code, f"error: {error.cause}", error.remedy)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return _failed(CODES[signal.SIGINT], "interrupted")
    if isinstance(error, Terminated):
        return _failed(CODES[signal.SIGTERM], "terminated")
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError) and not called:
        return _failed(ResourceError.code, f"error: {error.filename or 'output'}: {error.strerror}")
    if isinstance(error, SystemExit) and called and isinstance(error.code, int | None):
        return error.code or 0
    if isinstance(error, SystemExit):  # ours return a code
        cause = f"error: a plugin ended the program: {said(error)}"
        return _failed(PluginError.code, cause, "see which with --debug")
    if called:
        cause = f"error: command {called.name} of {called.origin} failed: {said(error)}"
        return _failed(PluginError.code, cause, "see the whole with --debug, or ask its author")
    remedy = "please report it with the output of --debug"
    return _failed(INTERNAL, f"internal error: {said(error)}", remedy)


def _failed(code: int, cause: str, remedy: str = "") -> int:
    _say(cause, f"       {remedy}" if remedy else "")
    return code


def _say(*lines: str) -> None:
    click.echo("\n".join(map(one_line, filter(None, lines))), err=True)


def handle_signals() -> None:
    """Let Ctrl-C, SIGTERM and a closed terminal raise an error wherever the program is, so that edits are undone.

    A second one ends the process. ``nohup`` stays as it is: it is a user's wish.
    """
    asked: set[int] = set()

    def end(number: int, frame: FrameType | None) -> None:
        if asked:
            os._exit(CODES[signal.Signals(number)])
        asked.add(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    for number in CODES:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


@click.group(cls=Harness, context_settings=HELP)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks and the log.")
@click.version_option(package_name="edit-harness", message="edit-harness %(version)s")
def main() -> None:
    """Evaluate knowledge edits of language models.

    Without a command, flags go to run: edit-harness --editor rome --task counterfactplus
    """
