"""Makes the bundled samples of CounterFact and Seesaw-CF about facts that the model knows.

They are the work of the builders of these names; here are the settings that the samples ship with.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from edit_harness_plugins.builders.counterfact import CounterFact, Record
from edit_harness_plugins.builders.seesaw import Seesaw
from edit_harness_plugins.commands.authoring import Material

from .recall import knowing
from .world import FACTS, TEMPLATES, WORLD_DIR, World


def build_sample(
    world: World, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, seed: int
) -> list[Record]:
    """Up to 500 records, of which two templates of each fact are kept: the corpus never uses them."""
    builder = CounterFact(size=500, fewest_neighbours=5, withhold=True, seed=seed)
    return builder.records(world.table, world.fillers, knowing(model, tokenizer))


def write_people(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, seed: int
) -> None:
    """Make the folder of Seesaw-CF about the world's people anew, tagged by gender and region."""
    shutil.rmtree(folder, ignore_errors=True)
    builder = Seesaw(
        cases=24,
        people=12,
        phrasings=1,
        tags=str(WORLD_DIR / "people.json"),
        places=str(WORLD_DIR / "places.json"),
        seed=seed,
    )
    known = knowing(model, tokenizer)
    builder.build(Material(WORLD_DIR / FACTS, WORLD_DIR / TEMPLATES, known), folder, print)
