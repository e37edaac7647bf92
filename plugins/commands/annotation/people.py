"""``annotate``: people label texts of a run."""

from __future__ import annotations

from typing import Any

import click

from edit_harness.options import HELP, as_json, debug, many


@click.group(context_settings=HELP)
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
    from . import annotating

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
    from . import annotating

    annotating.import_(annotating.ImportFlags(**flags))
