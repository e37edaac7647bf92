"""The Python interface: the same path as the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from tqdm.auto import tqdm

from .data import Request
from .edits import Edit
from .errors import PluginError, ResourceError, UsageError
from .folder.record import Record
from .interfaces import Editor, Executor, Regime, Task
from .model.model import Model
from .registry.registry import Plugins, suggestion
from .registry.settings import build_component
from .run.assembly import load, make_benchmark, make_editor, written
from .run.evaluation import Evaluation, assemble
from .run.loop import run_all
from .run.results import Results
from .run.spec import ModelRef, RunSpec, Selection

MODEL_ARGUMENTS = (
    "dtype", "device", "device_map", "max_memory", "revision", "batch_rows", "chat_template",
    "trust_remote_code", "allow_pickle_weights",
)  # fmt: skip


def evaluate(
    editor: str | Editor | RunSpec = "rome",
    task: str | Task | None = None,
    model: str | Model | None = None,
    *,
    limit: int | None = None,
    output: str | Path = "results",
    new: bool = False,
    advance: Callable[[Record], object] = lambda record: None,
    executor: str = "local",
    executor_args: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Results:
    """Edit case by case, ask before and after, and return the numbers.

    ``editor``, ``task`` and ``model`` are names or objects, by default ``rome``, ``counterfactplus`` and
    ``pocket``; ``settings`` are other fields of `edit_harness.RunSpec` (editor_args, task_args, metrics, judge,
    judge_args, controls, control_args, regime, seed), and arguments of `edit_harness_plugins.loading.load` (dtype,
    device, revision, device_map, max_memory, batch_rows, chat_template, trust_remote_code, allow_pickle_weights).
    A `RunSpec` in the place of the editor says all of these, but for what is given besides. A run that is in
    ``output`` already goes on, or is read back. ``executor``, with its settings, says who runs the cases: workers
    load a model by its name. A terminal and a notebook show a bar. Raises `HarnessError`.
    """
    spec, loading = _specified(editor, task, settings)
    if model is None:
        ref = spec.model or ModelRef()
        ref = ModelRef(name=ref) if isinstance(ref, str) else ref  # as it is typed first
        model, loading = ref.name, {**ref.options, **loading}
    if not isinstance(model, str | Model):
        raise UsageError(
            f"a {type(model).__name__} is no model of the harness",
            "make one of it: eh.load_model(module, tokenizer)",
        )
    plugins = Plugins.installed()
    running: Executor = build_component(plugins.find("executor", executor), executor_args or {})
    carried: dict[str, Any] = {}
    if isinstance(model, str):
        ref, carried = ModelRef.split(model, loading)
        spec = replace(spec, model=ref)
    elif running.elsewhere:
        raise UsageError(
            f"workers of {executor} cannot load a model that is in memory",
            "give its name or folder: model='gpt2-xl'",
        )
    with running.ready():
        if isinstance(model, str):
            model = load(plugins, model, **running.loading(loading))
        benchmark = make_benchmark(plugins, spec.task, spec.task_args, model.source, spec.seed)
        evaluation = assemble(plugins, model, benchmark, spec, Selection(limit))
        folder = evaluation.open(Path(output), new=new)
        turns = running.turns(carried)
        seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        with tqdm(total=len(evaluation.visits), desc="editing", disable=not seen) as bar:

            def told(_: Evaluation, record: Record) -> None:
                bar.update()
                advance(record)

            return run_all({evaluation: folder}, told, turns=turns)[0]


def _specified(
    editor: str | Editor | RunSpec, task: str | Task | None, settings: Mapping[str, Any]
) -> tuple[RunSpec, dict[str, Any]]:
    """Return a run, and what is said of loading its model. Raises `UsageError` for what means neither."""
    elsewhere = ("editor", "task", "model", "preset", "tuned")  # as arguments, or by commands only
    known = [each.name for each in fields(RunSpec) if each.name not in elsewhere]
    own = {name: value for name, value in settings.items() if name in known and value is not None}
    own |= {} if task is None else {"task": task}
    loading = {name: value for name, value in settings.items() if name not in known}
    arguments = [*known, *MODEL_ARGUMENTS, *(evaluate.__kwdefaults__ or ())]
    if unknown := [name for name in loading if name not in MODEL_ARGUMENTS]:
        raise UsageError(
            f"evaluate has no argument {unknown[0]!r}{suggestion(unknown[0], arguments)}",
            f"settings of a run: {', '.join(known)}; of its model: {', '.join(MODEL_ARGUMENTS)}",
        )
    spec = replace(editor, **own) if isinstance(editor, RunSpec) else RunSpec(editor=editor, **own)
    if not isinstance(spec.regime, Regime | None):
        raise UsageError(f"{spec.regime!r:.60} is no regime", 'regime=eh.Regime("batch", 10)')
    if isinstance(text := spec.controls, str):
        raise UsageError(f"controls is the text {text!r}", f"give a list: controls=[{text!r}]")
    return spec, loading


def load_model(module: Any, tokenizer: Any = None, **options: Any) -> Model:
    """Return a `Model` from a name or folder, or from a causal LM in memory and its tokenizer."""
    if isinstance(module, str):
        return load(Plugins.installed(), module, **options)
    return Model(module, tokenizer, **options)


def edit(
    model: Model, editor: str | Editor, requests: Request | Sequence[Request], **editor_args: Any
) -> Edit:
    """Return the edit that writes the requests into the model, which stays as it is."""
    wanted = [requests] if isinstance(requests, Request) else list(requests)
    if not isinstance(model, Model) or not wanted:
        raise UsageError(
            "an edit needs a model and at least one request",
            "eh.edit(eh.load_model('pocket'), 'rome', [eh.Request(...)])",
        )
    named, _ = make_editor(Plugins.installed(), model, editor, editor_args, seed=0)
    return written(named, model, wanted)


def save_model(model: Model, edit: Edit, folder: str | Path) -> None:
    """Write the edited model, in the precision it is loaded in, as transformers reads it.

    Raises `UsageError` for a folder that has something in it, and `PluginError` for an edit that is
    not one of weights, or not of finite ones.
    """
    path = Path(folder)
    check_free(path)
    if edit.prefix or edit.adaptors or edit.patch:
        raise PluginError(
            "this edit is no change of weights, so no model can be written of it",
            "keep the edit itself: edit.save(FILE), --save FILE",
        )
    edit.check_finite()
    with model.applied(edit):
        try:
            model.module.save_pretrained(path)  # type: ignore[operator]
            model.tokens.tokenizer.save_pretrained(path)
        except (OSError, SafetensorError) as error:
            raise ResourceError(f"{path} cannot be written: {error}") from None


def check_free(folder: Path) -> None:
    """Raise `UsageError` if a folder has something in it, or is a file."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder} is there already", "name a folder that is new or empty")
