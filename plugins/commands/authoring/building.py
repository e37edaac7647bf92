"""The command ``build-data``: a benchmark's records from facts of one's own.

What the records are is the builder's; here it is found and given its material, and what it makes is
put in its place when it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from edit_harness.cases import Choose, Scores
from edit_harness.errors import DataError, HarnessError, UsageError
from edit_harness.files import set_aside
from edit_harness.registry.guard import blamed, named
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import build_component

from ..run.console import err, out
from ..run.flags import LoadingFlags
from . import Builder, Knows, Material


@dataclass(frozen=True, kw_only=True)
class Flags(LoadingFlags):
    """The flags of ``build-data``, as they were parsed."""

    name: str
    triples: str
    templates: str | None
    builder_args: Mapping[str, str]
    model: str
    out: str
    seed: int
    force: bool


def build_data(plugins: Plugins, flags: Flags) -> None:
    """Build the data that were asked for, and put them in their place."""
    component = plugins.find("builder", flags.name)
    builder = build_component(component, flags.builder_args, flags.seed)
    target = Path(os.path.abspath(flags.out))
    check_place(target, builder, flags.force)
    templates = readable(flags.templates, "--templates") if flags.templates else None
    triples = readable(flags.triples, "--triples")
    knows = knowledge(plugins, flags) if flags.model else None
    with in_place(target) as partial:
        run(builder, component.name, Material(triples, templates, knows), partial)
    out.print(f"saved    {flags.out}")


def run(builder: Builder, name: str, material: Material, partial: Path) -> None:
    """Let the builder write; what it raises that is no error for users is its author's to mend."""
    whose = named("builder", name, builder)
    with blamed(f"{whose} failed", builder, passing=(HarnessError, OSError)):
        builder.build(material, partial, lambda line: err.print(line))


def readable(path: str, flag: str) -> Path:
    """Return the path of a file that is there. Raises `DataError`."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}", f"name one: {flag} FILE")
    return Path(path)


def check_place(target: Path, builder: Builder, force: bool) -> None:
    """Raise `UsageError` if something stands where the data would go, save an empty folder."""
    folder = builder.makes == "folder"
    if target.is_dir() != folder and target.exists():
        raise UsageError(
            f"{target} is a {'file' if folder else 'folder'}, and a {builder.makes} is made",
            f"name another: --out {target}.{'data' if folder else 'json'}",
        )
    if not target.exists() or (folder and not any(target.iterdir())):
        return
    if not force:
        raise UsageError(
            f"{target} is there already", "name another, or add --force to move it aside"
        )
    if kept_as(target).exists():
        raise UsageError(f"{target} and {kept_as(target)} are there already", "remove one of them")


@contextmanager
def in_place(target: Path) -> Iterator[Path]:
    """Give a path to write to, and move what was written to ``target`` afterwards.

    Nothing is left of what was not finished; what stands at ``target`` is kept beside it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        partial = Path(folder) / target.name
        yield partial
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        elif target.exists():
            set_aside(target, str(kept_as(target)))
        partial.rename(target)


def kept_as(target: Path) -> Path:
    """Return where what stood in the way is moved."""
    return target.with_name(f"{target.name}.old")


def knowledge(plugins: Plugins, flags: Flags) -> Knows:
    """Load the model, and return what tells whether it goes on with an object after a prompt."""
    # Here, since they bring torch along.
    from edit_harness.edits import UNEDITED
    from edit_harness.run import assembly

    model = assembly.load(plugins, flags.model, **flags.model_options)

    def knows(asked: Sequence[tuple[str, str]]) -> list[bool]:
        answers = model.answer([(UNEDITED, Choose(prompt, (target,))) for prompt, target in asked])
        return [isinstance(answer, Scores) and answer.exact(0) for answer in answers]

    return knows
