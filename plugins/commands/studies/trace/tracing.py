"""The command ``trace``: through which states of a model a fact, or a task's facts, are recalled.

A fact is traced to what the model itself answers, or to a target that is given; of a task only
facts that the model knows, whose true object it answers first. What is traced stands in
`causal`, how in `restoration`, what is made of the numbers in `mediation`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import track

from edit_harness import durable
from edit_harness.cases import SUBJECT, Choose, Request, Scores
from edit_harness.edits import UNEDITED
from edit_harness.encoding import finite
from edit_harness.errors import DataError, ResourceError, UsageError
from edit_harness.interfaces import ModelSource
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.wording import counted
from edit_harness_plugins.commands.report import figures, formats, heatmaps
from edit_harness_plugins.commands.report.heatmaps import HeatMap
from edit_harness_plugins.commands.run.console import err, out
from edit_harness_plugins.commands.run.flags import LoadingFlags

from . import causal, mediation, restoration
from .causal import Fact, Method, Traced
from .mediation import Effects

ASKED = 256
"""Facts of a task that are asked together whether the model knows them."""
EXAMPLE = "edit-harness trace --prompt '{} lives in' --subject 'Ada'"
UNKNOWN = "?"
"""Stands for a target that only the model will tell."""


@dataclass(frozen=True, kw_only=True)
class Flags(LoadingFlags):
    """The flags of ``trace``, as they were parsed."""

    model: Sequence[str]
    prompt: str | None
    subject: str | None
    target: str | None
    task: str | None
    task_args: Mapping[str, str]
    limit: int | None
    kinds: Sequence[str]
    window: int | None
    noise: float
    samples: int
    html: str | None
    png: str | None
    seed: int
    as_json: bool

    def method(self, layers: int) -> Method:
        """Return how facts are traced in a model of so many layers."""
        window = self.window or causal.default_window(layers)
        return Method(self.kinds, window, self.noise, self.samples, self.seed)


@dataclass(frozen=True)
class Found:
    """Facts to trace: what they were found in, and how many were asked for that."""

    facts: Sequence[Fact]
    task: str = ""
    asked: int = 1
    other: str = ""
    """What the model answers first, where that is not the target that was given."""

    def line(self, model: Model) -> str:
        """Return what was found, in words."""
        if self.task:
            return (
                f"{len(self.facts):,} of the first {counted(self.asked, 'fact')} of {self.task}: "
                "the model answers their true object first"
            )
        (fact,) = self.facts
        return f"{fact.text} →{_target(model, fact)}"

    @property
    def notes(self) -> Iterator[str]:
        """Yield what keeps the facts from saying what they are traced for."""
        if self.other:
            yield f"the target is not what the model answers first: {self.other}"
        if again := sum(fact.again for fact in self.facts):
            what = f"{again:,} of the prompts" if self.task else "the prompt"
            yield f"the subject is in {what} once more, where no noise is put on it"

    @property
    def digest(self) -> str:
        """SHA-256 over the facts: their tokens, targets and subjects."""
        parts = [(f.parts.prompt, f.parts.target, list(f.subject)) for f in self.facts]
        return durable.digest(parts)


def trace(plugins: Plugins, flags: Flags) -> int:
    """Trace what the flags say, print it and write its pictures, and return the exit code."""
    _check(flags)
    name, options = flags.model[0], flags.model_options
    source = assembly.checked_source(
        plugins, name, options.get("revision"), options["trust_remote_code"]
    )
    requests = _of_task(plugins, flags, source) if flags.task else [_typed(flags)]
    model = assembly.load(plugins, name, **options)
    method = flags.method(model.architecture.layers)
    causal.sites(model, method.kinds, method.window)  # before anything takes long
    found = _found(model, requests, flags)
    traces = traced(model, found.facts, method)
    show(Circumstances(model, found, method, causal.spread(model)), traces, flags)
    return 0


def _check(flags: Flags) -> None:
    """Raise `UsageError` for flags that say nothing to trace, or nothing that can be traced."""
    if len(flags.model) != 1:
        raise UsageError("trace takes one model")
    if unknown := [kind for kind in flags.kinds if kind not in causal.KINDS]:
        raise UsageError(
            f"there is no kind of state {unknown[0]!r}", f"known: {', '.join(causal.KINDS)}"
        )
    alone = (flags.prompt, flags.subject, flags.target)
    if flags.task and any(alone):
        raise UsageError(
            "a task brings its own facts", "leave out --task, or --prompt, --subject and --target"
        )
    if flags.target is not None and not flags.target.strip():
        raise UsageError("--target is empty", "leave it out: then it is what the model answers")
    if not flags.task and not (flags.prompt and flags.subject):
        raise UsageError("a fact to trace has a prompt and a subject", f"{EXAMPLE}, or --task NAME")
    if flags.png:
        figures.check()


def _of_task(plugins: Plugins, flags: Flags, source: ModelSource) -> list[Request]:
    """Return all facts of the task, read before the model is loaded."""
    assert flags.task
    settings = flags.task_args
    benchmark = assembly.make_benchmark(plugins, flags.task, settings, source, flags.seed)
    return [request for case in benchmark.cases for request in case.requests]


def _typed(flags: Flags) -> Request:
    """Return the fact that the flags name. Raises `UsageError` for a prompt without its subject."""
    assert flags.prompt
    assert flags.subject
    if flags.prompt.count(SUBJECT) != 1:
        raise UsageError(
            f"the prompt {flags.prompt!r} has not exactly one {SUBJECT} for the subject", EXAMPLE
        )
    return Request(flags.prompt, flags.subject, flags.target or UNKNOWN)


def _found(model: Model, requests: Sequence[Request], flags: Flags) -> Found:
    """Return what there is to trace."""
    if flags.task:
        return known(model, requests, flags.limit, flags.task)
    (request,) = requests
    recalled = Fact.recalled(model, request)
    if flags.target is None:
        return Found([recalled])
    first = _answered_first(model, requests)[0]
    return Found([Fact.of(model, request)], other="" if first else _target(model, recalled).strip())


def _target(model: Model, fact: Fact) -> str:
    """Return a fact's target as it stands behind the prompt."""
    return model.tokens.continuation(fact.parts.prompt, fact.parts.target)


def known(model: Model, requests: Sequence[Request], limit: int | None, task: str) -> Found:
    """Return the first facts of a task whose true object the model answers first, each once.

    They are asked in order until there are ``limit`` of them. Raises `DataError` if there is none.
    """
    asked = {
        (r.prompt, r.subject): Request(r.prompt, r.subject, r.target_true)
        for r in requests
        if r.target_true
    }
    waiting = list(asked.values())
    facts: list[Fact] = []
    count = 0
    while count < len(waiting) and (limit is None or len(facts) < limit):
        some = waiting[count : count + ASKED]
        right = _answered_first(model, some)
        for request, answered in zip(some, right, strict=True):
            count += 1
            if answered:
                facts.append(Fact.of(model, request))
            if len(facts) == limit:
                break
    if not facts:
        raise DataError(
            f"the model knows none of the {counted(count, 'fact')} of {task} that have a true object",
            f"trace a fact of your own: {EXAMPLE}",
        )
    return Found(facts, task, count)


def _answered_first(model: Model, requests: Sequence[Request]) -> list[bool]:
    """Tell of each fact whether every token of its object is the likeliest in its place."""
    asked = [(UNEDITED, Choose(r.text, (r.target_new,))) for r in requests]
    return [a.exact(0) for a in model.answer(asked) if isinstance(a, Scores)]


def traced(model: Model, facts: Sequence[Fact], method: Method) -> list[Traced]:
    """Trace facts behind a bar. Raises `ResourceError` where memory does not hold their states."""
    bar = track(
        restoration.trace(model, facts, method),
        "tracing",
        total=len(facts),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    try:
        return list(bar)
    except torch.OutOfMemoryError:
        raise ResourceError(
            f"the states of a fact do not fit the memory of {model.device}",
            "use fewer --samples, --device-map auto, or --device cpu",
        ) from None


@dataclass(frozen=True)
class Circumstances:
    """What the numbers of a trace depend on."""

    model: Model
    found: Found
    method: Method
    sigma: float
    """The standard deviation of the model's embeddings."""

    def lines(self, made: Effects) -> list[tuple[str, str]]:
        """Return what was traced how, and what the noise takes away, each text behind its name."""
        model, method = self.model, self.method
        size = f"{method.noise:g} standard deviations of the embeddings"
        noises = counted(method.samples, "sample")
        parts = {"clean": made.clean, "under noise": made.noised, "total effect": made.total}
        chance = ", ".join(f"{name} {mediation.shown(value)}" for name, value in parts.items())
        interval = f"{mediation.LEVEL:.0%}, over {made.over}"
        return [
            ("model", f"{model.name}   {model.precision}   {model.digest[:16]}"),
            ("facts" if self.found.task else "fact", self.found.line(model)),
            ("noise", f"{size} ({method.noise * self.sigma:.3g}), {noises}, seed {method.seed}"),
            ("chance", chance),
            ("interval", interval if made.total.n > 1 else "none, of one number"),
            *(("note", note) for note in self.notes(made)),
        ]

    def notes(self, made: Effects) -> list[str]:
        """Return why the numbers may say less than they seem to."""
        return [*self.found.notes, *filter(None, [mediation.doubt(made)])]

    def identity(self) -> dict[str, Any]:
        """Return the same as data, with the digests of the model and the facts."""
        model, found, method = self.model, self.found, self.method
        return {
            "model": {"name": model.name, "digest": model.digest, "precision": model.precision},
            "noise": {
                "standard_deviations": method.noise,
                "of_embeddings": self.sigma,
                "samples": method.samples,
                "seed": method.seed,
            },
            "window": method.window,
            "facts": {
                "task": found.task or None,
                "known": len(found.facts),
                "asked": found.asked,
                "digest": found.digest,
            },
            "fact": None if found.task else found.line(model),
        }


def show(of: Circumstances, traces: Sequence[Traced], flags: Flags) -> None:
    """Print effects as maps or JSON, and write them as a page and an image if asked for."""
    one = None if of.found.task else traces[0]
    made = mediation.of_fact(one, _texts(of.model, one.fact)) if one else mediation.of_facts(traces)
    maps = mediation.maps(made, of.method.window)
    lines = of.lines(made)
    if flags.as_json:
        whole = of.identity() | {"notes": of.notes(made)} | mediation.as_json(made)
        out.out(json.dumps(finite(whole), indent=1))
    else:
        for name, text in lines:
            out.print(formats.labelled(name, text, out.width))
        for heat in maps:
            out.print()
            out.print(heatmaps.terminal(heat, out.width))
    _write(maps, [f"{name}: {text}" for name, text in lines], flags)


def _texts(model: Model, fact: Fact) -> list[str]:
    """Return the tokens of a prompt as texts."""
    decode = model.tokens.tokenizer.decode
    return [decode([token]) for token in fact.parts.prompt]


def _write(maps: Sequence[HeatMap], lines: Sequence[str], flags: Flags) -> None:
    """Write the page and the image that were asked for. Raises `ResourceError`."""
    if flags.html:
        page = heatmaps.page(maps, "Causal trace", lines)
        try:
            durable.put(Path(flags.html).expanduser(), page.encode())
        except OSError as error:
            raise ResourceError(
                f"{flags.html} cannot be written: {error.strerror}",
                "name another file: --html FILE",
            ) from None
    if flags.png:
        heatmaps.image(maps, Path(flags.png).expanduser())
    for name in filter(None, (flags.html, flags.png)):
        err.print(f"saved    {name}", markup=False, soft_wrap=True)
