"""ROME on CounterFact+ cases: the sequential runner against the harness, in one process.

    python -m benchmarks.cfplus --shape tiny --cases 12

Prints counted work and seconds as ratios, and the largest differences between both routes' numbers;
``--json FILE`` appends a line. Seconds are of the process (CPU) or of CUDA events, with the routes
interleaved; counts are exact and do not depend on the machine.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import torch
import transformers
from rich.console import Console
from rich.table import Table

from benchmarks import naive, synthetic
from edit_harness.edits import UNEDITED
from edit_harness.model import Model
from edit_harness_plugins.editors.rome import Rome


@dataclass
class Work:
    """What a route ran."""

    seconds: float = 0.0
    layer_positions: int = 0
    """Tokens times blocks, forward; those under a gradient count three times."""
    head_positions: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )


@contextmanager
def counting(module: Any, blocks: list[Any], head: Any, device: str) -> Iterator[Work]:
    """Count and time what runs."""
    work = Work()

    def block(_: Any, args: Any, kwargs: Any, __: Any) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        size = hidden.shape[:2].numel()
        work.layer_positions += 3 * size if hidden.requires_grad else size

    def last(_: Any, args: Any, __: Any) -> None:
        work.head_positions += args[0].shape[:-1].numel()

    handles = [b.register_forward_hook(block, with_kwargs=True) for b in blocks]
    handles.append(head.register_forward_hook(last))
    clock = time.process_time if device == "cpu" else time.perf_counter
    synchronize(device)
    start = clock()
    yield work
    synchronize(device)
    work.seconds = clock() - start
    for handle in handles:
        handle.remove()


def synchronize(device: str) -> None:
    """Wait until the device is done."""
    if device != "cpu":
        torch.cuda.synchronize()


@dataclass
class Differences:
    """Largest differences between the routes' numbers."""

    update: float = 0.0
    nll: float = 0.0
    kl: float = 0.0
    flips: int = 0

    def see(self, name: str, value: float) -> None:
        """Take in one difference."""
        setattr(self, name, max(getattr(self, name), value))


class Race:
    """Both routes on the same cases."""

    def __init__(self, shape: str, count: int, device: str) -> None:
        module, tokenizer = synthetic.model(shape)
        self.module, self.device = module.to(device), device
        self.asked = synthetic.cases(count, module.config.vocab_size)
        self.cases = [synthetic.case(asked, str(i)) for i, asked in enumerate(self.asked)]
        self.model = Model(module, tokenizer)
        self.encode = lambda text: tokenizer(text)["input_ids"]
        self.rome = Rome(
            layer=synthetic.LAYERS[shape],
            steps=20,
            weight_decay=0.5,
            clamp=4.0,
            covariance=False,
            context_count=10,
        )
        self.rome.prepare(self.model)
        self.model.resumes(self.rome.layer, 8)
        self.model.packs  # noqa: B018 - the trials are not part of the race
        self.projection = self.model.architecture.projection(self.rome.layer)
        self.blocks = list(module.transformer.h)

    def count(self, run: Callable[[], Any]) -> tuple[Work, Any]:
        """Run something and return its work and what it returned."""
        with counting(self.module, self.blocks, self.module.lm_head, self.device) as work:
            result = run()
        return work, result

    def naive_edit(self) -> Any:
        """Edit one case after the other."""
        contexts = self.rome._shared.contexts
        down = self.projection.module
        return [naive.rome(self.module, down, self.encode, a, contexts) for a in self.asked]

    def naive_evaluation(self, updates: Any) -> Any:
        """Evaluate before and after, one case after the other."""
        down, found = self.projection.module, []
        for asked, (u, r) in zip(self.asked, updates, strict=True):
            before = naive.evaluate(self.module, self.encode, asked)
            after = naive.edited(self.module, down, self.encode, asked, u, r)
            found.append((before, after, naive.divergence(before, after)))
        return found

    def edit(self) -> Any:
        """Edit all cases together."""
        return self.rome.edit_each(self.model, [case.requests for case in self.cases])

    def evaluation(self, edits: Any) -> Any:
        """Evaluate all cases before and after together."""
        return self.model.answer([
            (edit, probe.query)
            for case, made in zip(self.cases, edits, strict=True)
            for edit in (UNEDITED, made)
            for probe in case.probes
        ])  # fmt: skip

    def compare(self, updates: Any, edits: Any, theirs: Any, ours: Any) -> Differences:
        """Return the differences between the numbers of both routes."""
        seen, answers = Differences(), iter(ours)
        for (u, r), edit, (before, after, kl), asked in zip(
            updates, edits, theirs, self.asked, strict=True
        ):
            (delta,) = edit.weights.values()
            change = torch.outer(u, r)
            seen.see("update", float((delta.dense() - change).norm() / change.norm()))
            for side in (before, after):
                for row in side.nll:
                    answer = next(answers)
                    mine = torch.tensor([answer.nll(0), answer.nll(1)])
                    seen.see("nll", float((mine - row).abs().max()))
                    margin = float((row[0] - row[1]).abs())
                    seen.flips += bool((mine[0] > mine[1]) != (row[0] > row[1])) and margin > 1e-4
                drifts = [next(answers).forward for _ in asked.compared]
                if side is after:
                    seen.see("kl", float((torch.tensor(drifts) - kl).abs().max()))
        return seen


@click.command()
@click.option("--shape", type=click.Choice(list(synthetic.SHAPES)), default="tiny")
@click.option("--cases", "count", default=12, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option("--threads", default=1, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path), help="Append a line of JSON.")
def main(shape: str, count: int, device: str, threads: int, path: Path | None) -> None:
    """Run both routes and print their ratios."""
    torch.set_num_threads(threads)
    race = Race(shape, count, device)
    slow_edit, updates = race.count(race.naive_edit)
    fast_edit, edits = race.count(race.edit)
    slow_ask, theirs = race.count(lambda: race.naive_evaluation(updates))
    fast_ask, ours = race.count(lambda: race.evaluation(edits))
    rows = {
        "value search": (slow_edit, fast_edit),
        "before + after": (slow_ask, fast_ask),
        "all": (slow_edit + slow_ask, fast_edit + fast_ask),
    }
    differences = race.compare(updates, edits, theirs, ours)
    show(rows, differences, count)
    if path:
        line = {
            "shape": shape, "cases": count, "device": device, "threads": threads,
            "torch": torch.__version__, "transformers": transformers.__version__,
            "platform": platform.platform(), "differences": asdict(differences),
            "work": {k: [asdict(w) for w in both] for k, both in rows.items()},
        }  # fmt: skip
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def show(rows: dict[str, tuple[Work, Work]], differences: Differences, count: int) -> None:
    """Print the table."""
    table = Table(box=None, pad_edge=False)
    for head in ("", "naive s/case", "ours s/case", "ratio", "layer work", "head work"):
        table.add_column(head, justify="left" if not head else "right")
    for name, (slow, fast) in rows.items():
        table.add_row(
            name,
            f"{slow.seconds / count:.3f}",
            f"{fast.seconds / count:.3f}",
            f"{slow.seconds / fast.seconds:.1f}x",
            f"{fast.layer_positions / slow.layer_positions:.1%}",
            f"{fast.head_positions / slow.head_positions:.1%}",
        )
    console = Console()
    console.print(table)
    console.print(
        "largest differences: " + "  ".join(f"{k} {v:.1e}" for k, v in vars(differences).items())
    )


if __name__ == "__main__":
    main()
