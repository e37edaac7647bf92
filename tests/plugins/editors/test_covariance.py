"""Second moments: their numbers against a naive loop, and what their files refuse."""

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support.builders import DATA, recording

from edit_harness import DataError, ModelSource
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.covariance import (
    ROWS,
    Covariance,
    Provenance,
    cache_name,
    collect,
    find,
    folder,
    import_npz,
    layers_of,
    load,
    save,
)
from edit_harness_plugins.loading.load import load as load_model

TEXTS = [
    "Ada lives in Paris" + ", and then in Rome" * (i % 5) + f", says book {i}." for i in range(20)
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))


def naive(model, texts, layer, *, max_length=10**6, max_tokens=10**6):
    """Add up k kᵀ token by token, one text at a time."""
    module, keys = model.architecture.projection(layer).module, []
    with torch.no_grad():
        for text in texts:
            ids = model.tokens.tokenizer(text)["input_ids"][:max_length]
            with recording(module, 1) as seen:
                model.module(input_ids=torch.tensor([ids]))
            keys.extend(seen.inputs[0].double().numpy())
    keys = keys[:max_tokens]
    return sum(np.outer(key, key) for key in keys) / len(keys), len(keys)


def assert_is_naive(model, moment, texts, layer, **limits):
    expected, count = naive(model, texts, layer, **limits)
    assert moment.provenance.tokens == count
    difference = np.linalg.norm(moment.matrix.double().numpy() - expected)
    assert difference <= 1e-6 * np.linalg.norm(expected)
    return count


def gather(model, texts=TEXTS, layers=(0,), **options):
    return collect(model, texts, layers, **{"corpus": "texts", "max_tokens": 10**6} | options)


@pytest.mark.parametrize(
    ("family", "padding"), [("gpt2", "left"), ("llama", "right"), ("opt", "left"), ("opt", "right")]
)
def test_it_is_the_mean_of_outer_products_without_padding(family, padding):
    """The texts differ in length and fill more than one batch; OPT flattens its batches."""
    model = tiny_model(family, padding=padding)
    assert len(TEXTS) > ROWS
    both = gather(model, layers=[0, 1])
    for layer, moment in both.items():
        assert_is_naive(model, moment, TEXTS, layer)
        assert moment.matrix.dtype == torch.float32


@pytest.mark.parametrize("tokens", [1, 7, 150])
def test_tokens_are_cut_exactly(model, tokens):
    moment = gather(model, max_tokens=tokens)[0]
    assert assert_is_naive(model, moment, TEXTS, 0, max_tokens=tokens) == tokens


def test_texts_are_cut_to_the_length_and_it_says_of_which_model_and_texts_it_is(model):
    """To what is asked for, and to the model's positions."""
    moment = gather(model, max_length=4)[0]
    assert assert_is_naive(model, moment, TEXTS, 0, max_length=4) == 4 * len(TEXTS)
    assert moment.provenance.max_length == 4
    assert gather(tiny_model(n_positions=16), ["Ada " * 100])[0].provenance.tokens == 16
    told = []
    made = gather(model, advance=lambda done, total: told.append((done, total)))[0].provenance
    assert len(told) == math.ceil(len(TEXTS) / ROWS)
    assert told[-1] == (made.tokens, 10**6)
    assert made.model == model.digest
    everything = b"".join(text.encode() + b"\0" for text in TEXTS)
    assert made.corpus_digest == hashlib.sha256(everything).hexdigest()
    with pytest.raises(DataError, match="the corpus texts has no texts"):
        gather(model, ["", ""])


@pytest.mark.parametrize("name", ["gpt2-tiny", "llama-tiny"])
def test_the_golden_corpus(name):
    corpus = DATA / "golden" / "corpus.json"
    if not corpus.exists():
        pytest.skip(f"{corpus} is not here")
    source = DATA / "golden" / "models" / name
    model = load_model(ModelSource(str(source)), device="cpu")
    expected = load_file(source / "cov.safetensors")
    texts = json.loads(corpus.read_text(encoding="utf-8"))["texts"]
    moments = gather(model, texts, range(4), max_length=128)
    for layer in range(4):
        theirs = expected[f"C.{layer}"]
        assert moments[layer].provenance.tokens == int(expected["count"])
        assert float((moments[layer].matrix - theirs).norm() / theirs.norm()) < 1e-5


# The solver.


def moment_of(matrix, tokens=100):
    return Covariance(torch.as_tensor(matrix), Provenance("", "", "", tokens, 0), "")


def test_the_solver_is_that_of_numpy_and_wants_what_is_positive_definite():
    rng = np.random.default_rng(0)
    keys, key = rng.normal(size=(200, 16)), rng.normal(size=16).astype(np.float32)
    matrix = (keys.T @ keys / 200).astype(np.float32)
    solved = moment_of(matrix).solver()(torch.from_numpy(key))
    expected = np.linalg.solve(matrix.astype(float), key.astype(float))
    np.testing.assert_allclose(solved.numpy(), expected, rtol=1e-10)
    with pytest.raises(DataError, match="of 100 tokens is not positive definite") as caught:
        moment_of(np.diag([1.0, -1.0, 1.0])).solver()
    assert "more than 30 tokens" in caught.value.remedy


# Files.


@pytest.fixture
def stored(model, tmp_path):
    path = tmp_path / "stored.safetensors"
    save(gather(model, layers=(0, 1)), path)
    return path


def test_what_was_saved_is_loaded(model, stored):
    original = gather(model, layers=(0, 1))
    assert layers_of(stored) == {0, 1}
    for layer in (0, 1):
        moment = load(stored, model, layer)
        assert torch.equal(moment.matrix, original[layer].matrix)
        assert moment.provenance == original[layer].provenance
        assert moment.digest == hashlib.sha256(stored.read_bytes()).hexdigest()
        assert find(model, layer, str(stored)).digest == moment.digest
    # Also a file of whole matrices, as versions before 0.2.0 saved them.
    with safe_open(stored, "pt") as file:
        told = file.metadata()
    whole = gather(model, layers=(0,))[0].matrix
    save_file({"layer.0": whole}, stored, told)
    assert torch.equal(load(stored, model, 0).matrix, whole)


def test_a_file_of_something_else_or_of_other_weights_is_refused(model, tmp_path, stored):
    path = tmp_path / "other.safetensors"
    save({0: Covariance(torch.eye(3), Provenance(model.digest, "", "", 9, 9), "")}, path)
    with pytest.raises(DataError, match=r"holds \(6,\) numbers"):
        load(path, model, 0)
    with pytest.raises(DataError, match="has no second moment of layer 1"):
        load(path, model, 1)
    for metadata in (None, {"provenance": "not JSON"}):
        save_file({"layer.0": torch.eye(128)}, path, metadata)
        with pytest.raises(DataError, match="does not say what it was made of"):
            load(path, model, 0)
    path.write_text("hello")
    with pytest.raises(DataError, match="has no second moment"):
        find(model, 0, str(path))
    with pytest.raises(DataError, match="there is no file"):
        find(model, 0, str(tmp_path / "missing.safetensors"))
    other = tiny_model()
    with torch.no_grad():
        other.module.get_parameter("transformer.ln_f.bias").add_(1e-3)
    with pytest.raises(DataError, match="was made for other weights"):
        load(stored, other, 0)
    # Nor are fewer tokens saved than a key has numbers.
    few = collect(model, ["Ada lives in Paris."], [0], corpus="few", max_tokens=100)
    with pytest.raises(DataError, match="fewer than the 128 numbers of a key"):
        save(few, tmp_path / "few.safetensors")


def test_the_cache_is_searched_for_the_layer_unless_the_model_brings_its_own(model, stored):
    assert find(model, 0) is None
    moments = gather(model, layers=(0,), corpus="wiki/20 texts.jsonl")
    name, made = cache_name(moments), moments[0].provenance
    assert name == f"20-texts-{made.corpus_digest[:12]}-{made.tokens}-float32-l0.safetensors"
    save(moments, folder(model) / name)
    assert find(model, 0).provenance == made
    assert find(model, 1) is None
    save(moments, folder(model) / "other.safetensors")
    with pytest.raises(DataError, match="there are 2 second moments of layer 0") as caught:
        find(model, 0)
    files = sorted(folder(model).iterdir())
    assert all(str(file) in caught.value.remedy for file in files)
    assert find(model, 0, str(files[1])).digest
    model.source = replace(model.source, moments=str(stored.parent))
    assert find(model, 0).digest == hashlib.sha256(stored.read_bytes()).hexdigest()


# What ROME's authors offer.


def test_the_layout_of_the_authors_is_imported(model, tmp_path):
    rng = np.random.default_rng(0)
    total = np.cov(rng.normal(size=(128, 300))).astype(np.float32) * 300
    path = tmp_path / "mom2.npz"
    np.savez(path, **{"mom2.mom2": total, "mom2.count": np.array(300), "sample_size": 5})
    moment = import_npz(path, model, 0)
    np.testing.assert_allclose(moment.matrix.numpy(), total / 300, rtol=1e-6)
    assert moment.provenance.tokens == 300
    assert moment.provenance.model == model.digest
    save({0: moment}, tmp_path / "imported.safetensors")
    assert torch.equal(load(tmp_path / "imported.safetensors", model, 0).matrix, moment.matrix)


class Payload:
    """Something that runs code when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def archive(**arrays):
    return lambda path: np.savez(path, **{k.replace("_", "."): v for k, v in arrays.items()})


@pytest.mark.parametrize(
    ("write", "cause"),
    [
        (archive(mom2_mom2=np.array([Payload()], dtype=object), mom2_count=1), "of ROME's layout"),
        (lambda path: path.write_bytes(b"PK\x03\x04 cut off"), "of ROME's layout"),
        (lambda path: np.save(path.open("wb"), np.eye(128)), "of ROME's layout"),
        (archive(mom2=np.eye(128)), "of ROME's layout"),
        (archive(mom2_mom2=np.eye(3), mom2_count=5), "not 128 wide"),
        (archive(mom2_mom2=np.eye(128), mom2_count=0), "not 128 wide"),
    ],
    ids=["pickled", "cut off", "one array", "other names", "narrow", "of no tokens"],
)
def test_other_files_are_refused(write, cause, model, tmp_path):
    write(tmp_path / "other.npz")
    with pytest.raises(DataError, match=cause):
        import_npz(tmp_path / "other.npz", model, 0)
