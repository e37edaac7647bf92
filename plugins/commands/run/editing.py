"""The commands ``edit`` and ``try``: write facts into a model and keep the result, or look at one edit.

``try`` asks with and without the edited fact in front: an edit is "loud" if the fact, once mentioned, takes
over other subjects' prompts (Hoelscher-Obermaier et al., 2023).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from edit_harness import api
from edit_harness.data import SUBJECT, Choose, Generate, NextToken, Request, Scores
from edit_harness.edits import UNEDITED, Edit
from edit_harness.errors import DataError, UsageError
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import Named
from edit_harness.run import assembly
from edit_harness_plugins.exporters import adapter
from edit_harness_plugins.inputs import json_of, text_of
from edit_harness_plugins.terminal import plain

from . import preset_file
from .console import err, line, out
from .flags import EditingFlags
from .measuring import EditFlags, TryFlags

FIELDS = ("prompt", "target_new", "subject", "target_true")
TOP = 5
View = dict[str, Any]
"""What the model does with a prompt, JSON-ready."""


def edit(plugins: Plugins, flags: EditFlags) -> None:
    """Make one edit of all requests, or add up saved ones; say what it does, and store it."""
    check_single(flags, "edit")
    check_told(flags)
    requests = read(Path(flags.requests)) if flags.requests else []
    model = assembly.load(plugins, flags.model[0], **flags.model_options)
    if flags.edit:
        made = sum((Edit.load(path, model.digest) for path in flags.edit), Edit())
        label, preset = ", ".join(flags.edit), ""
    else:
        named, source = make_editor(plugins, model, flags, flags.seed)
        made = assembly.written(named, model, requests)
        label, preset = named.name, source and f"  preset: {source}"
    before, after = likelihoods(model, made, requests)
    report: View = {"editor": label, "requests": [asdict(request) for request in requests]}
    report |= {"before": before, "after": after, "info": dict(made.info)}
    # First what an edit may not be fit for.
    if flags.save_adapter:
        near, report["adapter"] = adapter.save(model, made, flags.save_adapter, flags.rank)
        report["adapter"]["after"] = likelihoods(model, near, requests)[1]
    if flags.save_model:
        api.save_model(model, made, flags.save_model)
    if flags.save:
        made.save(flags.save, model.digest)
    saved = [path for path in (flags.save_adapter, flags.save_model, flags.save) if path]
    if flags.as_json:
        out.out(json.dumps({**report, "saved": saved}, indent=1))
        return
    err.print(f"editor   {label}{preset}")
    if requests:
        out.print(
            f"facts    {len(requests):,}; the new object's probability: "
            f"{fmean(before):.1%} before, {fmean(after):.1%} after"
        )
    line("adapter", adapter.told(**report["adapter"]) if flags.save_adapter else "")
    for path in saved:
        err.print(f"saved    {path}")


def check_told(flags: EditFlags) -> None:
    """Raise `UsageError` if flags name no facts, no place or one that is taken, or half a LoRA."""
    if not (flags.requests or flags.edit):
        raise UsageError("edit has nothing to write", "name facts, --requests FILE, or --edit FILE")
    if not (flags.save or flags.save_model or flags.save_adapter):
        raise UsageError(
            "edit has nowhere to put its result",
            "say --save FILE, --save-model DIR or --save-adapter DIR; to look at one: try",
        )
    if flags.rank and not flags.save_adapter:
        raise UsageError("--rank is of a LoRA, and none is kept", "add --save-adapter DIR")
    for folder in filter(None, (flags.save_model, flags.save_adapter)):
        api.check_free(Path(folder))


def check_single(flags: EditingFlags, command: str) -> None:
    """Raise `UsageError` for several models or editors."""
    if len(flags.model) != 1 or len(flags.editor) != 1:
        raise UsageError(f"{command} takes one model and one editor")


def make_editor(
    plugins: Plugins, model: Model, flags: EditingFlags, seed: int = 0
) -> tuple[Named, str]:
    """Return the editor that flags name, and where its fields come from if not from them."""
    editor = plugins.find("editor", flags.editor[0])
    settings, source = preset_file.over(flags.tuned, editor.name, flags.editor_args, model)
    name = editor.qualified
    named, configured = assembly.make_editor(plugins, model, name, settings, seed, source)
    return named, configured.source


def likelihoods(
    model: Model, edit: Edit, requests: Sequence[Request]
) -> tuple[list[float], list[float]]:
    """Return the probability of each request's new object before and after the edit."""
    asked = [Choose(request.text, (request.target_new,)) for request in requests]
    answers = model.answer([(which, query) for which in (UNEDITED, edit) for query in asked])
    found = [a.prob(0) for a in answers if isinstance(a, Scores)]
    return found[: len(requests)], found[len(requests) :]


def read(path: Path) -> list[Request]:
    """Return the requests of a file of JSON Lines, or of a JSON list.

    A request is an object with prompt, subject and target_new, or a record of CounterFact. Raises
    `DataError` that names the line.
    """
    text = text_of(path)
    if text.lstrip().startswith("["):
        values = [(f"{path}, item {i}", v) for i, v in enumerate(json_of(path, text), 1)]
    else:
        lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
        values = [(f"{path}:{i}", json_of(path, line, i)) for i, line in lines]
    if not values:
        raise DataError(f"{path} has no requests")
    return [_request(value, where) for where, value in values]


def _request(value: Any, where: str) -> Request:
    rewrite = value.get("requested_rewrite", value) if isinstance(value, Mapping) else {}
    given = {name: rewrite[name] for name in FIELDS if name in rewrite}
    subject = FIELDS[2:3] if SUBJECT in str(given.get("prompt")) else ()
    if missing := [name for name in (*FIELDS[:2], *subject) if name not in given]:
        raise DataError(
            f"{where}: a request has no {' and no '.join(missing)}",
            'write {"prompt": "{} lives in", "subject": "Ada", "target_new": "Oslo"}',
        )
    # CounterFact keeps an identifier beside the text of an object.
    texts: dict[str, Any] = {
        name: part.get("str") if isinstance(part, Mapping) else part for name, part in given.items()
    }
    try:
        return Request(**texts)
    except DataError as error:
        raise DataError(f"{where}: {error.cause}", error.remedy) from None


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
        edit, label = assembly.written(named, model, [request]), named.name
    asked = [*([request.text] if request else []), *(flags.ask or neighbors)]
    fronts = ("", f"{request.statement}. ") if request else ("",)
    prompts = [front + question.strip() for question in asked for front in fronts]
    target = request.target_new if request else None
    pairs = list(views(model, edit, target, prompts, flags.max_new_tokens))
    if flags.as_json:
        out.out(json.dumps({"request": request and asdict(request), "views": pairs}))
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
        return Request(str(flags.prompt), str(flags.subject), str(flags.target)), []
    if flags.prompt and flags.target and SUBJECT not in flags.prompt:
        return Request.of(flags.prompt, flags.target), []
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
