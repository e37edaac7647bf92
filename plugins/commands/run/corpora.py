"""Texts for statistics: a text file, JSON Lines, or Wikipedia through the extra ``datasets``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jsonlines

from edit_harness.errors import DataError

WIKIPEDIA = "wikipedia"
SNAPSHOT = ("wikimedia/wikipedia", "20231101.en")
SHUFFLE_SEED = 1
BUFFER = 10_000


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
