"""The command ``prepare``: compute or fetch what runs need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import jsonlines
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from edit_harness.errors import DataError, UsageError
from edit_harness.files import cache_folder
from edit_harness.interfaces import Making, whole
from edit_harness.model.model import Model
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import Named, configure, shape_of
from edit_harness.run import assembly
from edit_harness_plugins.editors._search import covariance

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
            if prepare_task(made, flags):
                continue
            count = sum(1 for _ in made.value.cases())
            out.print(f"task     {task}: {count:,} cases of {made.value.origin}")
        if flags.task and not (flags.corpus or flags.imported):
            continue
        model = assembly.load(plugins, name, **flags.model_options)
        for editor in flags.editor:
            prepare_editor(plugins, model, editor, flags)


def prepare_task(task: Named, flags: PrepareFlags) -> bool:
    """Make what a task reads besides its data, and tell whether there was anything to make."""
    with bar("steps", total=None) as advance:
        making = Making(
            folder=cache_folder() / "tasks" / task.name,
            data=flags.data or "",
            report=lambda line: err.print(line),
            advance=advance,
        )
        made: bool = task.value.make(making)
    if not made and flags.data:
        raise UsageError(f"nothing is made of data for task {task.name}", "leave out --data")
    return made


def prepare_editor(plugins: Plugins, model: Model, name: str, flags: PrepareFlags) -> None:
    """Make what an editor needs of a model: second moments, then what is its own."""
    component = plugins.find("editor", name)
    settings = flags.editor_args
    settings, _ = preset_file.over(flags.tuned, component.name, settings, model)
    shape = shape_of(model.module.config, model.source.family)
    made = assembly.build_component(component, settings, seed=0)
    editor = configure(made, shape, name).editor
    with assembly.unprepared():
        editor.check(model)
    layers = sorted({layer for each in whole(editor) for layer in each.moment_layers})
    if layers:
        prepare_moments(model, name, layers, flags)
    with bar("steps", total=None) as advance:
        making = Making(
            folder=model.cache("editors"),
            data=flags.data or "",
            imported="" if layers else flags.imported or "",
            report=lambda line: err.print(line),
            advance=advance,
        )
        made = sum(each.make(model, making) for each in whole(editor)) > 0
    if not made and flags.data:
        raise UsageError(f"editor {name} learns from no data", "leave out --data")
    if not made and not layers:
        if flags.imported:
            raise UsageError(f"editor {name} has nothing to import", "leave out --import")
        out.print(f"editor   {name} needs nothing prepared")


def prepare_moments(model: Model, editor: str, layers: Sequence[int], flags: PrepareFlags) -> None:
    """Make second moments, if they are not there."""
    if flags.imported:
        imported(model, layers, Path(flags.imported))
        return
    if flags.corpus:
        computed(model, layers, flags, flags.corpus)
    elif missing := [layer for layer in layers if covariance.find(model, layer) is None]:
        raise UsageError(
            f"the second moments of {_names(missing)} are not there",
            "say what to compute them from: --corpus FILE, or --corpus wikipedia",
        )
    else:
        out.print(f"editor   {editor}: second moments are there ({_names(layers)})")


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; the function takes how much is done, and of how much."""
    columns = (TextColumn(what), BarColumn(), TextColumn("{task.completed:,}"),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda done, of: shown.update(task, completed=done, total=of)


def imported(model: Model, layers: Sequence[int], path: Path) -> None:
    """Take a statistic of ROME's authors into the cache."""
    if len(layers) != 1:
        raise UsageError(
            f"{path} holds one layer, the editor needs {_names(layers)}",
            "import each on its own: --editor rome --editor-args layer=N --import FILE",
        )
    found = {layers[0]: covariance.import_npz(path, model, layers[0])}
    _save(model, found)


def computed(model: Model, layers: Sequence[int], flags: PrepareFlags, corpus: str) -> None:
    """Compute second moments, behind a bar that says how long it takes."""
    out.print(f"moments  {_names(layers)}: up to {flags.tokens:,} tokens")
    with bar("tokens", flags.tokens) as advance:
        found = covariance.collect(
            model,
            texts(corpus),
            layers,
            corpus=corpus,
            max_length=flags.max_length,
            max_tokens=flags.tokens,
            advance=advance,
        )
    _save(model, found)


def _save(model: Model, found: dict[int, covariance.Covariance]) -> None:
    path = covariance.folder(model) / covariance.cache_name(found)
    covariance.save(found, path)
    made = next(iter(found.values())).provenance
    out.print(f"saved    {path}  ({made.tokens:,} tokens of {made.corpus})")


def _names(layers: Sequence[int]) -> str:
    """Return layers as a person says them."""
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def texts(corpus: str) -> Iterator[str]:
    """Yield the documents of a corpus: ``wikipedia``, or a file.

    A .jsonl file has an object with a field ``text`` on each line; any other file is plain text
    with blank lines between documents or, if it has none, a document a line. Raises `DataError`.
    """
    if corpus == WIKIPEDIA:
        return _wikipedia()
    path = Path(corpus).expanduser()
    if not path.is_file():
        raise DataError(
            f"there is no corpus {corpus!r}",
            f"give a .txt file, a .jsonl file with a field text, or {WIKIPEDIA}",
        )
    return _json_lines(path) if path.suffix == ".jsonl" else _plain(path)


def _plain(path: Path) -> Iterator[str]:
    paragraph: list[str] = []
    try:
        with open(path, encoding="utf-8-sig") as file:
            each_line = all(line.strip() for line in file)
            file.seek(0)
            for line in file:
                if each_line:
                    yield line.rstrip("\n")
                elif line.strip():
                    paragraph.append(line.rstrip("\n"))
                elif paragraph:
                    yield "\n".join(paragraph)
                    paragraph = []
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason}") from None
    if paragraph:
        yield "\n".join(paragraph)


def _json_lines(path: Path) -> Iterator[str]:
    try:
        with jsonlines.open(path) as reader:
            for number, row in enumerate(reader, 1):
                text = row.get("text") if isinstance(row, dict) else None
                if not isinstance(text, str):
                    raise DataError(f"{path}:{number}: there is no field text")
                yield text
    except jsonlines.InvalidLineError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON") from None


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
        cause = " ".join(str(error).split())[:160]
        raise DataError(
            f"Wikipedia cannot be read: {cause}", "give a file: --corpus FILE"
        ) from None
