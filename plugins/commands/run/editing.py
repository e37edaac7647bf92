"""The command ``edit``: write the facts of a file into a model, and keep the edit or the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from edit_harness import api
from edit_harness.data import Choose, Request, Scores
from edit_harness.edits import UNEDITED, Edit
from edit_harness.errors import DataError, UsageError
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import Named
from edit_harness.run import assembly
from edit_harness_plugins.inputs import json_of, text_of

from . import preset_file
from .console import err, out
from .flags import EditingFlags
from .measuring import EditFlags

FIELDS = ("prompt", "subject", "target_new", "target_true")


def edit(plugins: Plugins, flags: EditFlags) -> None:
    """Make one edit of all requests, say what it does, and store it."""
    check_single(flags, "edit")
    if not (flags.save or flags.save_model):
        raise UsageError(
            "edit has nowhere to put its result",
            "say --save edit.safetensors, --save-model DIR, or both; to look at one: try",
        )
    requests = read(Path(flags.requests))
    if flags.save_model:
        api.check_free(Path(flags.save_model))
    model = assembly.load(plugins, flags.model[0], **flags.model_options)
    named, source = make_editor(plugins, model, flags, flags.seed)
    made = named.value.edit(model, requests)
    before, after = likelihoods(model, made, requests)
    # The model first: it is what an edit may not be fit for.
    if flags.save_model:
        api.save_model(model, made, flags.save_model)
    if flags.save:
        made.save(flags.save, model.digest)
    saved = [path for path in (flags.save_model, flags.save) if path]
    if flags.as_json:
        facts = [asdict(request) for request in requests]
        report = {"requests": facts, "before": before, "after": after, "info": dict(made.info)}
        out.out(json.dumps({"editor": named.name, **report, "saved": saved}, indent=1))
        return
    preset = f"  preset: {source}" if source else ""
    err.print(f"editor   {named.name}{preset}")
    out.print(
        f"facts    {len(requests):,}; the new object's probability: "
        f"{fmean(before):.1%} before, {fmean(after):.1%} after"
    )
    for path in saved:
        err.print(f"saved    {path}")


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
    named, configured = assembly.make_editor(
        plugins, model, editor.qualified, settings, seed, source
    )
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
    if missing := [name for name in FIELDS[:3] if name not in given]:
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
