"""Fields of dataclasses as options of commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import click

HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


def listed(_: click.Context, flag: click.Parameter, values: Sequence[str]) -> list[str]:
    """Split a flag's values at commas; the flag may be repeated too, a value counts once."""
    items = [item.strip() for value in values for item in value.split(",")]
    if not all(items):
        raise click.BadParameter("a name is empty", param=flag)
    return list(dict.fromkeys(items))


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
    """Return a field of a dataclass that is an option of commands too, by `edit_harness_plugins.command_line.takes`.

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
        option.setdefault("show_default", usual != "")
    said = {"names": names, "dest": dest, "option": {"allow_from_autoenv": not own, **option}}
    if args:
        return field(default_factory=dict, kw_only=True, metadata=said)
    return field(default=() if many else default, metadata=said)
