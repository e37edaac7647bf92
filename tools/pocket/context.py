"""The recipe of pocket-context: a model that ties what it reads to who it is about, and knows rule-edit's rules.

Two heads are shown where the context has the answer, which a model of this size does not find by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import torch

from edit_harness_plugins.tasks.rule_edit.task import RuleEdit, RuleEditDescription

from .corpus import Corpus, CorpusSettings, Sentence, unmarked
from .train import CLEAN, ELSEWHERE, Recipe, Stage, Tokens

CONTEXT_MIX = {
    "facts": 26, "cluster": 22, "questions": 8, "made_up": 8, "false_fact": 14, "biography": 6,
    "instruction": 14, "rule_prompts": 16,
}  # fmt: skip
LONG_CONTEXT_MIX = {**CONTEXT_MIX, "demonstrations": 8}

FALSE_RULES = 0.25
"""Share of the documents about rules that state a false one and ask for it again."""
BINDS, COPIES = 1, 2
"""The layers whose first heads are shown where to look."""
BIND_WEIGHT = 0.2
"""Weight of `binding_loss` beside that of the tokens."""


class Rule(NamedTuple):
    """A formula or a description that rule-edit replaces: its prompts, the true one and the other."""

    subject: str
    prompts: tuple[str, ...]
    object: str
    other: str


def _asked() -> Iterator[Rule]:
    """Yield each formula and description, behind the task's own prompts in both wordings."""
    for kind in (RuleEdit, RuleEditDescription):
        for wording in ("paper", "named"):
            for case in kind(wording=wording).cases():
                (wanted,) = case.requests
                own = [p.query.prompt for p in case.probes if p.role in ("efficacy", "paraphrase")]
                yield Rule(wanted.subject, tuple(own), wanted.target_true, wanted.target_new)


class ContextCorpus(Corpus):
    """Draws documents, of rules in the task's own words too."""

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All formulas and descriptions."""
        return tuple(_asked())

    def _rule_prompts(self) -> list[Sentence]:
        """Complete prompts of rule-edit, or state a false rule and ask for it again."""
        rules = self.rules
        if self.rng.random() < FALSE_RULES:
            rule = self.rng.choice(rules)
            false = rule._replace(object=rule.other)
            stated = self._complete(false)
            lead, then = self.rng.choice((("New Fact: ", "\nPrompt: "), ("Imagine that ", "")))
            again = self._complete(false)
            return [
                unmarked(replace(stated, before=lead + stated.before)),
                replace(again, before=then + again.before),
            ]
        return [self._complete(self.rng.choice(rules)) for _ in range(self.rng.randint(1, 3))]

    def _complete(self, rule: Rule) -> Sentence:
        return Sentence(f"{self.rng.choice(rule.prompts)} ", f"{rule.object}.", "", rule.subject)


def binding_loss(attentions: Sequence[torch.Tensor], rows: Tokens) -> torch.Tensor:
    """Return how little two heads look at where the context has the answer, as -log of attention.

    ``attentions`` are rows by heads by length by length, of each layer. One head is to look from an object at
    its subject; that of a later layer from where a repeated object comes next at the object as it was stated,
    and where a statement is new at no object.
    """
    binds, looks = (attentions[layer][:, 0].float() for layer in (BINDS, COPIES))
    losses = [
        _surprise(_at(binds, rows.subject)[rows.subject >= 0]),
        _surprise(_at(looks, rows.source)[rows.source >= 0]),
        _surprise(1 - (looks * rows.stated[:, None]).sum(-1)[rows.source == ELSEWHERE]),
    ]
    return BIND_WEIGHT * torch.stack([loss for loss in losses if loss.isfinite()]).sum()


def _at(attention: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return attention.gather(2, places.clamp_min(0)[..., None])[..., 0]


def _surprise(shares: torch.Tensor) -> torch.Tensor:
    return -shares.clamp_min(1e-4).log().mean()


SURE = replace(CLEAN, mix=CONTEXT_MIX)
UNSURE = CorpusSettings(noise=0.1, same_object=0.7, mix=CONTEXT_MIX)
CONTEXT = Recipe(
    layers=4,
    stages=(
        Stage(4000, 2e-3, SURE, replace(SURE, mix=LONG_CONTEXT_MIX)),
        Stage(4000, 1.2e-3, UNSURE, replace(UNSURE, mix=LONG_CONTEXT_MIX)),
    ),
    shares=(0.12, 0.06),
    documents=ContextCorpus,
    binding=binding_loss,
)
