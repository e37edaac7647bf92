"""``python -m edit_harness_plugins.models.pocket.build``: make every shipped file again."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import torch

from edit_harness import ModelSource
from edit_harness.interfaces import Making
from edit_harness_plugins.builders.counterfact import CounterFact
from edit_harness_plugins.builders.files import write
from edit_harness_plugins.editors._search.covariance import collect, save
from edit_harness_plugins.editors.mend.mend import Mend
from edit_harness_plugins.loading.load import load

from .chains import build_chains
from .corpus import Corpus
from .recall import knowing
from .ripples import build_ripples
from .samples import build_lessons, build_questions, build_references, write_people
from .train import STAGES, build_tokenizer, train
from .world import load_world

FILES = Path(__file__).resolve().parent.parent / "files"
SHIPPED_SEED = 1
MOMENT_TOKENS = 100_000

log = logging.getLogger("pocket.build")


def build(out: Path, seed: int) -> None:
    """World, corpus, tokenizer, weights, moments, samples and what goes with them, of one seed."""
    out.mkdir(parents=True, exist_ok=True)
    world = load_world()
    tokenizer = build_tokenizer(world)
    tokenizer.save_pretrained(out)
    large = out / "tokenizer.json"
    write(json.loads(large.read_text(encoding="utf-8")), large)
    log.info("tokenizer done, training on %d facts", len(world.table.facts))
    train(world, tokenizer, seed).half().save_pretrained(out)
    # What follows measures the model as it ships: rounded to 16 bits and loaded again.
    model = load(ModelSource(str(out), "pocket"), device="cpu")
    settings = STAGES[-1].long_corpus
    # All layers in one pass.
    corpus = Corpus(world, settings, Random(seed + 7))
    texts, layers = (corpus.document().text for _ in count()), range(model.architecture.layers)
    name = "documents of the pocket model's build"
    found = collect(model, texts, layers, corpus=name, max_tokens=MOMENT_TOKENS)
    save(found, out / "moments.safetensors")
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
    # It shows whether an edited model still writes its own kind of text.
    told = Corpus(world, settings, Random(seed + 11))
    (out / "text.txt").write_text(" ".join(told.document().text for _ in range(5)) + "\n")
    # What ``edit-harness prepare --editor mend --model pocket`` makes of the lessons.
    with TemporaryDirectory() as made:
        making = Making(Path(made), data=str(out / "lessons.json"), report=log.info)
        Mend(**Mend.presets["pocket"].values).make(model, making)
        (network,) = Path(made).glob("*.safetensors")
        shutil.copyfile(network, out / "mend.safetensors")
    counts = len(sample), len(questions), len(lessons)
    log.info("wrote %d records, %d questions, %d lessons and the model", *counts)


def main() -> None:
    """Parse the command line and build, on one thread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FILES, help="folder to write to")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    build(parser.parse_args().out, SHIPPED_SEED)


if __name__ == "__main__":
    main()
