"""What may be said of where a model's parts go, and a run of a model that is spread."""

import gc
import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from support.builders import record
from support.complaints import refusal
from support.editors import stored_model, stored_records

from edit_harness import ModelSource, ResourceError, UsageError
from edit_harness.cli import main
from edit_harness.testing import tiny_model
from edit_harness_plugins.loading.load import load
from edit_harness_plugins.loading.placement import described


@pytest.fixture(autouse=True)
def with_accelerate():
    pytest.importorskip("accelerate")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return stored_model(tiny_model(n_layer=4), tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
def test_all_goes_to_the_cpu_if_it_has_the_memory(folder):
    model = load(ModelSource(str(folder)), device_map="balanced")
    assert described(model) == "cpu"
    room = f"cpu:{model.size // 500}KB"
    assert "disk (" in described(load(ModelSource(str(folder)), device_map="auto", max_memory=room))


def test_a_folder_for_weights_goes_with_the_model(tmp_path):
    """Weights that are computed with as they are not on the disk are written to the cache."""
    path, model = tmp_path / "pickled", tiny_model()
    stored_model(model, path)
    (path / "model.safetensors").unlink()
    torch.save(model.module.state_dict(), path / "pytorch_model.bin")
    room = f"cpu:{model.size * 4 // 2000}KB"
    how = {"device_map": "auto", "max_memory": room, "allow_pickle_weights": True}
    model = load(ModelSource(str(path)), **how)
    (own,) = Path(tmp_path / "cache" / "offloaded").iterdir()
    assert any(own.glob("*.safetensors"))
    del model
    gc.collect()
    assert not own.exists()


def test_a_folder_goes_if_nothing_was_loaded_or_none_can_be_made(folder, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(type(tiny_model().module), "from_pretrained", full)
    said = refusal(folder, ResourceError, device_map="auto")
    assert said.endswith("leave more room: --model-args max_memory=0:20GiB;1:20GiB;cpu:60GiB")
    assert not list((tmp_path / "cache" / "offloaded").iterdir())
    assert "use --device-map auto" in refusal(folder, ResourceError)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "file"))
    assert "cannot be written" in refusal(folder, ResourceError, device_map="auto")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device_map": "auto", "device": "cuda:1"}, "a device map and --device cuda:1 contradict"),
        ({"device_map": "autos"}, "there is no device map 'autos' | say auto, balanced, sequential"),
        ({"max_memory": "cpu:1GB"}, "max_memory is of a device map | add one: --device-map auto"),
        ({"device_map": "auto", "max_memory": "cpu=1GB"}, "max_memory 'cpu=1GB' is wrong"),
        ({"device_map": "auto", "max_memory": "attic:1GB"}, "attic is not recognized"),
    ],
)  # fmt: skip
def test_what_contradicts_itself(folder, options, said):
    assert said in refusal(folder, UsageError, **options)


POCKET = 1_789_776
"""Parameters of the bundled model, of four bytes each."""


def samples(output):
    """What was stored of each case, but for how long it took."""
    (run,) = output.iterdir()
    rows = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    found = {row["case"]: row for row in rows}
    varies = ("seconds", "crc")
    return run.name, {n: {k: v for k, v in r.items() if k not in varies} for n, r in found.items()}


def run(output, *arguments):
    result = CliRunner().invoke(main, ["-t", "counterfactplus", "-o", str(output), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_is_the_same_wherever_the_model_is(folder, tmp_path):
    """Memory and disk against one device, to the byte; and either is found again by the other."""
    facts = stored_records(tmp_path / "facts.json", [record(i) for i in range(2)])
    how = ("-m", str(folder), "-e", "ft", "--task-args", f"data={facts}", "--metrics", "success")
    room = tiny_model(n_layer=4).size * 4 // 1250
    spread = (*how, "--device-map", "auto", "--model-args", f"max_memory=cpu:{room}KB")
    assert "spread over cpu (" in run(tmp_path / "a", *spread)
    run(tmp_path / "b", *how)
    assert samples(tmp_path / "a") == samples(tmp_path / "b")
    assert "saved" in run(tmp_path / "b", *spread)


@pytest.mark.gpu
def test_more_than_an_accelerator_holds(tmp_path):
    """On a machine with one: a model half of which is on the CPU and on the disk, against one device."""
    if not torch.accelerator.is_available():
        pytest.skip("there is no accelerator")
    room = POCKET // 750
    spread = ("--device-map", "auto", "--model-args", f"max_memory=0:{room}KB;cpu:{room}KB")
    run(tmp_path / "a", "--limit", "20", *spread)
    run(tmp_path / "b", "--limit", "20", "--device", "cuda:0")
    (name, mine), (other, theirs) = (samples(tmp_path / output) for output in "ab")
    assert name == other
    for case, row in mine.items():
        for regime, values in row["values"].items():
            for key, value in values.items():
                assert value == pytest.approx(theirs[case]["values"][regime][key], abs=1e-3)
