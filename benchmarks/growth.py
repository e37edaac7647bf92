"""Whether a run of more cases costs more a case: the bundled model on its own sample.

python -m benchmarks.growth --cases 100 --cases 400
python -m benchmarks.growth --sequence memit --cases 250 --cases 1000

The second is of one sequence of WikiBigEdit's sample, with a checkpoint of 50 cases every 50 edits. Counted is
what the model computes; solving for keys of earlier requests comes on top (seconds have it).
"""

from __future__ import annotations

from collections.abc import Sequence

import click
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.counting import Cost, Work, counting
from edit_harness.api import load_model
from edit_harness.interfaces import Regime
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import parse
from edit_harness.run import measure, plan
from edit_harness.run.assembly import make_benchmark, make_editor
from edit_harness.run.clean import CleanPass

SPREAD = 1.1
"""Largest ratio of the work a case at two sizes."""


def grow(counts: Sequence[int], sequence: str = "") -> tuple[Cost, dict[int, Work]]:
    """Run ROME on so many cases, or an editor as one sequence.

    Returns the model's cost, and the work of each number of cases.
    """
    plugins, model = Plugins.installed(), load_model("pocket")
    task = ("wikibigedit", {"protocol": "teacher-forced"}) if sequence else ("counterfactplus", {})
    benchmark = make_benchmark(plugins, *task, model.source)
    name, _, fields = (sequence or "rome").partition(":")
    editor, _ = make_editor(plugins, model, name, parse(filter(None, [fields])), seed=0)
    points = tuple(range(50, max(counts), 50))
    regime = Regime("sequential", checkpoints=points, sample=50) if sequence else Regime()
    metrics = {n: plugins.find("metric", n).load()() for n in benchmark.task.value.metrics}
    found = {}
    for count in counts:
        steps = plan.steps(benchmark.selected(count), regime)
        with counting(model.architecture) as work:
            editing = measure.Work(CleanPass(model), editor.value, metrics)
            for chunk in plan.chunks(steps, plan.chunk_size(model)):
                editing.records(chunk)
        found[count] = work
    return Cost.of(model.architecture), found


def spread(cost: Cost, found: dict[int, Work]) -> float:
    """Return the ratio of the most to the least work a case."""
    each = [work.macs(cost) / count for count, work in found.items()]
    return max(each) / min(each)


@click.command()
@click.option("--cases", "counts", type=int, multiple=True, default=(100, 400), show_default=True)
@click.option("--sequence", default="", help="An editor, as NAME or NAME:FIELD=VALUE,...")
@click.option("--threads", default=1, show_default=True)
def main(counts: Sequence[int], sequence: str, threads: int) -> None:
    """Print the work and the seconds of each number of cases."""
    torch.set_num_threads(threads)
    cost, found = grow(counts, sequence)
    table = Table(box=None, pad_edge=False)
    for head in ("cases", "forwards/case", "GMAC/case", "s/case", "s"):
        table.add_column(head, justify="right")
    for count, work in found.items():
        table.add_row(
            f"{count}",
            f"{work.forwards / count:.2f}",
            f"{work.macs(cost) / count / 1e9:.4f}",
            f"{work.seconds / count:.3f}",
            f"{work.seconds:.1f}",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"\nwork a case differs by {spread(cost, found) - 1:.1%} (goal ≤ {SPREAD - 1:.0%})"
    )


if __name__ == "__main__":
    main()
