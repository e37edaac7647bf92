"""Edits of single requests found together against the same found one by one, for each editor.

    python -m benchmarks.together --cases 16

CPU seconds of one process on the bundled model's own sample, the routes in turn, after a warm-up;
and the largest difference in the log-likelihood of an edit's own target, which is rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import TypeVar

import click
import torch

from edit_harness import Choose, Request
from edit_harness.data import Scores
from edit_harness.edits import Edit
from edit_harness.interfaces import Editor
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly

T = TypeVar("T")


@click.command()
@click.option("--cases", "count", type=click.IntRange(1), default=16, show_default=True)
@click.option("--editor", multiple=True, help="Only these; by default all that take time.")
def main(count: int, editor: tuple[str, ...]) -> None:
    """Time both routes and print their ratios."""
    torch.set_num_threads(1)
    plugins = Plugins.installed()
    model = assembly.load(plugins, "pocket", device="cpu")
    cases = assembly.make_benchmark(plugins, "counterfact", {}, model.source).cases
    requests = [case.requests[0] for case in cases[:count]]
    names = editor or [c.name for c in plugins.of_kind("editor")]
    print(
        "| editor | one by one, s | together, s | ratio | difference, nats |\n|---|---|---|---|---|"
    )
    for name in names:
        named, _ = assembly.make_editor(plugins, model, name, {}, seed=0)
        if line := compared(model, named.value, requests):
            print(f"| {name} | {line} |", flush=True)


def compared(model: Model, editor: Editor, requests: Sequence[Request]) -> str:
    """Return the cells of an editor, or an empty text if it computes nothing."""
    editor.edit(model, requests[:1])  # what is tried once for a model
    alone, slow = timed(lambda: [editor.edit(model, [request]) for request in requests])
    together, quick = timed(lambda: editor.edit_each(model, [[r] for r in requests]))
    if alone[0].touches_nothing:
        return ""
    pairs = zip(
        likelihoods(model, alone, requests), likelihoods(model, together, requests), strict=True
    )
    apart = max(abs(one - other) for one, other in pairs)
    return f"{slow:.2f} | {quick:.2f} | {slow / quick:.1f} | {apart:.1e}"


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return what a function returns, and the CPU seconds that it took."""
    start = process_time()
    return work(), process_time() - start


def likelihoods(model: Model, edits: Sequence[Edit], requests: Sequence[Request]) -> list[float]:
    """Return the negative log-likelihood of each request's target under its edit."""
    asked = [Choose(request.text, (request.target_new,)) for request in requests]
    answers = model.answer(list(zip(edits, asked, strict=True)))
    return [answer.nll(0) for answer in answers if isinstance(answer, Scores)]


if __name__ == "__main__":
    main()
