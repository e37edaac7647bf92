"""The command ``prepare``: compute or fetch what runs need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from edit_harness.errors import DataError, UsageError
from edit_harness.files import cache_folder
from edit_harness.interfaces import Making, whole
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import configure, shape_of
from edit_harness.run import assembly
from edit_harness_plugins.editors import covariance
from edit_harness_plugins.inputs import file_at

from . import preset_file
from .console import err, out
from .measuring import PrepareFlags

WIKIPEDIA = "wikipedia"
SNAPSHOT = ("wikimedia/wikipedia", "20231101.en")
SHUFFLE_SEED = 1
BUFFER = 10_000


def prepare(plugins: Plugins, flags: PrepareFlags) -> None:
    """Prepare every task and every pair of editor and model."""
    for name in flags.model:
        source = assembly.source_of(plugins, name)
        for task in flags.task:
            made = assembly.make_task(plugins, task, flags.task_args, source, seed=0)
            with making(cache_folder() / "tasks" / made.name, flags.data) as given:
                ready = made.value.make(given)
            if not ready:  # there is nothing to make: reading the cases fetches the data
                count = sum(1 for _ in made.value.cases())
                out.print(f"task     {made.name}: {count:,} cases of {made.value.origin}")
        if flags.task and not (flags.corpus or flags.imported):
            continue
        model = assembly.load(plugins, name, **flags.model_options)
        for editor in flags.editor:
            prepare_editor(plugins, model, editor, flags)


def prepare_editor(plugins: Plugins, model: Model, name: str, flags: PrepareFlags) -> None:
    """Make what an editor needs of a model: second moments, then what is its own."""
    component = plugins.find("editor", name)
    settings, _ = preset_file.over(flags.tuned, component.name, flags.editor_args, model)
    shape = shape_of(model.module.config, model.source.family)
    made = assembly.build_component(component, settings, seed=0)
    editor = configure(made, shape, name).editor
    with assembly.unprepared():
        editor.check(model)
    layers = sorted({layer for each in whole(editor) for layer in each.moment_layers})
    if layers:
        prepare_moments(model, name, layers, flags)
    with making(model.cache("editors"), flags.data, "" if layers else flags.imported) as given:
        found = [each.make(model, given) for each in whole(editor)]
    if any(found):
        return
    if flags.data or (flags.imported and not layers):
        flag = "--data" if flags.data else "--import"
        raise UsageError(f"editor {name} has no use for {flag}", f"leave out {flag}")
    if not layers:
        out.print(f"editor   {name} needs nothing prepared")


def prepare_moments(model: Model, editor: str, layers: Sequence[int], flags: PrepareFlags) -> None:
    """Make second moments of a corpus, or take the authors', if they are not there."""
    names = _names(layers)
    missing = [layer for layer in layers if covariance.find(model, layer) is None]
    if flags.imported:
        if len(layers) != 1:
            raise UsageError(
                f"{flags.imported} holds one layer, the editor needs {names}",
                "import each on its own: --editor rome --editor-args layer=N --import FILE",
            )
        found = {layers[0]: covariance.import_npz(Path(flags.imported), model, layers[0])}
    elif flags.corpus:
        out.print(f"moments  {names}: up to {flags.tokens:,} tokens")
        with bar("tokens", flags.tokens) as advance:
            found = covariance.collect(
                model, texts(flags.corpus), layers, corpus=flags.corpus,
                max_length=flags.max_length, max_tokens=flags.tokens, advance=advance,
            )  # fmt: skip
    elif missing:
        raise UsageError(
            f"the second moments of {_names(missing)} are not there",
            "say what to compute them from: --corpus FILE, or --corpus wikipedia",
        )
    else:
        out.print(f"editor   {editor}: second moments are there ({names})")
        return
    path = covariance.folder(model) / covariance.cache_name(found)
    covariance.save(found, path)
    of = found[layers[0]].provenance
    out.print(f"saved    {path}  ({of.tokens:,} tokens of {of.corpus})")


def _names(layers: Sequence[int]) -> str:
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


@contextmanager
def making(folder: Path, data: str | None, imported: str | None = None) -> Iterator[Making]:
    """Yield what a plugin is given that makes something beforehand, with a bar on a terminal."""
    with bar("steps", total=None) as advance:
        yield Making(folder, data or "", imported or "", err.print, advance)


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; the function takes how much is done, and of how much."""
    columns = (TextColumn(what), BarColumn(), TextColumn("{task.completed:,}"),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done, of: shown.update(task, completed=done, total=of)


def texts(corpus: str) -> Iterator[str]:
    """Yield the documents of a corpus: ``wikipedia``, or a file.

    A .jsonl file has an object with a field ``text`` on each line; any other file is plain text
    with blank lines between documents or, if it has none, a document a line. Raises `DataError`.
    """
    if corpus == WIKIPEDIA:
        return _wikipedia()
    remedy = f"a corpus is a .txt file, a .jsonl file with a field text, or {WIKIPEDIA}"
    return _documents(file_at(corpus, remedy))


def _documents(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8-sig") as file:
        try:
            if path.suffix == ".jsonl":
                yield from (_text(line, f"{path}:{i}") for i, line in enumerate(file, 1))
                return
            each_line = all(line.strip() for line in file)
            file.seek(0)
            if each_line:
                yield from (line.rstrip("\n") for line in file)
            for blank, lines in groupby(file, key=lambda line: not line.strip()):
                if not blank:
                    yield "".join(lines).rstrip("\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 text: {error.reason}") from None


def _text(line: str, where: str) -> str:
    try:
        text = json.loads(line).get("text")
    except (ValueError, AttributeError):
        raise DataError(f"{where}: not JSON") from None
    if not isinstance(text, str):
        raise DataError(f"{where}: there is no field text")
    return text


def _wikipedia() -> Iterator[str]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise DataError(
            "Wikipedia is read with the package datasets, which is not installed",
            "install it: pip install 'edit-harness[datasets]', or give a file",
        ) from None
    try:
        stream = load_dataset(*SNAPSHOT, split="train", streaming=True)
        for row in stream.shuffle(SHUFFLE_SEED, buffer_size=BUFFER):
            yield row["text"]
    except (OSError, ValueError, RuntimeError) as error:
        cause = f"Wikipedia cannot be read: {' '.join(str(error).split())[:160]}"
        raise DataError(cause, "give a file: --corpus FILE") from None
