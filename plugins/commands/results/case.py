"""The command ``case``: one case as RULE-EDIT's Appendix D shows it: written, asked and answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import click
from rich.text import Text as Line

from edit_harness.data import Answer, Case, Choose, Divergence, Probe, Scores, Text
from edit_harness.errors import UsageError
from edit_harness.folder.encoding import encode_case
from edit_harness.folder.folder import RunFolder
from edit_harness.folder.record import Record
from edit_harness.run.results import Results
from edit_harness_plugins.command_line import as_json, command
from edit_harness_plugins.reading import answers
from edit_harness_plugins.terminal import plain

from . import show

MARKS = {0.0: "wrong", 1.0: "right"}


@command()
@click.argument("folder", metavar="RUN")
@click.argument("name", metavar="ID")
@as_json
def case(folder: str, name: str, as_json: bool) -> None:
    """Show one case of a run: what was written, asked and answered."""
    run = Results.read(RunFolder.at(folder), {})
    if name not in run.by_id:
        raise UsageError(
            f"{run.folder.path} has no case {name!r}",
            f"its ids look like {next(iter(run.by_id), '')!r}",
        )
    case = run.by_id[name]
    records = sorted((r for r in run.everything if r.case == name), key=lambda r: r.state)
    data = {"case": encode_case(case), "records": [record.row for record in records]}
    show(data, *told(case, records), as_json=as_json)


def told(case: Case, records: Sequence[Record]) -> Iterator[Line | tuple[str, str]]:
    """Yield the parts of the view: headings, and texts behind their labels."""
    yield plain(f"case {case.id}", "bold")
    for request in case.requests:
        yield "write", f"{request.text} -> {request.target_new}"
    for record in records:
        if record.state:
            yield plain(f"\nstate {record.state}", "bold")
        if record.message:
            yield plain(f"{record.status}: {record.message}")
        sides = answers(record)
        for role, numbers in groupby(range(len(case.probes)), key=lambda i: case.probes[i].role):
            yield plain(f"\n{role}", "cyan")
            for i in numbers:
                tags = "".join(f"  [{value}]" for value in case.probes[i].tags.values())
                yield "", case.probes[i].query.prompt + tags
                for label, side in zip(("before", "after"), sides, strict=True):
                    yield from answered(case.probes[i], label, side[i] if i < len(side) else None)


def answered(probe: Probe, label: str, answer: Answer | None) -> Iterator[tuple[str, str]]:
    """Yield an answer behind its label; nothing where there is nothing to show."""
    if isinstance(answer, Divergence) and label == "after":
        yield "moved", f"KL {answer.forward:.3g} nats, reversed {answer.reverse:.3g}"
    elif isinstance(answer, Text):
        yield label, answer.text.strip() + verdict(answer)
    elif isinstance(answer, Scores) and isinstance(probe.query, Choose):
        # The likeliest candidate stands first.
        likely = sorted(enumerate(probe.query.candidates), key=lambda it: -answer.prob(it[0]))
        yield label, "   ".join(f"{text} {answer.prob(i):.3g}" for i, text in likely)


def verdict(answer: Text) -> str:
    """Return what a judge says of a text, in brackets."""
    if (verdict := answer.verdict) is None:
        return ""
    words: list[str] = [verdict.status]
    if verdict.status == "decided" and verdict.score is not None:
        words = [MARKS.get(verdict.score, f"{verdict.score:g}")]
    words += ["right before the edit"] if verdict.reverted else []
    words += [verdict.note] if verdict.note else []
    return f"   [{'; '.join(words)}]"
