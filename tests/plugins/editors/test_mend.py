"""MEND: gradients against autograd, the network against its formula, training and its files."""

import sys
from types import ModuleType

import pytest
import torch
from click.testing import CliRunner
from support.builders import record
from support.editors import OnBothKinds, relative, stored_model, stored_records
from torch.nn.functional import cross_entropy

from edit_harness import DataError, ModelSource, Request, UsageError
from edit_harness.cli import main
from edit_harness.interfaces import Making
from edit_harness.registry.settings import configure, shape_of
from edit_harness.testing import tiny_model
from edit_harness_plugins.editors.mend.mend import Mend
from edit_harness_plugins.editors.mend.network import Made, Network, Statistics, save

FACTS = (
    Request("{} lives in", "Ann", "Rome", "Oslo"),
    Request("The mother tongue of {} is", "Danielle Lovelace", "Old French", "English"),
    Request("{} plays the", "Bob", "piano", "guitar"),
)
"""Prompts and targets of different lengths."""
NAMES = ("Ann", "Bob", "Ada", "Danielle")
CITIES = ("Rome", "Oslo", "Paris", "London")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path / "cache"))


def matrices_of(model, blocks=2):
    layers = range(model.architecture.layers)[-blocks:]
    return [matrix for layer in layers for matrix in model.architecture.mlp(layer)]


def fresh(model, blocks=2, *, rank=8, lr=1e-4):
    """Return a network as training begins: the identity, without statistics."""
    return Network([tuple(m.matrix.shape) for m in matrices_of(model, blocks)], rank, lr=lr)


def stirred(model, seed=0):
    """Return a network with all parameters and statistics at random."""
    network = fresh(model)
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=noise))
    for module in network.modules():
        if isinstance(module, Statistics):
            module.update(torch.randn(50, len(module.mean), generator=noise))
    return network


def ready(model, network, path, blocks=2):
    """Return an editor with this network."""
    names = tuple(m.name for m in matrices_of(model, blocks))
    rank = len(next(t for n, t in network.state_dict().items() if n.endswith("layers.0.v")))
    save(network.state_dict(), Made(model.digest, names, rank, "a test", ""), path)
    editor = filled(model, blocks=blocks, network=str(path))
    editor.prepare(model)
    return editor


def filled(model, **fields):
    return configure(Mend(**fields), shape_of(model.module.config), "mend").editor


class TestMend(OnBothKinds):
    """With the identity for a network and a negative rate, an edit is a step down the gradient."""

    editor = Mend()

    @pytest.fixture(autouse=True)
    def with_a_network(self, model, tmp_path, monkeypatch):
        editor = ready(model, fresh(model, lr=-1e-3), tmp_path / "mend.safetensors")
        monkeypatch.setattr(self, "editor", Mend(network=editor.network))


# The gradient.


def nll_of_all_tokens(model, facts, parameters):
    """Return the mean loss over all target tokens, each text in a pass of its own."""
    terms = []
    for fact in facts:
        part = model.tokens.split(fact.text, fact.target_new)
        inputs = {"input_ids": torch.tensor([part.inputs]), "use_cache": False}
        logits = torch.func.functional_call(model.module, parameters, kwargs=inputs).logits
        found = logits[0, list(part.places)]
        terms.append(cross_entropy(found, torch.tensor(part.target), reduction="none"))
    return torch.cat(terms).mean()


@pytest.mark.parametrize(
    ("family", "facts"), [("gpt2", FACTS), ("llama", FACTS), ("opt", FACTS[:1])]
)
def test_without_a_network_the_change_is_the_gradient_of_the_weight(family, facts, tmp_path):
    """An oracle in float64: autograd on the weights themselves, requests of unequal length."""
    model = tiny_model(family, torch.float64)
    editor = ready(model, fresh(model, lr=0.25), tmp_path / "mend.safetensors")
    edit = editor.edit(model, facts)
    weights = {name: model.parameter(name).detach().clone() for name in edit.weights}
    leaves = {name: weight.requires_grad_() for name, weight in weights.items()}
    loss = nll_of_all_tokens(model, facts, leaves)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    assert len(edit.weights) == len(matrices_of(model))
    for delta, gradient in zip(edit.weights.values(), gradients, strict=True):
        assert gradient.norm() > 0
        assert relative(delta.dense(), 0.25 * gradient) < 1e-10
    assert edit.info["loss"] == pytest.approx(loss.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("family", "how"),
    [("gptj", {"padding": "right"}), ("gpt2", {"batch_rows": 1}), ("gpt2", {"batch_tokens": 24})],
)
def test_edits_found_together_are_those_found_alone(family, how, tmp_path):
    """However much fits a pass; fp32, where padding changes the order of sums: 1e-5 of each change."""
    model, shared, passes = tiny_model(family), tiny_model(family, **how), []
    shared.architecture.block(0).register_forward_hook(
        lambda module, args, output: passes.append(args[0].shape[:2])
    )
    editor = ready(model, stirred(model), tmp_path / "mend.safetensors")
    batches = [*([fact] for fact in FACTS), list(FACTS)]
    for batch, together in zip(batches, editor.edit_each(shared, batches), strict=True):
        alone = editor.edit(model, batch)
        assert together.info["loss"] == pytest.approx(alone.info["loss"], rel=1e-5)
        for name, delta in alone.weights.items():
            assert together.weights[name].left.shape == delta.left.shape
            assert relative(together.weights[name].dense(), delta.dense()) < 1e-5
    assert max(rows for rows, _ in passes) <= how.get("batch_rows", 6)
    assert max(shape.numel() for shape in passes) <= how.get("batch_tokens", 72)


# The network.


def test_statistics_are_of_all_vectors_and_matrices_of_one_shape_share_a_network():
    vectors = 3 + torch.randn(100, 4, generator=torch.Generator().manual_seed(0)).double()
    network = Network([(4, 3)], 2, lr=1.0).double()
    statistics = network.transforms["(4, 3)"].inputs
    assert torch.equal(statistics(vectors), vectors)
    for training, group in ((1, vectors[:1]), (0, vectors), (1, vectors[1:40]), (1, vectors[40:])):
        network.train(bool(training))(0, group, torch.zeros(len(group), 3).double())
    statistics.update(vectors[:0])
    expected = (vectors - vectors.mean(0)) / (vectors.std(0) + 1e-7)
    torch.testing.assert_close(statistics(vectors), expected, rtol=1e-12, atol=1e-12)
    network = Network([(3, 4), (4, 3), (3, 4)], 2, lr=0.5).eval()
    assert len(network.transforms) == 2
    with torch.no_grad():
        network.transforms["(3, 4)"].layers[0].shift[1] += 1
        network.lrs[2] = 2.0
    x, g = torch.randn(5, 3), torch.randn(5, 4)
    (x0, g0), (x2, g2) = network(0, x, g), network(2, x, g)
    assert torch.equal(x0, x)
    assert torch.equal(g0, 0.5 * g)
    torch.testing.assert_close(x2, x + 1)
    torch.testing.assert_close(g2, 2 * (g + 1))


# Finding and refusing.


def test_a_network_of_other_weights_or_blocks_or_none_is_refused(model, tmp_path):
    path, other = tmp_path / "mend.safetensors", tiny_model(n_positions=500)
    ready(model, fresh(model, blocks=1), path, blocks=1)
    with pytest.raises(DataError, match="trained for other weights"):
        filled(other, blocks=1, network=str(path)).prepare(other)
    with pytest.raises(DataError, match="edits transformer") as caught:
        filled(model, network=str(path)).prepare(model)
    assert "blocks" in caught.value.remedy
    path.write_bytes(b"not a network")
    with pytest.raises(DataError, match="is no network of mend"):
        filled(model, network=str(path)).prepare(model)


def test_a_network_is_found_in_the_cache_unless_there_are_two(model, tmp_path):
    """That of the model itself comes before the cache's."""
    path = tmp_path / "mend.safetensors"
    made = ready(model, stirred(model), path)
    model.source = ModelSource("folder", data={"lessons": "mine.json"}, name="mine")
    with pytest.raises(DataError) as caught:
        filled(model).prepare(model)
    assert caught.value.remedy == "run: edit-harness prepare --editor mend --model mine"
    folder = model.cache("editors")
    folder.mkdir(parents=True)
    (folder / "mend-one.safetensors").write_bytes(path.read_bytes())
    editor, said = filled(model), []
    editor.prepare(model)
    assert editor.provenance == made.provenance
    (folder / "mend-two.safetensors").write_bytes(path.read_bytes())
    with pytest.raises(DataError, match="2 networks of mend") as caught:
        editor.prepare(model)
    assert "network=" in caught.value.remedy
    model.source = ModelSource("", data={"mend": str(path)})
    editor.prepare(model)
    editor.make(model, Making(tmp_path / "made", report=said.append))
    assert said == [f"network  {path} comes with the model"]


# Training.


def lessons(path, count=40):
    """Write lessons in CounterFact's layout about invented facts."""
    records = []
    for i in range(count):
        name = f"{NAMES[i % 4]} {i}"
        new, true = {"str": CITIES[i % 3]}, {"str": CITIES[3]}
        lesson = record(i, subject=name, target_new=new, target_true=true)
        lesson["paraphrase_prompts"] = [f"The home of {name} is", f"{name} is in"]
        lesson["neighborhood_prompts"] = [f"{NAMES[(i + 1) % 4]} lives in"]
        records.append(lesson)
    return stored_records(path, records)


@pytest.fixture
def data(tmp_path):
    return lessons(tmp_path / "lessons.json")


TRAINING = {
    "rank": 4, "lr": 1e-3, "lr_lr": 1e-3, "start": -1e-4, "accumulate": 4, "iterations": 48,
    "every": 16, "patience": 1000,
}  # fmt: skip


def trained(model, folder, data, report=lambda line: None, **fields):
    """Make a network, and return its file."""
    editor = filled(model, **{**TRAINING, **fields})
    assert editor.make(model, Making(folder, data=data, report=report)) is True
    (path,) = folder.glob("mend-*.safetensors")
    return path


class Cut(Exception):
    """What stands for a user who stops the command."""


def test_an_interrupted_training_ends_with_the_same_bits(model, tmp_path, data):
    seen, said = [], []

    def cut(line):
        seen.append(line)
        # Between a validation's line and the next, its checkpoint was written.
        if len(seen) > 2:
            raise Cut

    whole = trained(model, tmp_path / "whole", data)
    with pytest.raises(Cut):
        trained(model, tmp_path / "cut", data, cut)
    assert not list((tmp_path / "cut").glob("*.safetensors"))
    torch.manual_seed(1)
    resumed = trained(tiny_model(), tmp_path / "cut", data, said.append)
    assert said[0] == "goes on after 32 lessons"
    assert resumed.read_bytes() == whole.read_bytes()
    assert [path.name for path in (tmp_path / "cut").iterdir()] == [resumed.name]
    trained(tiny_model(), tmp_path / "cut", data, said.append)
    assert said[-1].endswith("is there")


def test_training_lowers_the_loss_and_leaves_the_model_alone(model, tmp_path, data):
    """The rates begin with the wrong sign, as in the paper, and training turns it."""
    digest, said = model.digest, []
    how = {"iterations": 400, "every": 100, "c_edit": 1.0, "start": 1e-4, "lr_lr": 1e-2}
    path = trained(model, tmp_path, data, said.append, **how)
    assert model.digest == digest
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in said]
    assert losses[-1] < losses[0] - 0.5
    editor = filled(model, network=str(path))
    editor.prepare(model)
    assert editor.found["network"]["training"]["best"]["loss"] < losses[0]
    assert not any(p.requires_grad for p in model.module.parameters())


def test_the_first_of_equal_networks_is_kept_and_patience_ends_the_training(model, tmp_path, data):
    """With rates of 0 nothing is ever better than the first validation."""
    said = []
    still = {"lr": 0.0, "lr_lr": 0.0, "start": 0.0, "patience": 32, "iterations": 400}
    trained(model, tmp_path, data, said.append, **still)
    assert [line.split()[0] for line in said[:-1]] == ["16", "32", "48"]
    assert len({line.partition(":")[2] for line in said[:-1]}) == 1
    assert "best after 16 lessons" in said[-1]


def test_other_settings_and_other_data_are_another_network(model, tmp_path, data):
    more, folder = lessons(tmp_path / "more.json", 50), tmp_path / "made"
    for fields, source in (({}, data), ({"seed": 1}, data), ({}, more)):
        making = Making(folder, data=source, report=lambda line: None)
        filled(model, **TRAINING | {"iterations": 16} | fields).make(model, making)
    assert len(list(folder.glob("mend-*.safetensors"))) == 3


def test_too_few_lessons_a_damaged_checkpoint_and_rates_that_diverge_are_refused(
    model, tmp_path, data
):
    with pytest.raises(DataError, match="9 example edits are too few") as caught:
        trained(model, tmp_path, lessons(tmp_path / "few.json", 9))
    assert "at least 14" in caught.value.remedy
    path = trained(model, tmp_path / "made", data, iterations=16)
    path.unlink()
    path.with_suffix(".checkpoint").write_bytes(b"damaged")
    with pytest.raises(DataError, match="is no checkpoint") as caught:
        trained(model, tmp_path / "made", data, iterations=16)
    assert caught.value.remedy == "delete it"
    with pytest.raises(UsageError, match="diverged after 16 lessons") as caught:
        trained(model, tmp_path / "diverged", data, lr=1e30)
    assert "smaller rates" in caught.value.remedy


def test_the_command_makes_what_a_run_finds(model, tmp_path, data):
    folder = stored_model(model, tmp_path / "tiny")
    facts = stored_records(tmp_path / "facts.json", [record()])

    def tell(*args):
        return CliRunner().invoke(main, [*map(str, args), "-e", "mend", "-m", str(folder)])

    run = ("run", "-t", "counterfact", "--task-args", f"data={facts}", "-o", tmp_path / "out")
    assert "--editor mend" in tell(*run).stderr
    chosen = ",".join(f"{name}={value}" for name, value in TRAINING.items())
    made = tell("prepare", "--data", data, "--editor-args", chosen)
    assert made.exit_code == 0, made.output
    assert "48 lessons: loss" in made.stderr
    done = tell(*run)
    assert done.exit_code == 0, done.output


# Files of the authors.


def configurations(monkeypatch):
    """Return an object of a class that is there when it is written, and not when it is read."""
    module = ModuleType("omegaconf.dictconfig")
    module.DictConfig = type("DictConfig", (), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, "omegaconf", ModuleType("omegaconf"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    config = module.DictConfig()
    config.inner_params = ["a", "b"]
    return config


def published(network, config, prefix="mend"):
    """Return a network's tensors in the layout of the authors."""
    entries = {"edit_lrs": network.lrs.detach(), "model_config": config}
    for shape, transform in network.transforms.items():
        root = f"{prefix}.{shape}"
        for letter, part in (("u", transform.inputs), ("v", transform.gradients)):
            deviation = (part.squares / (part.count - 1)).sqrt()
            entries |= {f"{root}.{letter}_mean": part.mean, f"{root}.{letter}_std": deviation,
                        f"{root}.{letter}_s": part.squares}  # fmt: skip
        entries[f"{root}.k"] = transform.inputs.count.float()
        for i, layer in enumerate(transform.layers):
            names = {"scale": "mode_scale.weight", "shift": "mode_shift.weight"}
            for name, tensor in layer.named_parameters():
                entries[f"{root}.mlp.layers.{i}.{names.get(name, name)}"] = tensor.detach()
    return {"model": entries, "step": 7, "config": config}


@pytest.mark.parametrize(("family", "prefix"), [("gpt2", "mend"), ("llama", "gtn")])
def test_a_published_network_edits_as_the_one_it_was_made_of(family, prefix, tmp_path, monkeypatch):
    model = tiny_model(family)
    network = stirred(model)
    expected = ready(model, network, tmp_path / "mend.safetensors").edit(model, FACTS)
    if family == "gpt2":  # the authors' order: c_proj before c_fc in each block
        rates = network.lrs.detach().tolist()
        assert len(set(rates)) == 4
        network.lrs.data = torch.tensor([rates[1], rates[0], rates[3], rates[2]])
    with monkeypatch.context() as patch:
        torch.save(published(network, configurations(patch), prefix), tmp_path / "mend.pt")
    assert "omegaconf.dictconfig" not in sys.modules
    editor = filled(model)
    editor.make(model, Making(model.cache("editors"), imported=str(tmp_path / "mend.pt")))
    editor.prepare(model)
    assert editor.found["network"]["data"] == "imported mend.pt"
    for name, delta in editor.edit(model, FACTS).weights.items():
        assert torch.equal(delta.dense(), expected.weights[name].dense())


def imported(model, folder, content):
    torch.save(content, folder / "mend.pt")
    filled(model).make(model, Making(folder, imported=str(folder / "mend.pt")))


def test_an_archive_with_code_is_refused_without_running_it(model, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    with pytest.raises(DataError, match="no network in the layout"):
        imported(model, tmp_path, {"model": {"edit_lrs": torch.ones(4), "x": Bomb()}})
    assert not (tmp_path / "ran").exists()


def test_a_published_network_of_other_shapes_or_none_is_refused(model, tmp_path):
    other = published(stirred(tiny_model("llama")), None)
    for content in (other, {"model": {"edit_lrs": torch.ones(4)}}):
        with pytest.raises(DataError, match="does not fit the matrices") as caught:
            imported(model, tmp_path, content)
        assert "blocks" in caught.value.remedy
