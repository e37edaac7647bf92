import importlib
import json
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from support.builders import distribution

from edit_harness import Choose, DataError, Drift, Generate, PluginError
from edit_harness.edits import UNEDITED, Dense, Edit, LowRank
from edit_harness.testing import tiny_model
from edit_harness.testing.fixtures import assert_close, same_weights

NAME = "transformer.h.1.mlp.c_proj.weight"
BIAS = "transformer.h.1.mlp.c_proj.bias"


def low_rank(rank=1, *, seed=0, inputs=128, outputs=32, dtype=torch.float32):
    noise = torch.Generator().manual_seed(seed)
    left = torch.randn(inputs, rank, generator=noise).to(dtype)
    return LowRank(left, torch.randn(rank, outputs, generator=noise).to(dtype))


def dense(*shape, seed=0, dtype=torch.float32):
    return Dense(torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype))


def adaptor(inputs, outputs, rows):
    return outputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("out_in", [False, True])
def test_what_a_dense_change_adds_is_the_input_times_its_matrix(out_in, dtype):
    """In the higher of both precisions; what changes a bias is added as it is."""
    delta = dense(128, 32, dtype=dtype)
    matrix = delta.dense()
    inputs = torch.randn(2, 5, 32 if out_in else 128)
    added = delta.through(inputs, out_in=out_in)
    expected = inputs @ (matrix.T if out_in else matrix).float()
    near = 1e-4 if dtype == torch.float32 else 0.3
    torch.testing.assert_close(added, expected, rtol=near, atol=near)
    assert delta.shape == matrix.shape == (128, 32)
    bias = dense(32)
    assert bias.through(inputs, out_in=out_in) is bias.tensor
    assert bias.shape == (32,)


def test_the_sum_of_low_ranks_stays_low_until_a_matrix_is_smaller():
    two = low_rank(8) + low_rank(8, seed=1)
    assert isinstance(two, LowRank)
    assert two.left.shape == (128, 16)
    three = two + low_rank(1, seed=2)
    assert isinstance(three, Dense)
    parts = [low_rank(8), low_rank(8, seed=1), low_rank(1, seed=2)]
    torch.testing.assert_close(two.dense(), sum(part.dense() for part in parts[:2]))
    torch.testing.assert_close(three.dense(), sum(part.dense() for part in parts))


def test_the_sum_of_edits_has_what_both_have():
    def patch(module):
        raise NotImplementedError

    first = Edit({NAME: low_rank(), BIAS: dense(32)}, {"y": adaptor}, "Ann. ", info={"loss": 1.0, "a": 1.0})  # fmt: skip
    second = Edit({NAME: dense(128, 32)}, {"x": adaptor}, "Bob. ", patch, {"loss": 2.0})
    total = first + second
    torch.testing.assert_close(
        total.weights[NAME].dense(), first.weights[NAME].dense() + second.weights[NAME].dense()
    )
    assert total.weights[BIAS] is first.weights[BIAS]
    assert total.adaptors == {"x": adaptor, "y": adaptor}
    assert total.prefix == "Ann. Bob. "
    assert total.patch is patch
    assert total.info == {"loss": 2.0, "a": 1.0}
    for same in (first + UNEDITED, UNEDITED + first):
        assert (same.weights, same.prefix) == (first.weights, first.prefix)


@pytest.mark.parametrize(
    "part", [{"patch": lambda module: None}, {"adaptors": {"x": adaptor}}, {"prefix": str}]
)
def test_edits_that_exclude_each_other(part):
    with pytest.raises(PluginError, match="share a patch, an adaptor or a prefix") as e:
        Edit(**part) + Edit(**part)
    assert "extend" in e.value.remedy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_edit_comes_back_from_its_file(tmp_path, dtype):
    edit = Edit(
        {NAME: low_rank(2, dtype=dtype), BIAS: dense(32, dtype=dtype)},
        prefix="Zoë ≠ {} \n",
        info={"loss": 0.5, "losses": [2.0, 1.0, 0.5]},
        state={"m.labels": torch.tensor([[3, -1], [4, 5]]), "none": torch.empty(0, 3)},
    )
    edit.save(tmp_path / "edit.safetensors")
    back = Edit.load(tmp_path / "edit.safetensors")
    assert set(back.weights) == {NAME, BIAS}
    for name, delta in edit.weights.items():
        assert type(back.weights[name]) is type(delta)
        for part, tensor in vars(delta).items():
            assert torch.equal(getattr(back.weights[name], part), tensor)
            assert getattr(back.weights[name], part).dtype == dtype
    assert (back.prefix, back.info) == (edit.prefix, edit.info)
    for name, tensor in edit.state.items():
        torch.testing.assert_close(back.state[name], tensor, rtol=0, atol=0)


def test_changes_that_share_their_memory_come_back(tmp_path):
    """As where one matrix of keys serves several layers, or a view is turned."""
    shared, whole = torch.randn(2, 32), torch.randn(4, 32)
    weights = {
        "a": LowRank(torch.randn(8, 2), shared),
        "b": LowRank(shared.T, shared),
        "c": Dense(whole),
        "d": Dense(whole[:2]),
        "e": Dense(whole.T),
    }
    Edit(weights).save(tmp_path / "edit")
    back = Edit.load(str(tmp_path / "edit"))
    assert all(torch.equal(back.weights[n].dense(), d.dense()) for n, d in weights.items())


@pytest.mark.parametrize(
    ("made", "asked", "fits"),
    [("a", "a", True), ("a", "b", False), ("a", "", True), ("", "b", True)],
)
def test_an_edit_is_of_the_weights_that_it_was_made_for(tmp_path, made, asked, fits):
    Edit(prefix="Ann. ").save(tmp_path / "edit", made)
    if fits:
        back = Edit.load(tmp_path / "edit", asked)
        assert (back.prefix, back.touches_nothing) == ("Ann. ", True)
        return
    with pytest.raises(DataError, match="made for other weights"):
        Edit.load(tmp_path / "edit", asked)


PLUGIN = """
from dataclasses import dataclass
import torch
from edit_harness import hookimpl

@dataclass(frozen=True, eq=False)
class Shift:
    by: torch.Tensor
    words: list
    scale: float = 1.0

    def __call__(self, inputs, outputs, rows):
        return outputs + self.scale * self.by

@dataclass(frozen=True)
class Echo:
    times: int

    def __call__(self, prompt):
        return f"{prompt}? " * self.times

class Bare:
    def __call__(self, inputs, outputs, rows):
        return outputs

@hookimpl
def edit_harness_register_adaptors(register):
    register("shift", Shift, "Adds a vector")
    register("echo", Echo, "Says a prompt before it")
    register("bare", Bare, "Is no dataclass")
    register("lost", "edit_harness_nowhere:Lost", "Cannot be imported")
"""


@pytest.fixture
def shifts(tmp_path, monkeypatch):
    """Install a package with adaptors; return its module."""
    (tmp_path / "site").mkdir()
    name = distribution(tmp_path / "site", "edit-harness-shift", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield importlib.import_module(name)
    sys.modules.pop(name)


def test_what_gives_a_prefix_comes_back(tmp_path, shifts):
    """Beside an adaptor, and in a sum; it says something else before each prompt, whoever shares the pass."""
    echo = Edit(prefix=shifts.Echo(2))
    edit = UNEDITED + echo + Edit(adaptors={"head": shifts.Shift(torch.ones(2), [])})
    edit.save(tmp_path / "edit")
    back = Edit.load(tmp_path / "edit")
    assert (back.prefix, back.adaptors.keys()) == (shifts.Echo(2), {"head"})
    assert (echo.changes_nothing, echo.touches_nothing) == (False, True)
    model = tiny_model()
    told = [Choose("Ann sees", ("Oslo", "Rome")), Choose("Bob is in", ("Oslo", "Rome"))]
    asked = [*told, Drift("Ann sees"), Generate("Bob is in", 4)]
    plain = [replace(q, prompt=f"{q.prompt}? {q.prompt}? {q.prompt}") for q in (*told, asked[3])]
    both = model.answer([*((echo, q) for q in asked), *((UNEDITED, q) for q in plain)])
    assert_close(both[0], both[4], 1e-5, 1e-5)
    assert_close(both[1], both[5], 1e-5, 1e-5)
    assert (both[2].forward > 0, both[3]) == (True, both[6])
    with pytest.raises(PluginError, match="failed at a prompt"):
        model.answer([(Edit(prefix=shifts.Echo("2")), told[0])])


def test_adaptors_come_back_by_their_names(tmp_path, shifts):
    by = torch.randn(2, 3).T
    one, two = shifts.Shift(by, ["Ann", {"a": None}], 0.5), shifts.Shift(by, [])
    edit = Edit({NAME: low_rank()}, {"block.0.mlp": one, "head": two}, "Ann. ", info={"loss": 1.0})
    edit.save(tmp_path / "edit")
    back = Edit.load(tmp_path / "edit")
    assert back.adaptors.keys() == edit.adaptors.keys()
    for name, adaptor in edit.adaptors.items():
        other = back.adaptors[name]
        assert type(other) is shifts.Shift
        assert torch.equal(other.by, by)
        assert (other.words, other.scale) == (adaptor.words, adaptor.scale)
    assert same_weights(edit, back)
    assert b"edit_harness_shift" not in (tmp_path / "edit").read_bytes()


@pytest.mark.parametrize(
    ("make", "why", "remedy"),
    [
        (lambda m: {"patch": adaptor}, "made of code", "adaptor"),
        (lambda m: adaptor, "class function cannot be saved", "register"),
        (lambda m: m.Bare(), "cannot be saved", "make Bare a dataclass"),
        (lambda m: m.Shift(torch.ones(2), [{1, 2}]), "set is not JSON", "tensors or JSON"),
        (lambda m: m.Shift(torch.ones(2), [], float("nan")), "cannot be saved", "tensors or JSON"),
        (lambda m: type("Sub", (m.Shift,), {})(torch.ones(2), []), "class Sub", "register"),
    ],
)
def test_what_cannot_be_saved(tmp_path, shifts, make, why, remedy):
    made = make(shifts)
    parts = made if isinstance(made, dict) else {"adaptors": {"m": made}}
    with pytest.raises(PluginError, match=why) as e:
        Edit({NAME: low_rank()}, **parts).save(tmp_path / "edit")
    assert remedy in e.value.remedy
    assert not (tmp_path / "edit").exists()


WHOLE = {"adaptors/m/keys": (2, 3), "adaptors/m/values": (2, 4), "adaptors/m/radii": (2,)}

HEADER = {"format": "edit-harness edit 2", "prefix": "", "info": "{}", "adaptors": "{}"}


CODEBOOK = "edit-harness/codebook"


@pytest.mark.parametrize(
    ("shapes", "header"),
    [
        ({**WHOLE, "adaptors/m/values": (3, 4)}, {"adaptors": {"m": [CODEBOOK, {}]}}),
        (WHOLE, {"adaptors": {"m": [CODEBOOK, {"other": 1}]}}),
        (WHOLE, {"adaptors": {"m": [CODEBOOK]}}),
        (WHOLE, {"adaptors": {"m": [None, {}]}}),
        (WHOLE, {"adaptors": ["m"]}),
        ({f"weights/{NAME}/tensor": (8,), f"weights/{NAME}/left": (8, 8)}, {}),
        ({f"weights/{NAME}/left": (2, 1)}, {}),
        ({}, {"format": "edit-harness edit 99"}),
        *(({}, {name: None}) for name in ("prefix", "info", "adaptors")),
    ],
)
def test_contents_that_do_not_fit(tmp_path, shapes, header):
    tensors = {name: torch.ones(shape) for name, shape in shapes.items()}
    changed = {k: v if isinstance(v, str) else json.dumps(v) for k, v in header.items() if v}
    kept = {k: v for k, v in HEADER.items() if k not in header}
    save_file(tensors, tmp_path / "edit.safetensors", kept | changed)
    with pytest.raises(DataError, match=r"edit\.safetensors"):
        Edit.load(tmp_path / "edit.safetensors")


@pytest.mark.parametrize("kind", ["truncated", "text", "missing"])
def test_a_file_that_holds_no_edit(tmp_path, kind):
    path = tmp_path / "edit.safetensors"
    Edit({NAME: low_rank()}).save(path)
    data = path.read_bytes()
    path.unlink()
    if kind != "missing":
        path.write_bytes(data[:-100] if kind == "truncated" else b"<html>")
    with pytest.raises(DataError, match=r"edit\.safetensors") as e:
        Edit.load(path)
    assert e.value.code == 4
