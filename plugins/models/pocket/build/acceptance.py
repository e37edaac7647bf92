"""Measures a built pocket model against what it must be able to do before it ships.

``python -m edit_harness_plugins.models.pocket.build.acceptance [FOLDER]`` prints each figure beside
its bound. Editing is measured by the harness itself, so these are the numbers that a user sees.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, cast

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from edit_harness import ModelSource, evaluate
from edit_harness.model.model import Model
from edit_harness_plugins.builders.triples import Fact, FactTable
from edit_harness_plugins.loading.load import load

from .corpus import lower_first
from .recall import score_objects
from .world import World, load_world

FILES = Path(__file__).resolve().parent.parent / "files"
EDITORS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{name: (name, {}) for name in ("none", "rome", "ft-l", "prompt")},
    "prompt imagine": ("prompt", {"wording": "imagine"}),
}
SHOWN = ("ES", "PS", "NS", "NM", "NKL", "NS+", "NM+", "NKL+")

Figures = dict[str, float]


BOUNDS = {
    "recall training": 0.98,
    "recall held out": 0.75,
    "flip after layer 0": 0.5,
    "override": 0.5,
    "none NS": 0.95,
    "none NS+": 0.6,
    "rome ES": 0.98,
    "rome PS": 0.9,
    "rome NS": 0.75,
    "rome extra drop NS to NS+": 0.15,
    "prompt NS": 0.5,
}
"""The least that figures must reach."""


@dataclass(frozen=True)
class Subject:
    """What is measured: a model with its tokenizer, and the world it should know."""

    world: World
    model: LlamaForCausalLM
    tokenizer: PreTrainedTokenizerFast
    rng: Random


def knowledge(subject: Subject, count: int = 600) -> Figures:
    """Measure recall in several kinds of prompt, and whether a stated false fact overrides."""
    table, rules, rng = subject.world.table, subject.world.rules, subject.rng
    facts = rng.sample(table.facts, min(count, len(table.facts)))

    def recall(prompt: Callable[[Fact], str], of: Sequence[Fact] = facts) -> tuple[float, float]:
        items = [(prompt(fact), fact.object) for fact in of]
        scores = score_objects(subject.model, subject.tokenizer, items)
        return fmean(s.correct for s in scores), fmean(s.probability for s in scores)

    def written(kind: str) -> Callable[[Fact], str]:
        return lambda fact: prompt_of(kind, table, fact, rng)

    def filled(kind: str) -> Callable[[Fact], str]:
        return lambda f: f"{subject.world.fillers.sentence(rng)} {prompt_of(kind, table, f, rng)}"

    trained, probability = recall(written("seen"))
    false = [Fact(f.subject, f.relation, table.other_object(f, rng)) for f in facts]
    return {
        "recall training": trained,
        "probability training": probability,
        "recall held-out combination": recall(written("unseen"))[0],
        "recall held out": recall(written("held out"))[0],
        "recall filler + training": recall(filled("seen"))[0],
        "recall filler + held out": recall(filled("held out"))[0],
        "recall question": recall(written("question"))[0],
        "recall rules": recall(lambda f: prompt_of("held out", rules, f, rng), rules.facts)[0],
        "override": recall(lambda f: override_prompt(table, f, rng), false)[0],
    }


def prompt_of(kind: str, table: FactTable, fact: Fact, rng: Random) -> str:
    """Write a prompt of a kind on a fact.

    It is in words that training showed for this fact ("seen"), in a training template that this fact was
    never shown in ("unseen"), in one that no fact was shown in ("held out"), or a "question".
    """
    relation = table.relations[fact.relation]
    if kind == "question":
        question = relation.fill(rng.choice(relation.questions), fact.subject)
        return f"Question: {question} Answer:"
    if kind == "unseen":
        index = rng.choice(sorted(relation.unseen_templates(fact.subject)))
        return relation.fill(relation.training[index], fact.subject)
    seen = kind == "seen"
    template = rng.choice(relation.seen_templates(fact.subject) if seen else relation.held_out)
    return relation.fill(template, fact.subject)


def override_prompt(table: FactTable, false: Fact, rng: Random) -> str:
    """State a false fact and ask for it again in a held-out template."""
    stated = lower_first(prompt_of("seen", table, false, rng), false.subject)
    return f"Imagine that {stated} {false.object}. {prompt_of('held out', table, false, rng)}"


@torch.no_grad()
def flip_share(subject: Subject, layer: int = 0, count: int = 200) -> float:
    """Measure how often another subject's residual carries its answer over.

    The residual stream after a layer is replaced at the subject's last token by that of another
    subject of the relation; the answer flips if the other's object then beats the subject's own.
    """
    table, rng = subject.world.table, subject.rng
    facts = [f for f in table.facts if f.relation in subject.world.editable_relations]
    flips = []
    for _ in range(count):
        fact = rng.choice(facts)
        rivals = [f for f in table.by_relation[fact.relation] if f.object != fact.object]
        other = rng.choice(rivals)
        relation = table.relations[fact.relation]
        template = rng.choice(relation.seen_templates(fact.subject))
        flips.append(_flips(subject, template, fact, other, layer))
    return fmean(flips)


def _flips(subject: Subject, template: str, fact: Fact, other: Fact, layer: int) -> bool:
    encode = subject.tokenizer.encode
    ids, place = _located(subject.tokenizer, template, fact.subject)
    other_ids, other_place = _located(subject.tokenizer, template, other.subject)
    states = subject.model(other_ids, output_hidden_states=True).hidden_states
    foreign = states[layer + 1][0, other_place]

    def patch(_module: torch.nn.Module, _inputs: Any, output: Any) -> Any:
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        hidden[0, place] = foreign
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    hook = subject.model.model.layers[layer].register_forward_hook(patch)
    try:
        logits = subject.model(ids).logits[0, -1]
    finally:
        hook.remove()
    own, new = encode(f" {fact.object}")[0], encode(f" {other.object}")[0]
    return bool(logits[new] > logits[own])


def _located(
    tokenizer: PreTrainedTokenizerFast, template: str, subject: str
) -> tuple[torch.Tensor, int]:
    """Return the prompt's ids and the place of the subject's last token."""
    text = template.replace("{}", subject, 1)
    end = template.index("{}") + len(subject)
    encoded = tokenizer(text, return_offsets_mapping=True)
    place = next(i for i, (_, last) in enumerate(encoded["offset_mapping"]) if last >= end)
    return torch.tensor([encoded["input_ids"]]), place


def editing(model: Model, cases: int) -> Figures:
    """Run the harness on the model's own CounterFact+ sample with each editor."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (editor, args) in EDITORS.items():
            run = evaluate(
                editor, "counterfactplus", model, editor_args=args, limit=cases, output=folder
            )
            figures |= {f"{name} {measure}": run[measure].value for measure in SHOWN}
    unedited = figures["none NS"] - figures["none NS+"]
    for name in EDITORS:
        drop = figures[f"{name} NS"] - figures[f"{name} NS+"]
        figures[f"{name} extra drop NS to NS+"] = drop - unedited
    return figures


def measure(folder: Path, cases: int, seed: int = 7) -> Figures:
    """Measure everything about the model in a folder."""
    data = {"counterfact": str(folder / "counterfact.json")}
    model = load(
        ModelSource(str(folder), family="pocket", data=data, moments=str(folder)), device="cpu"
    )
    subject = Subject(
        load_world(),
        cast(LlamaForCausalLM, model.module),
        model.tokens.tokenizer,
        Random(seed),
    )
    figures = knowledge(subject)
    for layer in range(2):
        figures[f"flip after layer {layer}"] = flip_share(subject, layer)
    return figures | editing(model, cases)


def show(figures: Figures) -> str:
    """Write the figures as lines, with their bounds."""
    lines = []
    for name, value in figures.items():
        least = BOUNDS.get(name)
        bound = f"  (at least {least:.2f}: {'ok' if value >= least else 'MISS'})" if least else ""
        lines.append(f"{name:<32}{value:8.3f}{bound}")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure and report; exit 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FILES)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    figures = measure(options.folder, options.cases)
    print(show(figures))
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(0 if all(figures[name] >= least for name, least in BOUNDS.items()) else 1)


if __name__ == "__main__":
    main()
