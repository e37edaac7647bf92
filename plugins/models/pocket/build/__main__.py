"""``python -m edit_harness_plugins.models.pocket.build``: make every shipped file again."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from random import Random

import torch
from transformers import AutoModelForCausalLM

from edit_harness_plugins.builders.files import write

from .chains import build_chains
from .corpus import Corpus
from .prepared import write_moments, write_network
from .recall import knowing
from .ripples import build_ripples
from .samples import (
    build_lessons,
    build_questions,
    build_references,
    build_sample,
    write_people,
)
from .tokenizer import save_tokenizer
from .train import STAGES, build_tokenizer, train
from .world import load_world

FILES = Path(__file__).resolve().parent.parent / "files"
SHIPPED_SEED = 1

log = logging.getLogger("pocket.build")


def build(out: Path, seed: int) -> None:
    """World, corpus, tokenizer, weights, moments, samples and what goes with them, of one seed."""
    out.mkdir(parents=True, exist_ok=True)
    world = load_world()
    tokenizer = build_tokenizer(world)
    save_tokenizer(tokenizer, out)
    log.info("tokenizer done, training on %d facts", len(world.table.facts))
    train(world, tokenizer, seed).half().save_pretrained(out)
    # What follows measures the model as it ships: rounded to 16 bits and loaded again.
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    settings = STAGES[-1].long_corpus
    corpus = Corpus(world, settings, Random(seed + 7))
    write_moments(out, corpus)
    knows = knowing(model, tokenizer)
    sample = build_sample(world, knows, seed + 8)
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
    write_network(out)
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
