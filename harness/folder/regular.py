"""What may lie in a run folder: files and folders, and nothing that leads out of it.

A folder that somebody sent may hold a link to a file of ours, which a command would then write into,
or a pipe, which a command would wait at forever. Contents are checked where they are read.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import RunFolderError


def check_regular(folder: Path) -> None:
    """Raise `RunFolderError` for a link, a pipe or a device in a folder, or one level below it.

    The folder itself may be reached by a link: whoever names it knows where it leads.
    """
    for entry in _entries(folder):
        inner = _entries(Path(entry.path)) if entry.is_dir(follow_symlinks=False) else []
        for each in (entry, *inner):
            if not (each.is_file(follow_symlinks=False) or each.is_dir(follow_symlinks=False)):
                raise RunFolderError(
                    f"{each.path} is a link or no file at all, which no run folder has",
                    "if the folder is yours, put the file itself there",
                )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)
