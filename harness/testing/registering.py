"""Imports a plugin and lets it register, in a process of its own, and writes down what that did.

``python -m edit_harness.testing.registering MODULE FILE``: what the process prints is the plugin's.
The checks of it stand in `edit_harness.testing.packages`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from time import process_time

from ..registry import process
from ..registry.plugins import Plugins

HEAVY = ("torch", "transformers", "numpy", "scipy", "safetensors", "tokenizers")
"""What a plugin must not import before one of its components is used."""


def main(module: str, file: str) -> None:
    """Register the plugin of a module, and write what changed and what it took to a file."""
    before, start = process.read(), process_time()
    Plugins.commands_alone().add(importlib.import_module(module), "under-test")
    found = {
        "seconds": process_time() - start,
        "changed": process.changes(before, process.read()),
        "heavy": [name for name in HEAVY if name in sys.modules],
    }
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
