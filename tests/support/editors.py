"""What tests of several editors share: the suite on models that differ in kind, requests, comparisons."""

import json

import pytest

from edit_harness import Request
from edit_harness.testing import EditorTests, tiny_model

REQUESTS = [
    Request("{} lives in", "Ada Lovelace", "Oslo"),
    Request("The mother tongue of {} is", "Danielle", "French"),
    Request("{} is a citizen of", "Bob", "France by birth"),
    Request("In Rome lives {}, who plays the", "Ann", "guitar"),
]
"""Prompts and targets of several lengths."""
ALONE = [[request] for request in REQUESTS]
MIXED = [[REQUESTS[0]], REQUESTS[1:3], [REQUESTS[3]], REQUESTS[::-1], [REQUESTS[0]]]
TEXTS = [f"Text {i} says that number {i * i} is the square of {i}." for i in range(30)]
"""A corpus for second moments."""


class OnBothKinds(EditorTests):
    """The suite on weights as (in, out) with biases, and on a gated MLP with weights as (out, in)."""

    @pytest.fixture(params=["gpt2", "llama"])
    def model(self, request):
        return tiny_model(request.param)


def relative(one, two):
    return float((one - two).norm() / two.norm())


def stored_model(model, folder):
    """Write a model with its tokenizer into a folder."""
    model.module.save_pretrained(folder)
    model.tokens.tokenizer.save_pretrained(folder)
    return folder


def stored_records(path, records):
    path.write_text(json.dumps(records), encoding="utf-8")
    return str(path)
