"""The command ``build-data``: a benchmark's records from facts of one's own, made by a builder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from edit_harness.data import Choose, Scores
from edit_harness.errors import HarnessError, UsageError
from edit_harness.registry.guard import blamed, named
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import build_component
from edit_harness_plugins.command_line import (
    SETTINGS,
    command,
    settings,
    taken,
    takes,
    with_plugins,
)
from edit_harness_plugins.terminal import Terminal

from ..run.flags import LoadingFlags
from . import Builder, Knows, Material

if TYPE_CHECKING:
    from edit_harness.model.model import Model


@command("build-data", context_settings=SETTINGS)
@click.argument("name", metavar="BUILDER")
@click.option("--triples", required=True, metavar="FILE",
              help="subject, relation, object: .jsonl, .csv, .tsv or .json.")  # fmt: skip
@click.option("--templates", metavar="FILE",
              help='JSON: {"P27": {"training": ["{} is a citizen of", …], "held_out": […]}, …}.')  # fmt: skip
@settings("--builder-args", help="Fields of the builder.")
@click.option("-m", "--model", default="", metavar="NAME", help="Only facts that it knows.",
              allow_from_autoenv=False)  # fmt: skip
@takes(LoadingFlags)
@click.option("-o", "--output", "out", required=True, metavar="PATH",
              help="The file or folder to make.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@with_plugins
def build_data(
    plugins: Plugins,
    name: str,
    triples: str,
    templates: str | None,
    builder_args: Mapping[str, str],
    model: str,
    out: str,
    seed: int,
    **loading: Any,
) -> None:
    """Make a benchmark's records from facts of one's own: see ls builders.

    Templates are prompts that end where the object begins, with {} for the subject: a fact is written
    and asked for in those of training, and rephrased in those of held_out.
    """
    component = plugins.find("builder", name)
    builder: Builder = build_component(component, builder_args, seed)
    target = Path(os.path.abspath(out))
    empty = builder.makes == "folder" and target.is_dir() and not any(target.iterdir())
    if target.exists() and not empty:
        raise UsageError(f"{target} is there already", "name another: --output PATH")
    words, knows = Path(templates) if templates else None, None
    if model:
        # Here, since it brings torch along.
        from edit_harness.run import assembly

        options = taken(LoadingFlags, loading).model_options
        knows = knowing(assembly.load(plugins, model, **options))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Nothing is left of what was not finished.
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        partial = Path(folder) / target.name
        # What else a builder raises is its author's to mend.
        whose = named("builder", component.name, builder)
        with blamed(f"{whose} failed", builder, passing=(HarnessError, OSError)):
            material = Material(Path(triples), words, knows)
            builder.build(material, partial, Terminal(stderr=True).print)
        partial.rename(target)
    Terminal().print(f"saved    {out}")


def knowing(model: Model) -> Knows:
    """Return what tells whether a model goes on with an object, wholly, after a prompt."""
    # Here, since it brings torch along.
    from edit_harness.edits import UNEDITED

    def knows(asked: Sequence[tuple[str, str]]) -> list[bool]:
        answers = model.answer([(UNEDITED, Choose(prompt, (target,))) for prompt, target in asked])
        return [isinstance(answer, Scores) and answer.exact(0) for answer in answers]

    return knows
