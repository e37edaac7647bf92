"""Writes the reference of commands into its page, from the commands themselves."""

import re
from collections.abc import Iterator
from typing import Any

import click

from edit_harness.cli import main

PAGE, MARK = "reference/commands.md", "<!-- commands -->"
EVERYWHERE = {"debug", "plugin", "only_plugins", "block_plugins", "quiet", "help_all"}
"""Options that the page explains once."""


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Put the commands where their page has its mark; MkDocs calls this for each page."""
    if page.file.src_uri != PAGE:
        return markdown
    assert MARK in markdown
    return markdown.replace(MARK, "\n".join(reference()))


def reference() -> Iterator[str]:
    """Yield the lines: a heading for each section of the help, and for each command in it."""
    sections: dict[str, dict[str, click.Command]] = {}
    for name, component in main._bundled.items():
        if component.summary:  # else it is an old name
            sections.setdefault(component.group, {})[name] = component.load()
    for section, commands in sections.items():
        yield f"## {section}\n"
        for name, command in commands.items():
            yield from described(command, name, 3)


def described(command: click.Command, path: str, level: int) -> Iterator[str]:
    """Yield what a command does, how it is called, and its options, or the commands in it."""
    context = command.context_class(command, info_name=path, **command.context_settings)
    yield f"{'#' * level} {path} {{ #{path.replace(' ', '-')} }}\n"
    yield prose(command.help or "") + "\n"
    yield f"```text\nedit-harness {path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner
            yield from described(inner, f"{path} {name}", level + 1)
        return
    yield "| option | |\n|---|---|"
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record and param.name not in EVERYWHERE and "--help" not in param.opts and any(record):
            yield f"| {flags(record[0])} | {prose(record[1])} |"
    yield ""


def flags(names: str) -> str:
    """Return an option's names, and what it takes, as code."""
    *others, last = re.split(r", (?=-)", names)
    name, _, value = last.partition(" ")
    shown = ", ".join(f"`{each}`" for each in [*others, name])
    return (shown + (f" `{value}`" if value else "")).replace("|", "\\|")


def prose(text: str) -> str:
    """Return a text of the help as Markdown; what click calls a tuple is a default."""
    text = re.sub(r"\[default: \((.*?)\)\]", r"[default: \1]", text.replace("\b", ""))
    return text.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")
