"""Our numbers against those of the published reference implementations, on tiny models.

The limits are for fp32 against float64 references, with a margin of 5 to 10 over what the
references themselves lose in fp32. See tests/golden/README.md.
"""

import json
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.builders import DATA, ROOT

from edit_harness import Choose, Drift, Request
from edit_harness.edits import UNEDITED
from edit_harness.interfaces import Making, ModelSource
from edit_harness_plugins.editors.covariance import Covariance, Provenance, save
from edit_harness_plugins.editors.grace import grace as grace_module
from edit_harness_plugins.editors.grace.codebook import nearest
from edit_harness_plugins.editors.grace.grace import Grace, inputs_at, search
from edit_harness_plugins.editors.locate import rome as rome_module
from edit_harness_plugins.editors.locate.memit import Memit
from edit_harness_plugins.editors.locate.rome import Rome
from edit_harness_plugins.editors.mend.mend import Mend
from edit_harness_plugins.editors.tuning import ft, lora
from edit_harness_plugins.editors.tuning.ft import ConstrainedFineTuning, FineTuning
from edit_harness_plugins.editors.tuning.lora import Lora
from edit_harness_plugins.loading.load import load
from edit_harness_plugins.metrics.preference import TokenAccuracy
from edit_harness_plugins.tasks.zsre import ZsRE

OWN, SHARED = ROOT / "tests" / "golden", DATA / "golden"
FILES = {
    "subset": (OWN / "subset.json", OWN),
    "open": (SHARED / "open.json", SHARED / "models"),
}
SETS = [("subset", "gpt2-tiny"), ("open", "gpt2-tiny"), ("open", "llama-tiny")]
ROMES = {
    "rome_identity": {"covariance": False},
    "rome_cov": {"covariance": True},
    "rome_earlystop": {"covariance": False},
    "r_rome_identity": {"covariance": False, "key_mode": "mean"},
}
TUNERS = {"ft": FineTuning, "ft_l": ConstrainedFineTuning}


class Golden:
    """One set of reference numbers for one model."""

    def __init__(self, which, name):
        torch.set_num_threads(1)
        file, self.models = FILES[which]
        self.data = json.loads(file.read_text(encoding="utf-8"))
        self.folder = self.models / name
        self.model = load(ModelSource(str(self.folder)), device="cpu")
        self.part = self.data[name]
        self.records = self.data["records"]
        self.requests = [
            Request(r["prompt"], r["subject"], r["target_new"]["str"], r["target_true"]["str"])
            for r in (record["requested_rewrite"] for record in self.records)
        ]

    def results(self, kind):
        """Return the requests with the records and the reference's results."""
        if kind not in self.part["results"]:
            pytest.skip(f"the reference has no {kind} for this model")
        found = self.part["results"][kind]
        assert len(found) == len(self.records) > 1
        return list(zip(self.requests, self.records, found, strict=True))

    def hparams(self, kind):
        own = self.part["hparams"]
        return own[kind] if kind in own else own["rome"]


@cache
def opened(which, name):
    return Golden(which, name)


@pytest.fixture(params=SETS, ids=lambda pair: "-".join(pair))
def golden(request):
    if not FILES[request.param[0]][0].exists():
        pytest.skip(f"{FILES[request.param[0]][0]} is not here")
    return opened(*request.param)


def relative(ours, theirs):
    ours, theirs = (np.asarray(x, dtype=float) for x in (ours, theirs))
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)


def keep_moments(golden, layers, path):
    """Write the reference's second moments as a file of ours."""
    stored = load_file(golden.folder / "cov.safetensors")
    made = Provenance(golden.model.digest, "golden", "", 15_079, 128)
    save({layer: Covariance(stored[f"C.{layer}"], made, "") for layer in layers}, path)


def prompts_of(request, record):
    near = record["neighborhood_prompts"]
    return {
        "rewrite": [request.text],
        "paraphrase": record["paraphrase_prompts"],
        "neighborhood": near,
        "neighborhood_plus": [f"{request.statement}. {prompt}" for prompt in near],
    }


def check_scores(golden, edit, request, record, scores, *, nll, kl=3e-4, paper=3e-7):
    """Compare all scores of one record under an edit; numbers are absolute limits."""
    objects = (request.target_new, request.target_true)
    for role, texts in prompts_of(request, record).items():
        theirs = scores[role]
        assert len(texts) == len(theirs["nll_new"]) > 0
        right = 1 if role.startswith("neighborhood") else 0
        answers = golden.model.answer([(edit, Choose(text, objects)) for text in texts])
        assert [a.nll(0) for a in answers] == pytest.approx(theirs["nll_new"], abs=nll), role
        assert [a.nll(1) for a in answers] == pytest.approx(theirs["nll_true"], abs=nll), role
        assert [a.exact(right) for a in answers] == theirs["correct"], role
        if right and edit is not UNEDITED:
            moved = golden.model.answer([(edit, Drift(text)) for text in texts])
            reverse = [m.reverse for m in moved]
            assert reverse == pytest.approx(theirs["kl_edited_base"], abs=kl), role
            assert [m.forward for m in moved] == pytest.approx(theirs["kl_base_edited"], abs=kl)
            published = [m.reverse / m.vocabulary for m in moved]
            assert published == pytest.approx(theirs["nkl_paper"], abs=paper), role


def test_tokens(golden):
    tokens = golden.model.tokens
    for request, expected in zip(golden.requests, golden.part["tokens"], strict=True):
        new, true = (
            tokens.split(request.text, target)
            for target in (request.target_new, request.target_true)
        )
        assert list(new.prompt) == list(true.prompt) == expected["rewrite_prompt_ids"]
        assert list(new.target) == expected["target_new_ids"]
        assert list(true.target) == expected["target_true_ids"]
        assert tokens.subject_last(request) == expected["subject_last_index"]


def test_scores_of_the_unedited_model(golden):
    for request, record, scores in golden.results("unedited"):
        check_scores(golden, UNEDITED, request, record, scores, nll=5e-5)


def search_of(h):
    """Return the settings of a search for values, by our names."""
    names = {"steps": "v_num_grad_steps", "lr": "v_lr", "weight_decay": "v_weight_decay",
             "clamp": "clamp_norm_factor", "kl_factor": "kl_factor"}  # fmt: skip
    return {own: h[theirs] for own, theirs in names.items()}


def rome_of(golden, kind, **fields):
    """Return ROME as the reference ran it."""
    h = golden.hparams(kind)
    (layer,) = h["layers"]
    contexts = tuple(golden.data["context_templates"]["rome"])
    return Rome(layer=layer, contexts=contexts, **search_of(h), **fields)


@pytest.mark.parametrize("kind", ROMES)
def test_rome(golden, kind, tmp_path, monkeypatch):
    results = golden.results(kind)
    (layer,) = golden.hparams(kind)["layers"]
    fields = dict(ROMES[kind])
    if fields["covariance"]:
        fields["moments"] = str(tmp_path / "moments.safetensors")
        keep_moments(golden, [layer], tmp_path / "moments.safetensors")
    editor = rome_of(golden, kind, **fields)
    editor.prepare(golden.model)
    seen = []
    search = rome_module.search
    monkeypatch.setattr(rome_module, "search", lambda *a: seen.append(search(*a)) or seen[-1])
    for request, record, theirs in results:
        edit = editor.edit(golden.model, [request])
        (delta,) = edit.weights.values()
        projection = golden.model.architecture.projection(layer)
        u, v = (delta.right[0], delta.left[:, 0]) if projection.out_in else (
            delta.left[:, 0], delta.right[0],
        )  # fmt: skip
        (found,) = seen[-1]
        key = found.keys.mean(0) if kind.startswith("r_rome") else found.keys[0]
        assert edit.info["steps"] == theirs["adam_steps"] == len(found.losses) - 1
        np.testing.assert_allclose(found.losses, theirs["loss"], rtol=0, atol=5e-5)
        assert edit.info["loss"] == found.losses[-1][0]
        assert relative(u, theirs["u"]) < 1e-5
        assert float(u.norm()) == pytest.approx(1, abs=1e-6)
        assert relative(v, theirs["v"]) < 2e-4
        assert relative(found.values[0] + found.delta, theirs["v_star"]) < 2e-4
        assert float(key @ u) == pytest.approx(theirs["key_dot_u"], rel=1e-5)
        assert edit.info["value_norm"] == pytest.approx(theirs["target_init_norm"], rel=1e-5)
        assert edit.info["delta_norm"] == pytest.approx(theirs["delta_norm"], rel=2e-4)
        assert float(delta.dense().norm()) == pytest.approx(theirs["delta_fro"], rel=2e-4)
        check_scores(golden, edit, request, record, theirs["scores"], nll=3e-4)


def test_the_early_stop_of_the_reference_is_among_the_records():
    steps = [r["adam_steps"] for *_, r in opened("subset", "gpt2-tiny").results("rome_earlystop")]
    assert min(steps) < 19 == max(steps)


@pytest.fixture
def memit(golden, tmp_path, monkeypatch):
    """MEMIT as the reference ran it, and what its searches found, call by call."""
    h = golden.hparams("memit")
    keep_moments(golden, h["layers"], tmp_path / "moments.safetensors")
    (bare,), others = golden.data["context_templates"]["memit"]
    editor = Memit(
        layers=tuple(h["layers"]),
        **search_of(h),
        moment_weight=h["mom2_update_weight"],
        moments=(str(tmp_path / "moments.safetensors"),),
        contexts=(bare, *others),
    )
    editor.prepare(golden.model)
    found, search = [], Memit._search
    monkeypatch.setattr(Memit, "_search", lambda *a: found.append(search(*a)) or found[-1])
    return editor, found


def check_values(found, theirs):
    """Compare what one edit's searches found with the reference's lists over requests."""
    for own, z in zip(found, theirs["z_star"], strict=True):
        assert relative(own.values[0] + own.delta, z) < 2e-4
    norms = [float(own.values[0].norm()) for own in found]
    assert norms == pytest.approx(theirs["z_init_norm"], rel=1e-5)
    moved = [float(own.delta.norm()) for own in found]
    assert moved == pytest.approx(theirs["z_delta_norm"], rel=2e-4)


def changes(golden, edit):
    """Return the edit's change of each layer, inputs by outputs."""
    out_in = golden.model.architecture.projection(0).out_in
    return [(n, d.dense().T if out_in else d.dense()) for n, d in edit.weights.items()]


def test_memit(golden, memit):
    """Edits of one request each, found together."""
    editor, found = memit
    results = golden.results("memit_single")
    edits = editor.edit_each(golden.model, [[request] for request, *_ in results])
    for edit, own, (request, record, theirs) in zip(edits, found[0], results, strict=True):
        check_values([own], theirs)
        np.testing.assert_allclose(own.losses, theirs["loss"], rtol=0, atol=5e-5)
        assert edit.info["steps"] == theirs["adam_steps"]
        for (name, change), layer in zip(changes(golden, edit), theirs["layers"], strict=True):
            assert name == layer["param"]
            assert relative(change, np.outer(layer["left"], layer["right"])) < 2e-4
        check_scores(golden, edit, request, record, theirs["scores"], nll=3e-4)


def test_memit_of_many_requests(golden, memit):
    """One edit of twelve requests; ``proj`` weighs every entry of a change with cosines."""
    if "memit_mass12" not in golden.part["results"]:
        pytest.skip("the reference has no mass edit for this set")
    editor, found = memit
    theirs = golden.part["results"]["memit_mass12"]
    edit = editor.edit(golden.model, golden.requests)
    check_values(found[0], theirs)
    for (name, change), layer in zip(changes(golden, edit), theirs["layers"], strict=True):
        assert name == layer["param"]
        assert float(change.norm()) == pytest.approx(layer["fro"], rel=1e-5)
        rows, columns = (
            torch.cos(0.1 * torch.outer(torch.arange(1, 4), torch.arange(1, size + 1)))
            for size in change.shape
        )
        weighed = rows @ change @ columns.T
        np.testing.assert_allclose(weighed, layer["proj"], rtol=0, atol=1e-4 * layer["fro"])
        ours = [float(change[row, column]) for row, column, _ in layer["entries"]]
        listed = [value for *_, value in layer["entries"]]
        assert ours == pytest.approx(listed, abs=1e-4 * layer["max_abs"])
    for request, record, scores in zip(
        golden.requests, golden.records, theirs["scores"], strict=True
    ):
        check_scores(golden, edit, request, record, scores, nll=3e-4)


LOSSES = {"ft": 2e-3, "ft_l": 1e-4}
CHANGES = {"ft": {"fro": 1e-3, "entries": 1e-2}, "ft_l": {"fro": 1e-4, "entries": 1e-3}}
SCORES = {"ft": {"nll": 1e-2, "kl": 1e-2, "paper": 1e-5}, "ft_l": {"nll": 3e-4}}


def check_change(change, expected, *, fro, entries):
    """Compare a weight's change with its norm and twenty of its entries; numbers are relative limits."""
    assert list(change.shape) == expected["shape"]
    assert float(change.norm()) == pytest.approx(expected["fro"], rel=fro)
    assert len(expected["entries"]) == 20
    for row, column, value in expected["entries"]:
        limit = entries * expected["max_abs"]
        assert float(change[row, column]) == pytest.approx(value, abs=limit), (row, column)


def noted_losses(part, monkeypatch):
    """Return a list that takes down every loss of a tuner's part."""
    losses, loss_of = [], part.losses

    def noting(*args):
        loss = loss_of(*args)
        losses.append(loss.item())
        return loss

    monkeypatch.setattr(part, "losses", noting)
    return losses


@pytest.mark.parametrize("kind", TUNERS)
def test_fine_tuning(golden, kind, monkeypatch):
    results = golden.results(kind)
    h = golden.hparams(kind)
    box = {"epsilon": h["norm_constraint"]} if kind == "ft_l" else {}
    editor = TUNERS[kind](layer=h["layers"][0], steps=h["num_steps"], lr=h["lr"], bias=True, **box)
    losses = noted_losses(ft.Part, monkeypatch)
    for request, record, theirs in results:
        losses.clear()
        edit = editor.edit(golden.model, [request])
        assert losses == pytest.approx(theirs["loss"], abs=LOSSES[kind])
        assert edit.info["steps"] == len(theirs["loss"])
        assert edit.weights.keys() == theirs["params"].keys()
        for name, expected in theirs["params"].items():
            change = edit.weights[name].dense().reshape(expected["shape"]).double()
            check_change(change, expected, **CHANGES[kind])
        check_scores(golden, edit, request, record, theirs["scores"], **SCORES[kind])


class Seeded(Grace):
    """Starts cold where the reference did, which seeds each record by its position."""

    positions: ClassVar = {}

    def first_value(self, request, clean):
        if self.start == "warm":
            return super().first_value(request, clean)
        noise = torch.Generator().manual_seed(1000 + self.positions[request])
        return torch.rand(len(clean), generator=noise)


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_grace(golden, start, monkeypatch):
    results = golden.results(f"grace_{start}")
    h = golden.hparams(f"grace_{start}")
    (name,) = h["inner_params"]
    editor = Seeded(
        layer=2,
        module="up" if "c_fc" in name else "down",
        steps=h["n_iter"],
        lr=h["edit_lr"],
        epsilon=h["eps"],
        start=start,
    )
    positions = golden.data["counterfact_positions"]
    monkeypatch.setattr(Seeded, "positions", dict(zip(golden.requests, positions, strict=True)))
    seen = []
    monkeypatch.setattr(grace_module, "search", lambda *a: seen.append(search(*a)) or seen[-1])
    for request, record, theirs in results:
        edit = editor.edit(golden.model, [request])
        ((module, book),) = edit.adaptors.items()
        assert f"{module}.weight" == name.replace("[", ".").replace("]", "")
        ((found,),) = seen[-1:]
        if start == "cold":
            first = editor.first_value(request, book.values[0])[:5]
            assert first.tolist() == pytest.approx(theirs["init_value_first5"], abs=1e-9)
        assert len(found.losses) == h["n_iter"]
        assert found.losses == pytest.approx(theirs["loss"], abs=5e-5)
        assert edit.info["loss"] == found.losses[-1]
        assert relative(book.keys[0], theirs["key"]) < 1e-5
        assert relative(book.values[0], theirs["value"]) < 1e-4
        assert book.radii.tolist() == [theirs["eps"]]
        check_lookups(golden, edit, request, record, theirs["scores"])


def check_lookups(golden, edit, request, record, scores):
    """Compare how far each prompt is from the key, whether it is answered by it, and its scores."""
    ((module, book),) = edit.adaptors.items()
    objects = (request.target_new, request.target_true)
    for role, texts in prompts_of(request, record).items():
        ids = [golden.model.tokens.encode(text).ids for text in texts]
        distance, _ = nearest(book.keys, inputs_at(golden.model, module, ids))
        assert distance.tolist() == pytest.approx(scores[role]["distance"], abs=1e-4), role
        assert (distance <= book.radii[0]).tolist() == scores[role]["hit"], role
        answers = golden.model.answer([(edit, Choose(text, objects)) for text in texts])
        for i, name in enumerate(("nll_new", "nll_true")):
            assert [a.nll(i) for a in answers] == pytest.approx(scores[role][name], abs=3e-4), role


def test_lora(golden, monkeypatch):
    """The reference takes its loss from logits in fp32; the limits of KL and entries are FT's."""
    results = golden.results("lora")
    h = golden.hparams("lora")
    given = load_file(golden.folder / "lora_init.safetensors")

    def firsts(targets, *_):
        return {t.name: given[f"lora_A.{i}"] for i, t in enumerate(targets)}

    monkeypatch.setattr(lora, "first_factors", firsts)
    editor = Lora(
        targets=tuple(h["target_modules"]),
        steps=h["num_steps"],
        lr=h["lr"],
        rank=h["rank"],
        alpha=h["lora_alpha"],
        dropout=h["lora_dropout"],
        weight_decay=h["weight_decay"],
    )
    losses = noted_losses(lora.Part, monkeypatch)
    for request, record, theirs in results:
        losses.clear()
        edit = editor.edit(golden.model, [request])
        assert losses == pytest.approx(theirs["loss"], abs=1e-4)
        assert len(edit.weights) == len(theirs["layers"]) == 4
        for delta, expected in zip(edit.weights.values(), theirs["layers"], strict=True):
            check_change(delta.dense().double(), expected, **CHANGES["ft"])
        check_scores(golden, edit, request, record, theirs["scores"], **SCORES["ft"])


def test_mend(golden, tmp_path, monkeypatch):
    """The reference's network comes in by the layout that its authors published."""
    results = golden.results("mend")
    monkeypatch.setenv("EDIT_HARNESS_CACHE", str(tmp_path))
    h = golden.hparams("mend")
    network = load_file(golden.folder / "mend_net.safetensors")
    entries = {f"mend.{name}": tensor for name, tensor in network.items()}
    entries["edit_lrs"] = torch.full((len(h["inner_params"]),), h["edit_lr"])
    torch.save({"model": entries}, tmp_path / "mend.pt")
    editor = Mend(blocks=2, rank=h["rank"])
    folder = golden.model.cache("editors")
    editor.make(golden.model, Making(folder, imported=str(tmp_path / "mend.pt")))
    editor.prepare(golden.model)
    for request, record, theirs in results:
        edit = editor.edit(golden.model, [request])
        assert edit.weights.keys() == theirs["params"].keys() == set(h["inner_params"])
        for name, expected in theirs["params"].items():
            assert edit.weights[name].left.shape[1] == expected["tokens"]
            change = edit.weights[name].dense().double() / h["edit_lr"]
            check_change(change, expected, fro=1e-4, entries=1e-4)
        check_scores(golden, edit, request, record, theirs["scores"], nll=3e-4)


ZSRE_NAMES = {"rewrite": "ET", "paraphrase": "PT", "neighborhood": "NT"}


def check_questions(golden, case, edit, theirs):
    """Compare which tokens of zsRE's answers are right, and their shares, to 10 stored digits."""
    answers = golden.model.answer([(edit, probe.query) for probe in case.probes])
    values = TokenAccuracy().measure(case, answers, answers)
    for role, answer in zip(ZSRE_NAMES, answers, strict=True):
        (tokens,), (argmax,) = answer.tokens, answer.argmax
        flags = [token == said for token, said in zip(tokens, argmax, strict=True)]
        assert flags == theirs["flags"][role], role
        share = values[f"post_{ZSRE_NAMES[role]}"]
        assert share == pytest.approx(theirs["acc"][role], rel=1e-9), role


def test_zsre(golden, tmp_path):
    """The reference asks for one token at a time; ours come from one pass over the answer."""
    if "zsre" not in golden.part["results"]:
        pytest.skip("the reference has no zsRE for this set and model")
    results = golden.part["results"]["zsre"]
    file = tmp_path / "zsre.json"
    file.write_text(json.dumps(golden.data["zsre_records"]), encoding="utf-8")
    editor = rome_of(golden, "rome", covariance=False)
    editor.prepare(golden.model)
    for case, theirs in zip(ZsRE(str(file)).cases(), results, strict=True):
        efficacy = case.probes[0].query
        (answer,) = golden.model.answer([(UNEDITED, efficacy)])
        assert list(answer.tokens[0]) == theirs["target_tokens"]
        check_questions(golden, case, UNEDITED, theirs["unedited"])
        expected = theirs["rome_identity"]
        edit = editor.edit(golden.model, case.requests)
        (delta,) = edit.weights.values()
        assert edit.info["steps"] == expected["adam_steps"]
        assert edit.info["loss"] == pytest.approx(expected["loss_last"], abs=5e-5)
        assert float(delta.dense().norm()) == pytest.approx(expected["delta_fro"], rel=2e-4)
        check_questions(golden, case, edit, expected)
