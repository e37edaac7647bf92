"""Previews: what rounding does is measured, and said wherever the numbers are."""

import json

import pytest
import torch
from support.builders import record

import edit_harness as eh
from edit_harness.testing import tiny_model
from edit_harness_plugins.loading.trial import preview

PROMPTS = ("Ada lives in", "Bob works at Fiat in", "The mother tongue of Danielle is", "Ann")


def cases():
    request = eh.Request("{} lives in", "Ada", "Paris")
    probes = [eh.Probe("any", eh.Choose(prompt, ("Paris", "Rome"))) for prompt in PROMPTS]
    return [eh.Case("0", (request,), tuple(probes))]


def test_full_precision_is_no_preview():
    assert preview(tiny_model(), cases()) is None
    assert preview(tiny_model(dtype=torch.float64), cases()) is None


@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 8), (torch.float16, 11)])
def test_the_floor_is_that_of_rounding(dtype, bits):
    """A divergence goes with the square of a change, and the change is some roundings of a logit."""
    found = preview(tiny_model("llama", dtype), cases())
    assert found.precision == str(dtype)[6:]
    assert 0 < found.floor < 2.0 ** (-2 * bits) * 400
    assert 0 < found.largest < 2.0**-bits * 60
    assert f"{found.floor:.1e} nats" in str(found)


def test_a_preview_says_so_wherever_its_numbers_are(tmp_path):
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps([record(i, subject=n) for i, n in enumerate(("Ada", "Bob"))]))

    def evaluate(dtype):
        return eh.evaluate(
            "ft",
            "counterfactplus",
            tiny_model(dtype=dtype),
            editor_args={"layer": 0, "lr": 1e-9, "bias": True, "steps": 1},
            task_args={"data": str(facts)},
            output=tmp_path / "results",
        )

    half, full = evaluate(torch.bfloat16), evaluate(torch.float32)
    manifest = half.folder.manifest()
    floor = manifest.preview.floor
    assert manifest.identity.model.dtype == "bfloat16"
    assert half.results()["precision"] == "bfloat16"
    assert "-bfloat16-" in half.folder.path.name
    assert half.folder.path != full.folder.path
    assert f"< {floor:.2g}" in half.table(), "an edit of nearly nothing drowns in rounding"
    assert "<" not in full.table()
    assert full.folder.manifest().preview is None
