"""EasyEdit's layout of CounterFact, as in counterfact-edit.json: one text for each list, the subject in its prompt."""

from __future__ import annotations

from edit_harness_plugins import inputs

from .._files.records import Form, Id, Record, cut_out, unplaced

NEAR = "neighborhood_true"
"""The field of a record with the true object of its neighbours; without it, theirs is that of the edit."""


class Layout(inputs.Layout):
    """What a record must have."""

    case_id: Id
    prompt: str
    subject: str
    target_new: str
    ground_truth: str
    rephrase_prompt: str
    locality_prompt: str
    locality_ground_truth: str


def _native(record: Record) -> Record:
    """Return a record as CounterFact has it."""
    objects = {"target_new": record["target_new"], "target_true": record["ground_truth"]}
    rewrite = {"prompt": cut_out(record["prompt"], record["subject"]), "subject": record["subject"]}
    return {
        "case_id": record["case_id"],
        "requested_rewrite": rewrite | {name: {"str": text} for name, text in objects.items()},
        "paraphrase_prompts": [record["rephrase_prompt"]],
        "neighborhood_prompts": [record["locality_prompt"]],
        NEAR: record["locality_ground_truth"],
    }


EASYEDIT = Form(Layout, lambda it: unplaced("prompt", it["prompt"], it["subject"]), _native)
