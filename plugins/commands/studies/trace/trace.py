"""The command ``trace``: through which states of a model a fact, or a task's known facts, are recalled.

The indirect effect of a state is by how much putting it back raises the probability of the object above
that under noise; the total effect is what the noise takes away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.progress import track

from edit_harness import files, stats
from edit_harness.data import SUBJECT, Choose, Request, Scores
from edit_harness.edits import UNEDITED
from edit_harness.errors import DataError, ResourceError, UsageError, counted
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.run.estimates import LEVEL
from edit_harness.stats import Estimate
from edit_harness_plugins.commands.report import heatmaps
from edit_harness_plugins.commands.report.heatmaps import HeatMap
from edit_harness_plugins.commands.results import out, show
from edit_harness_plugins.commands.run.console import err
from edit_harness_plugins.loading.load import checked_source

from ..studies import TraceFlags
from . import patching
from .patching import Fact, Method, Traced

ASKED = 256
"""Facts of a task that are asked together whether the model knows them."""
EXAMPLE = "edit-harness trace --prompt '{} lives in' --subject 'Ada'"


def trace(plugins: Plugins, flags: TraceFlags) -> int:
    """Trace what the flags say, print it and write its pictures, and return the exit code."""
    typed = checked(flags)
    name, options = flags.model[0], flags.model_options
    source = checked_source(plugins, name, options.get("revision"), options["trust_remote_code"])
    if typed:
        model = assembly.load(plugins, name, **options)
        fact = (Fact.of if flags.target else Fact.recalled)(model, typed)
        target = model.tokens.continuation(fact.parts.prompt, fact.parts.target)
        facts, asked, line = [fact], 1, f"{fact.text} →{target}"
    else:
        task, args, seed = str(flags.task), flags.task_args, flags.seed
        cases = assembly.make_benchmark(plugins, task, args, source, seed).cases
        model = assembly.load(plugins, name, **options)
        requests = [request for case in cases for request in case.requests]
        facts, asked, line = known(model, requests, flags.limit, task)
    window = flags.window or patching.default_window(model.architecture.layers)
    how = Method(flags.kinds, window, flags.noise, flags.noises, flags.seed)
    finish(model, asked, line, how, traced(model, facts, how), flags)
    return 0


def checked(flags: TraceFlags) -> Request | None:
    """Return the fact that the flags name; None for a task's. Raises `UsageError`."""
    if len(flags.model) != 1:
        raise UsageError("trace takes one model")
    if unknown := [kind for kind in flags.kinds if kind not in patching.KINDS]:
        there = f"known: {', '.join(patching.KINDS)}"
        raise UsageError(f"there is no kind of state {unknown[0]!r}", there)
    if flags.png:
        heatmaps.check(flags.png)
    if flags.task:
        return None
    if not (flags.prompt and flags.subject):
        raise UsageError("a fact to trace has a prompt and a subject", f"{EXAMPLE}, or --task NAME")
    if flags.prompt.count(SUBJECT) != 1:
        told = f"the prompt {flags.prompt!r} has not exactly one {SUBJECT} for the subject"
        raise UsageError(told, EXAMPLE)
    return Request(flags.prompt, flags.subject, flags.target or "?")  # recalled by the model


def known(
    model: Model, requests: Sequence[Request], limit: int | None, task: str
) -> tuple[list[Fact], int, str]:
    """Return the first facts of a task whose true object the model answers first, of how many, and a line on it."""
    true = [Request(r.prompt, r.subject, r.target_true) for r in requests if r.target_true]
    waiting = list({(r.prompt, r.subject): r for r in true}.values())
    facts: list[Fact] = []
    asked = 0
    while asked < len(waiting) and len(facts) != limit:
        if asked % ASKED == 0:
            some = waiting[asked : asked + ASKED]
            answers = model.answer([(UNEDITED, Choose(r.text, (r.target_new,))) for r in some])
        answer = answers[asked % ASKED]
        if isinstance(answer, Scores) and answer.exact(0):
            facts.append(Fact.of(model, waiting[asked]))
        asked += 1
    if not facts:
        raise DataError(
            f"the model knows none of the {counted(asked, 'fact')} of {task} that have a true object",
            f"trace a fact of your own: {EXAMPLE}",
        )
    line = f"{len(facts):,} of the first {counted(asked, 'fact')} of {task}"
    return facts, asked, f"{line}: the model answers their true object first"


def traced(model: Model, facts: Sequence[Fact], how: Method) -> list[Traced]:
    """Trace facts behind a bar. Raises `ResourceError` where memory does not hold their states."""
    traces, hidden = patching.trace(model, facts, how), not err.is_terminal
    bar = track(traces, "tracing", len(facts), console=err, transient=True, disable=hidden)
    try:
        return list(bar)
    except torch.OutOfMemoryError:
        raise ResourceError(
            f"the states of a fact do not fit the memory of {model.device}",
            "use fewer --noises, --device-map auto, or --device cpu",
        ) from None


def finish(
    model: Model, asked: int, line: str, how: Method, traces: Sequence[Traced], flags: TraceFlags
) -> None:
    """Print effects as maps or JSON, and write them as a page and an image if asked for."""
    if flags.task:
        made = of_facts(traces)
    else:
        prompt = traces[0].fact.parts.prompt
        made = of_fact(traces[0], [model.tokens.tokenizer.decode([token]) for token in prompt])
    sigma = patching.spread(model)
    size = f"{how.noise:g} standard deviations of the embeddings ({how.noise * sigma:.3g})"
    chances = {"clean": made.clean, "under noise": made.noised, "total effect": made.total}
    lines = [
        ("model", f"{model.name}   {model.precision}   {model.digest[:16]}"),
        ("facts" if flags.task else "fact", line),
        ("noise", f"{size}, {counted(how.samples, 'sample')}, seed {how.seed}"),
        ("chance", ", ".join(f"{name} {shown(e)}" for name, e in chances.items())),
        ("interval", f"{LEVEL:.0%}, over {made.over}"),
    ]
    facts = [each.fact for each in traces]
    read = [(fact.parts.prompt, fact.parts.target, list(fact.subject)) for fact in facts]
    data = {
        "model": {"name": model.name, "digest": model.digest, "precision": model.precision},
        "noise": {
            "standard_deviations": how.noise, "of_embeddings": sigma,
            "samples": how.samples, "seed": how.seed,
        },
        "window": how.window,
        "facts": {
            "task": flags.task, "known": len(facts), "asked": asked,
            "digest": files.digest(read),
        },
        "fact": None if flags.task else line,
        **as_data(made),
    }  # fmt: skip
    maps = heat_maps(made, how.window)
    parts = [part for heat in maps for part in ("", heatmaps.terminal(heat, out.width))]
    show(data, *lines, *parts, as_json=flags.as_json)
    title = f"Causal trace of {model.name}: {flags.task or line}"
    for name in heatmaps.write(flags.html, flags.png, maps, title, lines):
        err.print(f"saved    {name}", markup=False, soft_wrap=True)


ROLES = (
    "first subject token", "middle subject tokens", "last subject token",
    "first subsequent token", "further tokens", "last token",
)  # fmt: skip
"""Kinds of token, in the order of a prompt."""
FIRST, MIDDLE, LAST, NEXT, FURTHER, END = ROLES
WHAT = {"hidden": "a hidden state", "mlp": "MLP outputs", "attention": "attention outputs"}


@dataclass(frozen=True)
class Effects:
    """Estimates over noises of one fact, or over facts: ``over`` says which. All are of probabilities.

    ``indirect`` has rows by layers for each kind of state; where no fact has such a token, n is 0.
    """

    over: str
    rows: tuple[str, ...]
    clean: Estimate
    noised: Estimate
    total: Estimate
    indirect: Mapping[str, Sequence[Sequence[Estimate]]]


def of_fact(traced: Traced, tokens: Sequence[str]) -> Effects:
    """Return a fact's effects by token, over its noises; ``tokens`` are the prompt's, as texts."""
    subject = traced.fact.subject
    rows = [text + "*" * (i in subject) for i, text in enumerate(tokens)]
    clean = np.full(len(traced.noised), traced.clean)
    indirect = {k: v - traced.noised[:, None, None] for k, v in traced.restored.items()}
    found = _estimated("noises", rows, clean, traced.noised, indirect)
    return replace(found, clean=Estimate(traced.clean, math.nan, math.nan, 1))


def of_facts(traces: Sequence[Traced]) -> Effects:
    """Return effects by kind of token, over facts: of each its mean over noises and tokens."""
    clean = np.array([traced.clean for traced in traces])
    noised = np.array([traced.noised.mean() for traced in traces])

    def by_role(traced: Traced, kind: str) -> list[np.ndarray]:
        effects = traced.restored[kind].mean(0) - traced.noised.mean()
        own = effects[traced.fact.subject.start :]
        there, missing = np.array(roles(traced.fact)), np.full(own.shape[1], math.nan)
        return [own[there == role].mean(0) if role in there else missing for role in ROLES]

    kinds = traces[0].restored
    indirect = {kind: np.array([by_role(each, kind) for each in traces]) for kind in kinds}
    return _estimated("facts", ROLES, clean, noised, indirect)


def roles(fact: Fact) -> list[str]:
    """Return the kind of each token of the prompt, from the subject's first on.

    The subject's kinds come first where two fit: a subject of one token has its last one only, and
    a prompt that ends with its subject has no last token.
    """
    size, behind = len(fact.subject), len(fact.parts.prompt) - fact.subject.stop
    subject = [FIRST, *[MIDDLE] * (size - 2), LAST] if size > 1 else [LAST]
    after = [NEXT, *[FURTHER] * (behind - 2), END] if behind > 1 else [END] * behind
    return subject + after


def _estimated(
    over: str,
    rows: Sequence[str],
    clean: np.ndarray,
    noised: np.ndarray,
    indirect: Mapping[str, np.ndarray],
) -> Effects:
    columns = {"clean": clean, "noised": noised, "total": clean - noised}
    for kind, values in indirect.items():
        for row, layer in np.ndindex(values.shape[1:]):
            columns[f"{kind} {row} {layer}"] = values[:, row, layer]
    limits = dict.fromkeys(columns, (-1.0, 1.0)) | {"clean": stats.SHARE, "noised": stats.SHARE}
    found = stats.estimates(columns, stats.column_means, limits, level=LEVEL)
    grids = {
        kind: [
            [found[f"{kind} {row} {layer}"] for layer in range(values.shape[2])]
            for row in range(values.shape[1])
        ]
        for kind, values in indirect.items()
    }
    return Effects(over, tuple(rows), found["clean"], found["noised"], found["total"], grids)


def heat_maps(effects: Effects, window: int) -> list[HeatMap]:
    """Return a heat map for each kind of state; all have one scale, from 0 to the largest effect."""
    every = [e.value for grid in effects.indirect.values() for line in grid for e in line if e.n]
    average = "Average indirect effect" if effects.over == "facts" else "Indirect effect"
    heat_map = partial(HeatMap, x="layer", y="token", form="z.2f", least=0.0, most=max(0.0, *every))
    made = []
    for kind, grid in effects.indirect.items():
        around = "" if kind == "hidden" or window == 1 else f" of {window} layers around each"
        title, layers = f"{average} of {WHAT[kind]}{around}", [str(i) for i in range(len(grid[0]))]
        values = [[e.value if e.n else None for e in line] for line in grid]
        there = [(e.value, y, x) for y, line in enumerate(grid) for x, e in enumerate(line) if e.n]
        made.append(heat_map(title, effects.rows, layers, values, best=max(there)[1:]))
    return made


def shown(estimate: Estimate) -> str:
    """Return an estimate as a text, with its interval if it has one."""
    ends = f" ({estimate.low:z.2f} to {estimate.high:z.2f})"
    return f"{estimate.value:z.2f}" + ("" if math.isnan(estimate.low) else ends)


def as_data(effects: Effects) -> dict[str, Any]:
    """Return all estimates as data, of each its value, interval and how many it is over."""
    chance = {"clean": effects.clean, "noised": effects.noised, "total_effect": effects.total}
    return {
        "over": effects.over,
        "level": LEVEL,
        "probability": {name: vars(estimate) for name, estimate in chance.items()},
        "rows": list(effects.rows),
        "indirect_effects": {
            kind: [[vars(e) for e in line] for line in grid]
            for kind, grid in effects.indirect.items()
        },
    }
