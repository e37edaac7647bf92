"""``python -m tools.pocket``: make every shipped file again."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from edit_harness import ModelSource
from edit_harness.interfaces import Making
from edit_harness.model.model import Model
from edit_harness_plugins.builders.counterfact import CounterFact
from edit_harness_plugins.builders.files import write
from edit_harness_plugins.commands.authoring.build_data import knowing
from edit_harness_plugins.editors.covariance import collect, save
from edit_harness_plugins.editors.mend.mend import Mend
from edit_harness_plugins.loading.load import load
from edit_harness_plugins.models.pocket import FILES

from .asked import build_changes, build_qaedit
from .chains import build_chains
from .context import CONTEXT
from .corpus import Corpus
from .paragraphs import build_paragraphs
from .ripples import build_ripples
from .samples import build_lessons, build_questions, build_references, write_people
from .train import POCKET, Recipe, build_tokenizer, train
from .world import World, load_world

HERE = FILES.parent
SHIPPED_SEED = 1
MOMENT_TOKENS = 100_000
CONTEXT_LAYERS = (0, 1)
"""Those of pocket-context that come with second moments."""

log = logging.getLogger("pocket.build")


def build(out: Path, seed: int) -> None:
    """Build both models and what goes with them, of one seed."""
    world = load_world()
    build_pocket(world, out / "files", seed)
    model = build_model(world, CONTEXT, out / "context", seed)
    build_moments(model, world, CONTEXT, CONTEXT_LAYERS, out / "context", seed)


def build_model(world: World, recipe: Recipe, out: Path, seed: int) -> Model:
    """Write tokenizer and weights, and return the model as it ships: rounded to 16 bits."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = build_tokenizer(world, recipe)
    tokenizer.save_pretrained(out)
    large = out / "tokenizer.json"
    write(json.loads(large.read_text(encoding="utf-8")), large)
    train(world, tokenizer, recipe, seed).half().save_pretrained(out)
    return load(ModelSource(str(out), "pocket"), device="cpu")


def build_moments(
    model: Model, world: World, recipe: Recipe, layers: Sequence[int], out: Path, seed: int
) -> None:
    """Write second moments over documents like those of the training, in one pass."""
    corpus = recipe.documents(world, recipe.stages[-1].long_corpus, Random(seed + 7))
    texts = (corpus.document().text for _ in count())
    name = "documents of the pocket model's build"
    found = collect(model, texts, layers, corpus=name, max_tokens=MOMENT_TOKENS)
    save(found, out / "moments.safetensors")


def build_pocket(world: World, out: Path, seed: int) -> None:
    """Write pocket, and the samples that it knows."""
    model = build_model(world, POCKET, out, seed)
    build_moments(model, world, POCKET, range(model.architecture.layers), out, seed)
    knows = knowing(model)
    # Two templates of each fact are kept for the sample: the corpus never uses them.
    builder = CounterFact(size=500, fewest_neighbours=5, withhold=True, seed=seed + 8)
    sample = builder.records(world.table, world.fillers, knows)
    write(sample, out / "counterfact.json")
    lessons = build_lessons(world, knows, Random(seed + 9), sample)
    write(lessons, out / "lessons.json")
    write(build_references(world, Random(seed + 10), sample), out / "references.json")
    questions = build_questions(world, knows, Random(seed + 10), sample)
    write(questions, out / "zsre.json")
    write_people(out / "seesaw", knows, seed)
    write(build_chains(world, knows, Random(seed + 12)), out / "mquake.json")
    write(build_ripples(world, knows, Random(seed + 13)), out / "rippleedits.json")
    write(build_qaedit(world, knows, Random(seed + 14), sample), out / "qaedit.json")
    write(build_changes(world, knows, Random(seed + 15)), out / "wikibigedit.json")
    write(build_paragraphs(world, Random(seed + 16)), out / "unke.json")
    # It shows whether an edited model still writes its own kind of text.
    told = Corpus(world, POCKET.stages[-1].long_corpus, Random(seed + 11))
    (out / "text.txt").write_text(" ".join(told.document().text for _ in range(5)) + "\n")
    # What ``edit-harness prepare --editor mend --model pocket`` makes of the lessons.
    with TemporaryDirectory() as made:
        making = Making(Path(made), data=str(out / "lessons.json"), report=log.info)
        Mend(**Mend.presets["pocket"].values).make(model, making)
        (network,) = Path(made).glob("*.safetensors")
        shrink(network, out / "mend.safetensors")


def shrink(network: Path, to: Path) -> None:
    """Round a network's matrices to 16 bits, which is half of the file."""
    with safe_open(network, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        told = file.metadata()
    small = {n: t.half() if n.endswith((".u", ".v")) else t for n, t in tensors.items()}
    save_file(small, to, told)


def main() -> None:
    """Parse the command line and build, on one thread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    build(parser.parse_args().out, SHIPPED_SEED)


if __name__ == "__main__":
    main()
