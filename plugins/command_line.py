"""What commands share: the configuration file, the flags that say which plugins there are, and small options."""

from __future__ import annotations

import json
import os
import pkgutil
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, fields
from difflib import get_close_matches
from functools import partial, reduce, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from edit_harness.errors import PluginError, UsageError
from edit_harness.registry import guard, packages
from edit_harness.registry.registry import Plugins, suggestion
from edit_harness.run.options import ARGS, HELP, listed

from . import terminal

T = TypeVar("T")
SETTINGS = {"auto_envvar_prefix": "EDIT_HARNESS", **HELP}
"""Of a command whose flags may be given in the environment."""
VARIABLES = (
    "BLOCK", "CACHE", "DEBUG", "FSYNC", "JUDGE_KEY", "OFFLINE",
    "PLUGINS", "PLUGIN_FILES", "WIKIDATA",
)  # fmt: skip
"""What is read from the environment, by ``EDIT_HARNESS_`` and this, besides flags."""
BY_HAND = ("trust-remote-code", "allow-pickle-weights")
"""Flags that neither a configuration file nor the environment can give: whoever types them means it."""
RENAMED = {"--output-path": "--output", "--out": "--output", "--samples": "--noises"}
"""Flags by their old names, which commands take that have the new one only."""
MOST = 20
"""Flags of which the help is one page; of more it names the usual ones, and lists the others by heading."""
HEADINGS = {
    "Edits": ("edit_conflicts", "eval_at", "eval_sample", "preset", "seed"),
    "Questions": ("protocol", "task_args", "samples", "metrics", "control", "control_args"),
    "Model": ("dtype", "chat_template", "model_args", "device_map", "batch_size",
              "trust_remote_code", "allow_pickle_weights"),
    "Judge": ("judge", "judge_args"),
    "Many machines": ("shard", "executor", "executor_args"),
    "Failures": ("on_error", "retry_failed", "new"),
    "Plugins": ("plugin", "only_plugins", "block_plugins"),
    "Output": ("verbose", "as_json", "config", "quiet", "help_all", "help"),
}  # fmt: skip
"""Options that few commands need, by their names."""


class Command(click.Command):
    """A command of ours: its many flags stand under headings, old names of flags are taken, and it can be quiet."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        names = {option for param in self.params for option in param.opts}
        if "--quiet" not in names:
            self.params.append(quiet)
        if self.long:
            self.params.append(help_all)

    @property
    def long(self) -> bool:
        """Whether its help needs two levels."""
        return len(self.params) > MOST

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the new names of flags for old ones, and say so; tell variables that mean nothing."""
        tell_misspelt(ctx.find_root())
        own = {option for param in self.params for option in param.opts}
        for place, arg in enumerate(args):
            old, equals, value = arg.partition("=")
            if old in RENAMED and old not in own and (new := RENAMED[old]) in own:
                renamed(old, new)
                args[place] = new + equals + value
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Name the flags that have to be given, so that an error about one shows all."""
        own = [each for each in self.params if isinstance(each, click.Option) and each.required]
        needed = [f"{max(each.opts, key=len)} {each.make_metavar(ctx)}" for each in own]
        return [*needed, *super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the usual flags, and the others by heading: of a long help their names only, unless all are asked for."""
        sections: dict[str, dict[str, tuple[str, str]]] = {"Options": {}}
        heading_of = {name: heading for heading, names in HEADINGS.items() for name in names}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                heading = heading_of.get(str(param.name), "Options") if self.long else "Options"
                sections.setdefault(heading, {})[max(param.opts, key=len)] = record
        names = self.long and not ctx.meta.get(ALL)
        with formatter.section("Options"):
            formatter.write_dl([*sections.pop("Options").values()])
        ordered = {heading: sections[heading] for heading in HEADINGS if heading in sections}
        if names:
            with formatter.section("More, which --help-all explains"):
                wrap = partial(textwrap.wrap, width=formatter.width - 20, break_on_hyphens=False)
                named = {heading: wrap(" ".join(rows)) for heading, rows in ordered.items()}
                # As it is: click would break flags at their hyphens.
                formatter.write_dl([(at, "\b\n" + "\n".join(each)) for at, each in named.items()])
            return
        for heading, rows in ordered.items():
            with formatter.section(heading):
                formatter.write_dl([*rows.values()])


def tell_misspelt(root: click.Context) -> None:
    """Say which variables of the environment are called as ours are, and mean nothing.

    Commands are imported only if there is one that only a flag can explain.
    """
    prefix = "EDIT_HARNESS_"
    given = {name.removeprefix(prefix) for name in os.environ if name.startswith(prefix)}
    if not (unknown := given - {*VARIABLES}) or not isinstance(root.command, click.Group):
        return
    commands = (root.command.get_command(root, name) for name in root.command.list_commands(root))
    params = [
        p for c in commands if c and "auto_envvar_prefix" in c.context_settings for p in c.params
    ]
    flags = {str(p.name).upper() for p in params if getattr(p, "allow_from_autoenv", False)}
    for own in sorted(unknown - flags):
        close = get_close_matches(own, sorted({*VARIABLES} | flags), n=1)
        guess = f"; did you mean {prefix}{close[0]}?" if close else ""
        said = f"note     the variable {prefix}{own} means nothing here{guess}"
        terminal.err.print(said, soft_wrap=True)


class Alias(click.Command):
    """An old name of a command."""

    def __init__(self, *now: str) -> None:
        super().__init__(None, hidden=True)
        self.now = now

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the context of the command as it is called now."""
        assert isinstance(parent, click.Context)
        assert isinstance(parent.command, click.Group)
        name, *rest = self.now
        renamed(str(info_name), " ".join(self.now))
        now = parent.command.get_command(parent, name)
        assert now
        return now.make_context(name, [*rest, *args], parent, **extra)


class Lazy(click.Group):
    """A group whose commands are imported when they are called; without one the default is."""

    def __init__(self, *, default: str, commands: Mapping[str, str], **settings: Any) -> None:
        super().__init__(**settings)
        self.default, self.places = default, commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.places)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command, if there is one."""
        return pkgutil.resolve_name(self.places[name]) if name in self.places else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


ALL = f"{__name__}.all"
command = partial(click.command, cls=Command)


def renamed(old: str, new: str) -> None:
    """Say that something has another name now."""
    terminal.err.print(f"note     {old} is now {new}", soft_wrap=True)


def _explain(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _hush(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not terminal.err.quiet:
        terminal.err.quiet = True
        ctx.call_on_close(partial(setattr, terminal.err, "quiet", False))


help_all = click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False,
                        callback=_explain, help="Explain all flags.")  # fmt: skip
quiet = click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_hush,
                     help="Only the result.")  # fmt: skip


def configure(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    """Take defaults from a TOML or JSON file whose keys are the flags' names."""
    options = {
        name.lstrip("-"): option
        for option in ctx.command.params
        if isinstance(option, click.Option)
        for name in option.opts
    }
    defaults: dict[str, Any] = {}
    for key, value in _table(path).items() if path else ():
        if (name := key.replace("_", "-")) not in options:
            raise UsageError(f"{path}: there is no flag {key!r}{suggestion(name, list(options))}")
        if name in BY_HAND:
            raise UsageError(f"{path} cannot say {key}", f"say it at the command line: --{name}")
        option = options[name]
        if option.is_flag and not isinstance(value, bool):
            raise UsageError(f"{path}: {key} is {value!r}, and can be true or false")
        if isinstance(value, dict):
            value = [f"{field}={setting}" for field, setting in value.items()]
        if option.multiple:
            value = [str(item) for item in (value if isinstance(value, list) else [value])]
        defaults[str(option.name)] = value if option.is_flag or option.multiple else str(value)
    ctx.default_map = defaults or ctx.default_map


def _table(path: str) -> dict[str, Any]:
    """Return what a configuration file says. Raises `UsageError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        read = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"the configuration {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"the configuration {path} is no TOML or JSON: {error}") from None
    if not isinstance(read, dict):
        raise UsageError(f"the configuration {path} is no table of flags")
    return read


def flags(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Join several options into one decorator; the first is shown first."""
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


def takes(*kinds: type, only: Sequence[str] = ()) -> Callable[..., Any]:
    """Return a decorator that gives a command an option for each flag of dataclasses, or for ``only`` some."""
    own = [each for kind in kinds for each in fields(kind) if each.metadata]
    options = [
        click.option(*each.metadata["names"], called(each), **each.metadata["option"])
        for each in own
        if not only or each.name in only
    ]
    return flags(*options)


def taken(kind: type[T], given: Mapping[str, Any]) -> T:
    """Return a dataclass with what a command was given of its fields."""
    own = fields(kind)  # type: ignore[arg-type]
    return kind(**{each.name: given[called(each)] for each in own if called(each) in given})


def called(each: Field[Any]) -> str:
    """Return what a command, and the environment, call the option of a field."""
    return each.metadata.get("dest") or each.name


def many(*names: str, **extra: Any) -> Callable[..., Any]:
    """Return an option that is a list, by comma or by repeating it."""
    return click.option(*names, multiple=True, callback=listed, **extra)


def own(*names: str, **extra: Any) -> Callable[..., Any]:
    """Return an option that takes no value from the environment by its own name."""
    return click.option(*names, allow_from_autoenv=False, **extra)


def settings(name: str, help: str) -> Callable[..., Any]:
    """Return an option that gives a plugin settings, as the command gets them: texts by name."""
    return click.option(name, help=help, **ARGS)


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


selection_flags = flags(
    own("--plugin", multiple=True, metavar="FILE", help="A plugin that is not installed."),
    own("--only-plugins", multiple=True, callback=listed, metavar="DIST,…",
        help="Leave out all others; what is bundled is edit-harness."),
    own("--block-plugins", multiple=True, callback=listed, metavar="DIST,…",
        help="Leave these out."),
)  # fmt: skip


@contextmanager
def chosen(
    *, plugin: Sequence[str] = (), only: Sequence[str] = (), block: Sequence[str] = ()
) -> Iterator[None]:
    """Put flags into the environment for a while; what is not given stays as the environment says."""
    files = os.pathsep.join(map(os.path.abspath, plugin))
    flags = {packages.FILES: files, packages.ONLY: ",".join(only), packages.BLOCK: ",".join(block)}
    before = {name: os.environ.get(name) for name in flags}
    os.environ.update({name: value for name, value in flags.items() if value})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def _loaded() -> Plugins:
    """Return the plugins; tell of those that are broken. Raises `PluginError` for a file that a user named."""
    plugins = Plugins.installed()
    for failure in plugins.failures:
        if failure.package.named:
            raise PluginError(str(failure), "mend it, or leave out --plugin")
        guard.note(str(failure))
    return plugins


def with_selection(command: Callable[..., Any], *, load: bool = False) -> Callable[..., Any]:
    """Give a command the flags that say which plugins there are; none is loaded unless it says ``load``."""

    @selection_flags
    @wraps(command)
    def selected(
        *args: Any,
        plugin: Sequence[str],
        only_plugins: Sequence[str],
        block_plugins: Sequence[str],
        **given: Any,
    ) -> Any:
        with chosen(plugin=plugin, only=only_plugins, block=block_plugins):
            loaded = (_loaded(),) if load else ()
            return command(*loaded, *args, **given)

    return selected


def with_plugins(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the plugins as its first argument, and the flags that say which these are."""
    return with_selection(command, load=True)
