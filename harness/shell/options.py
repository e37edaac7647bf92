"""Options that several commands have, and what a command is given for them: no command is here.

A configuration file gives defaults, and the flags of plugins become the plugins themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, field, fields
from difflib import get_close_matches
from functools import reduce, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import UsageError
from ..registry import packages
from ..registry.registry import Plugins, suggestion

T = TypeVar("T")
HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
SETTINGS = {"auto_envvar_prefix": "EDIT_HARNESS", **HELP}
"""Of a command whose flags may be given in the environment."""
BY_HAND = ("trust-remote-code", "allow-pickle-weights")
"""Flags that neither a configuration file nor the environment can give: whoever types them means it."""

VARIABLES = (
    "BLOCK", "CACHE", "DEBUG", "FSYNC", "JUDGE_KEY", "OFFLINE",
    "PLUGINS", "PLUGIN_FILES", "WIKIDATA",
)  # fmt: skip
"""What is read from the environment, by ``EDIT_HARNESS_`` and this, besides flags."""


def misspelt(commands: Iterable[click.Command]) -> Iterator[str]:
    """Say which variables of the environment are called as ours are, and mean nothing.

    ``commands`` are gone through, and so imported, only if there is one that only a flag can explain.
    """
    prefix = "EDIT_HARNESS_"
    given = {name.removeprefix(prefix) for name in os.environ if name.startswith(prefix)}
    if not (unknown := given - {*VARIABLES}):
        return
    params = [p for c in commands if "auto_envvar_prefix" in c.context_settings for p in c.params]
    flags = {str(p.name).upper() for p in params if getattr(p, "allow_from_autoenv", False)}
    for own in sorted(unknown - flags):
        close = get_close_matches(own, sorted({*VARIABLES} | flags), n=1)
        guess = f"; did you mean {prefix}{close[0]}?" if close else ""
        yield f"the variable {prefix}{own} means nothing here{guess}"


def listed(_: click.Context, flag: click.Parameter, values: Sequence[str]) -> list[str]:
    """Split a flag's values at commas; the flag may be repeated too, a value counts once."""
    items = [item.strip() for value in values for item in value.split(",")]
    if not all(items):
        raise click.BadParameter("a name is empty", param=flag)
    return list(dict.fromkeys(items))


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
    import json
    import tomllib

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


def many(*names: str, **extra: Any) -> Callable[..., Any]:
    """Return an option that is a list, by comma or by repeating it."""
    return click.option(*names, multiple=True, callback=listed, **extra)


def own(*names: str, **extra: Any) -> Callable[..., Any]:
    """Return an option that takes no value from the environment by its own name."""
    return click.option(*names, allow_from_autoenv=False, **extra)


def _parsed(_: click.Context, flag: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    from ..registry.settings import parse  # here, since no help needs it

    return parse(texts)


ARGS: dict[str, Any] = {"multiple": True, "callback": _parsed, "metavar": "K=V,…"}
"""What an option is that gives a plugin settings."""


def flag(
    *names: str,
    default: Any = None,
    given: Any = None,
    each: bool = False,
    many: bool = False,
    args: bool = False,
    own: bool = False,
    dest: str = "",
    **option: Any,
) -> Any:
    """Return a field of a dataclass that is an option of commands too, by `takes`.

    ``each`` is a field that several values make several of, ``many`` a list, ``args`` settings of a
    plugin; ``given`` is the option's default and ``dest`` its name where they are not the field's, and
    ``own`` one that takes no value from the environment. The rest is click's.
    """
    if args:
        option |= ARGS
    if each or many:
        option |= {"multiple": True, "callback": listed}
    usual = default if given is None else given
    if usual is not None and usual is not False:
        option["default"] = [str(usual)] if each else usual
        option.setdefault("show_default", str(usual) if each else usual != "")
    said = {"names": names, "dest": dest, "option": {"allow_from_autoenv": not own, **option}}
    if args:
        return field(default_factory=dict, kw_only=True, metadata=said)
    return field(default=() if many else default, metadata=said)


def takes(*kinds: type, only: Sequence[str] = ()) -> Callable[..., Any]:
    """Return a decorator that gives a command an option for each flag of dataclasses, or for ``only`` some."""
    own = [each for kind in kinds for each in fields(kind) if each.metadata]
    return flags(
        *(
            click.option(*each.metadata["names"], called(each), **each.metadata["option"])
            for each in own
            if not only or each.name in only
        )
    )


def taken(kind: type[T], given: Mapping[str, Any]) -> T:
    """Return a dataclass with what a command was given of its fields."""
    own = fields(kind)  # type: ignore[arg-type]
    return kind(**{each.name: given[called(each)] for each in own if called(each) in given})


def called(each: Field[Any]) -> str:
    """Return what a command, and the environment, call the option of a field."""
    return each.metadata.get("dest") or each.name


def settings(name: str, help: str) -> Callable[..., Any]:
    """Return an option that gives a plugin settings, as the command gets them: texts by name."""
    return click.option(name, help=help, **ARGS)


debug = click.option("--debug", is_flag=True, help="Show tracebacks and the log.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


selection_flags = flags(
    own("--plugin", multiple=True, metavar="FILE", help="A plugin that is not installed."),
    own("--only-plugins", multiple=True, callback=listed, metavar="DIST,…",
        help="Leave out all others; what is bundled is edit-harness."),
    own("--block-plugins", multiple=True, callback=listed, metavar="DIST,…",
        help="Leave these out."),
)  # fmt: skip


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
        with packages.chosen(plugin=plugin, only=only_plugins, block=block_plugins):
            loaded = (Plugins.installed(),) if load else ()
            return command(*loaded, *args, **given)

    return selected


def with_plugins(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the plugins as its first argument, and the flags that say which these are."""
    return with_selection(command, load=True)
