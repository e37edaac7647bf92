"""The loop of a run on a tiny model: people, an editor that pushes, and the records of all chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from edit_harness import Case, Choose, Drift, Editor, Metric, Probe, Request
from edit_harness.edits import Edit
from edit_harness.interfaces import Regime
from edit_harness.model.model import Model
from edit_harness.run.clean import CleanPass
from edit_harness.run.measure import Work
from edit_harness.run.plan import chunk_size, chunks, steps

PEOPLE = ("Ada", "Bob", "Ann", "Danielle", "Paris")


def case(name: str, prompt: str = "") -> Case:
    request = Request("{} lives in", name, "Paris", "Rome")
    probes = (
        Probe("efficacy", Choose(prompt or request.text, ("Paris", "Rome"))),
        Probe("neighborhood", Drift("Danielle lives in")),
    )
    return Case(name, (request,), probes)


CASES = [case(name) for name in PEOPLE]


@dataclass
class Probability(Metric):
    """What the model gives the new object."""

    def measure(self, case, before, after) -> Mapping[str, float]:
        return {"pre_p": before[0].prob(0), "post_p": after[0].prob(0), "kl": after[1].forward}

    def failed(self, case, before) -> Mapping[str, float]:
        return {"post_p": 0.0}


@dataclass
class Push(Editor):
    """A rank-one change whose direction follows from the subject; fails where it is told to."""

    fails: tuple[str, ...] = ()
    infinite: tuple[str, ...] = ()
    edited: list[str] = field(default_factory=list)

    def edit(self, model: Model, requests: Sequence[Request]) -> Edit:
        projection = model.architecture.projection(0)
        total = Edit()
        for request in requests:
            self.edited.append(request.subject)
            if request.subject in self.fails:
                raise ValueError(f"no edit of {request.subject}")
            seed = torch.Generator().manual_seed(sum(map(ord, request.subject)))
            inputs, outputs = projection.matrix.shape
            left = torch.randn(inputs, 1, generator=seed)
            if request.subject in self.infinite:
                left = left * float("nan")
            right = torch.randn(1, outputs, generator=seed)
            total = total + Edit(projection.low_rank(left, right))
        return total


METRICS = {"probability": Probability()}


SINGLE = Regime()


def worked(model, editor, plan, clean=None, size=None, done=(), **extra):
    """Yield the records of each chunk, without those that are done."""
    work = Work(clean or CleanPass(model), editor, METRICS, **extra)
    for chunk in chunks(plan, size or chunk_size(model), done):
        yield work.records(chunk)


def ran(model, editor, cases=CASES, regime=SINGLE, **extra):
    made = worked(model, editor, list(steps(cases, regime)), **extra)
    return [record for records in made for record in records]
