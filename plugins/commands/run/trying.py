"""The command ``try``: one edit, and the model before and after it, side by side.

For each prompt: the continuation, the likeliest next tokens with logits and probabilities, and
the maximum logit. Each is asked with and without the edited fact in front: an edit is "loud" if
the fact, once mentioned, takes over other subjects' prompts (Hoelscher-Obermaier et al., 2023).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from edit_harness.data import Choose, Generate, NextToken, Request
from edit_harness.edits import UNEDITED, Edit
from edit_harness.errors import UsageError
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.shell.terminal import plain

from .console import out
from .editing import check_single, make_editor
from .measuring import TryFlags

TOP = 5
View = dict[str, Any]
"""What the model does with a prompt, JSON-ready."""


def try_edit(plugins: Plugins, flags: TryFlags) -> None:
    """Make one edit or read it, and print the views."""
    check_single(flags, "try")
    model = assembly.load(plugins, flags.model[0], **flags.model_options)
    request, neighbors = fact(plugins, model, flags)
    if flags.edit:
        edit, label = Edit.load(flags.edit, model.digest), flags.edit
        model.check(edit)
    else:
        assert request is not None
        named, _ = make_editor(plugins, model, flags)
        edit, label = named.value.edit(model, [request]), named.name
    asked = [*([request.text] if request else []), *(flags.ask or neighbors)]
    fronts = ("", f"{request.statement}. ") if request else ("",)
    prompts = [front + question.strip() for question in asked for front in fronts]
    target = request.target_new if request else None
    pairs = list(views(model, edit, target, prompts, flags.max_new_tokens))
    if flags.as_json:
        shown = asdict(request) if request else None
        out.out(json.dumps({"request": shown, "views": pairs}))
        return
    what = f"{request.statement}   " if request else ""
    out.print(plain(f"edit     {what}({label})", "bold"))
    for pair in pairs:
        out.print("", table(pair, target), sep="\n")


def fact(plugins: Plugins, model: Model, flags: TryFlags) -> tuple[Request | None, list[str]]:
    """Return the fact to write and, if none was given, a sample's fact and a neighbour of it.

    A saved edit has its facts in it, so that none need be given. Raises `UsageError` for half a
    fact, and for a saved edit that nothing is asked of.
    """
    given = (flags.prompt, flags.subject, flags.target)
    if all(given):
        return Request(*map(str, given)), []
    if flags.edit and not any(given):
        if not flags.ask:
            raise UsageError("a saved edit is asked nothing", "say what: --ask 'Ada lives in'")
        return None, []
    if any(given) or "counterfact" not in model.source.data:
        raise UsageError(
            "a fact has three parts",
            "edit-harness try --prompt '{} lives in' --subject 'Ada' --target 'Oslo'",
        )
    task = assembly.make_task(plugins, "counterfact", {}, model.source, seed=0).value
    case = next(iter(task.cases()))
    neighbors = [p.query.prompt for p in case.probes if p.role == "neighborhood"]
    return case.requests[0], neighbors[:1]


def views(
    model: Model, edit: Edit, target: str | None, prompts: Sequence[str], length: int
) -> Iterator[View]:
    """Yield each prompt with what the model does before and after the edit."""
    candidates = (target,) if target else ()
    questions = [
        (e, query)
        for prompt in prompts
        for e in (UNEDITED, edit)
        for query in (Generate(prompt, length), NextToken(prompt), Choose(prompt, candidates))
    ]
    answers = iter(model.answer(questions))
    found = (view(model, *parts) for parts in zip(answers, answers, answers, strict=True))
    for prompt, before, after in zip(prompts, found, found, strict=True):
        yield {"prompt": prompt, "before": before, "after": after}


def view(model: Model, text: Any, following: Any, scores: Any) -> View:
    """Put the three answers to one prompt together; ``target`` is None if there is no new object."""
    logprobs = following.logprobs
    top = [
        {
            "text": model.tokens.tokenizer.decode([int(i)]),
            "logit": float(logprobs[i] + following.log_partition),
            "probability": math.exp(logprobs[i]),
        }
        for i in logprobs.argsort()[::-1][:TOP]
    ]
    return {
        "continuation": text.text.strip(),
        "top": top,
        "max_logit": top[0]["logit"],
        "target": scores.prob(0) if scores.logprobs else None,
    }


def table(pair: View, target: str | None) -> Table:
    """Return a prompt's two views side by side."""
    made = Table(title=plain(pair["prompt"]), title_justify="left", box=None, pad_edge=False)
    made.add_column("", no_wrap=True)
    for head in ("before", "after"):
        made.add_column(head, overflow="fold", ratio=1)
    sides = (pair["before"], pair["after"])
    made.add_row("goes on", *(side["continuation"] for side in sides))
    for i, tokens in enumerate(zip(*(side["top"] for side in sides), strict=True)):
        cells = (f"{t['probability']:6.1%} {t['logit']:7.2f} {t['text']!r}" for t in tokens)
        made.add_row("" if i else "next", *cells)
    made.add_row("max logit", *(f"{side['max_logit']:15.2f}" for side in sides))
    if target:
        made.add_row("new object", *(f"{side['target']:6.1%} {target}" for side in sides))
    return made
