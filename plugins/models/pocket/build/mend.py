"""``python -m edit_harness_plugins.models.pocket.build.mend``: train the editing network that ships.

It does what ``edit-harness prepare --editor mend --model pocket`` does, with the preset and the
lessons of the folder, and puts the result beside them.
"""

from __future__ import annotations

import argparse
import logging
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from edit_harness import ModelSource
from edit_harness.interfaces import Making
from edit_harness.loading.load import load
from edit_harness.registry.registry import Plugins
from edit_harness.registry.settings import configure, shape_of
from edit_harness.run.assembly import build_component

FILE = "mend.safetensors"
FILES = Path(__file__).resolve().parent.parent / "files"

log = logging.getLogger("pocket.build")


def write_network(folder: Path) -> None:
    """Train MEND's network for the model in a folder on the lessons there."""
    model = load(ModelSource(str(folder), "pocket"), device="cpu")
    component = Plugins.installed().find("editor", "mend")
    shape = shape_of(model.module.config, "pocket")
    editor = configure(build_component(component, {}, seed=0), shape, "mend").editor
    with TemporaryDirectory() as made:
        making = Making(Path(made), data=str(folder / "lessons.json"), report=log.info)
        editor.make(model, making)
        (network,) = Path(made).glob("*.safetensors")
        shutil.copyfile(network, folder / FILE)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FILES, help="of the model and its lessons")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(options.threads)
    write_network(options.folder)


if __name__ == "__main__":
    main()
