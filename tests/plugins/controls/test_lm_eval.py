"""lm-evaluation-harness as a control: equal to itself on saved weights, offline, and quiet."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from support.builders import REQUEST, people
from support.editors import stored_model
from support.loops import Push
from support.own_tasks import FACTS, TALES, write

import edit_harness as eh
from edit_harness import DataError, UsageError
from edit_harness.cli import main
from edit_harness.data import Examined
from edit_harness.edits import UNEDITED
from edit_harness.folder.encoding import encode_answer
from edit_harness.registry.registry import Plugins
from edit_harness.run.clean import examine
from edit_harness.run.controls import make_controls
from edit_harness.testing import tiny_model
from edit_harness.testing.suite import left_alone
from edit_harness_plugins.controls import lm_eval_task
from edit_harness_plugins.controls.effects import Seen, effects
from edit_harness_plugins.controls.lm_eval_task import GENERAL, LMEval
from edit_harness_plugins.exporters import adapter

lm_eval = pytest.importorskip("lm_eval")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return write(tmp_path_factory.mktemp("tasks"))


def loaded(task, folder, model, **fields):
    control = LMEval(task=task, include_path=str(folder), **fields)
    control.load()
    control.prepare(model)
    return control


def theirs(lm, own, **arguments):
    """Return what lm-evaluation-harness itself says of both tasks."""
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(own), include_defaults=False)
    return lm_eval.simple_evaluate(
        lm, tasks=["own_facts", "own_tales"], task_manager=manager, bootstrap_iters=0, **arguments
    )


def loglikelihoods(found):
    """Return every log-likelihood that it is made of, in the order of documents and choices."""
    facts = [float(r[0][0]) for s in found["samples"]["own_facts"] for r in s["resps"]]
    return torch.tensor(facts + [s["word_perplexity"][0] for s in found["samples"]["own_tales"]])


def test_the_edited_module_is_measured_as_its_weights_saved_and_loaded(own, tmp_path):
    from lm_eval.models.huggingface import HFLM

    model = tiny_model("llama")
    edit = Push().edit(model, [REQUEST])
    eh.save_model(model, edit, tmp_path / "saved")
    saved = theirs(HFLM(pretrained=str(tmp_path / "saved"), device="cpu", batch_size=8), own)
    adapter.save(model, edit, tmp_path / "lora")
    names = (str(stored_model(model, tmp_path / "base")), str(tmp_path / "lora"))
    lora = theirs(HFLM(names[0], peft=names[1], device="cpu", batch_size=8), own)
    # Of a text, it is a sum.
    torch.testing.assert_close(*map(loglikelihoods, (lora, saved)), atol=1e-5, rtol=1e-7)
    here = {}
    for task in ("own_facts", "own_tales"):
        control = loaded(task, own, model)
        clean = control.examine()
        with model.applied(edit):
            here[task] = control.examine().marks
            inside = theirs(control._lm, own)
        assert control.examine() == clean
        assert clean.marks != here[task]
    assert (loglikelihoods(inside) - loglikelihoods(saved)).abs().max() <= 1e-6
    for task, metric in (
        ("own_facts", "acc"),
        ("own_facts", "acc_norm"),
        ("own_tales", "word_perplexity"),
        ("own_tales", "bits_per_byte"),
    ):
        marks = here[task][metric]
        mine = zip(marks.values, marks.weights, strict=True) if marks.weights else marks.values
        for one, other in zip(mine, saved["samples"][task], strict=True):
            assert one == pytest.approx(other[metric], abs=1e-6)


@pytest.mark.parametrize(
    ("task", "documents", "better"),
    [("own_facts", len(FACTS), "higher"), ("own_tales", len(TALES), "lower")],
)
def test_what_its_marks_come_to_is_what_it_says(own, model, task, documents, better):
    """Means, perplexities and bits over all documents, computed here from the values of each."""
    control = loaded(task, own, model)
    expected = theirs(control._lm, own)["results"][task]
    stored = encode_answer(control.examine())
    found = list(effects(task, [Seen(1, [stored], [stored])], last=False))
    assert len(found) == 2
    for effect in found:
        assert effect.before == pytest.approx(expected[f"{effect.name},none"])
        assert (effect.documents, effect.better) == (documents, better)


def test_settings_are_those_of_the_library_which_says_nothing_and_leaves_the_process_alone(
    own, model, tmp_path, capfd
):
    control = loaded("own_facts", own, model, limit=3, num_fewshot=2)
    found, again = control.examine(), control.examine()
    assert len(found.marks["acc"].values) == 3
    assert found == again, "the examples are the same every time"
    plain = loaded("own_facts", own, model, limit=3)
    assert plain.examine().documents != found.documents
    assert plain.provenance["documents"] == control.provenance["documents"]
    assert plain.provenance["tasks"] != control.provenance["tasks"]
    elsewhere = loaded("own_facts", write(tmp_path), model, limit=3, batch_size=2)
    assert elsewhere.provenance == plain.provenance
    control = loaded("own_tales", own, model)  # what it imports sets what libraries set
    special = dict(model.tokens.tokenizer.special_tokens_map)
    capfd.readouterr()
    case = Examined("control:x", (), (), control=control)
    with left_alone():
        examine(model, UNEDITED, case)
    assert capfd.readouterr() == ("", "")
    assert model.tokens.tokenizer.special_tokens_map == special


def test_what_is_not_there_is_said(own, monkeypatch):
    known = SimpleNamespace(all_tasks=["own_facts"])
    monkeypatch.setattr(lm_eval_task, "_index", lambda folder, every: known)
    with pytest.raises(UsageError, match="no task 'own_fact'; did you mean own_facts"):
        LMEval(task="own_fact").load()
    monkeypatch.undo()
    with pytest.raises(DataError, match="own_elsewhere cannot be loaded") as raised:
        LMEval(task="own_elsewhere", include_path=str(own)).load()
    assert "HF_HUB_OFFLINE" in raised.value.remedy
    with pytest.raises(UsageError, match="nowhere is no folder"):
        LMEval(task="own_facts", include_path="nowhere").load()
    monkeypatch.setattr(lm_eval_task, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as raised:
        LMEval(task="own_facts").load()
    assert raised.value.remedy == "pip install 'edit-harness[control]'"


def variant(own, folder, old, new):
    """Write the task of facts as ``variant``, with a part of its file replaced; return the folder."""
    text = (own / "facts.yaml").read_text().replace("own_facts", "variant")
    assert old in text
    (folder / "variant.yaml").write_text(text.replace(old, new))
    lm_eval_task._index.cache_clear()
    return folder


@pytest.mark.parametrize(("metric", "aggregation"), [("mcc", "matthews_corrcoef"), ("foo", "mean")])
def test_a_measure_that_cannot_be_summed_up_is_left_out(own, model, tmp_path, metric, aggregation):
    new = f"metric: {metric}, aggregation: {aggregation}"
    folder = variant(own, tmp_path, "metric: acc, aggregation: mean", new)
    found = loaded("variant", folder, model).examine()
    assert list(found.marks) == ["acc_norm"]
    assert list(found.left_out) == [metric]
    if metric == "mcc":
        why = "it is no mean over documents, no perplexity and no bits per byte"
        assert found.left_out[metric] == why


def test_what_is_nan_is_left_out():
    """And what is a perplexity is computed by the harness, not by the task."""

    def perplexity(values):
        raise AssertionError

    task = SimpleNamespace(
        aggregation=lambda: {"ppl": perplexity}, higher_is_better=lambda: {"ppl": False}
    )
    control = LMEval(task="x")
    control._tasks = {"x": task}
    samples = [
        ("x", {"metrics": ["ppl"], "filter": "none", "ppl": (value, 3)})
        for value in (math.nan, -1.0)
    ]
    assert list(control._marks(samples)) == [("ppl", "NaN or infinity of 1 of 2 documents")]


@pytest.mark.parametrize(
    ("old", "new", "fields", "kind", "words"),
    [
        ("facts.jsonl", "none.jsonl", {}, DataError, "cannot be loaded: .*Unable to find"),
        ("{{question}}", "{{qu}}", {}, DataError, "cannot be loaded: .*'qu' is undefined"),
        ("metric_list:", "metric_list: [x", {}, UsageError, "no task 'variant'"),
        ("metric_list", "num_fewshot: 0\nmetric_list", {"num_fewshot": 2}, UsageError,
         "says num_fewshot: 0, so that num_fewshot=2 has no effect"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_task_file_is_said(
    own, tmp_path, monkeypatch, old, new, fields, kind, words
):
    folder = variant(own, tmp_path, old, new)
    own_only = lm_eval_task._index
    monkeypatch.setattr(lm_eval_task, "_index", lambda folder, every: own_only(folder, False))
    with pytest.raises(kind, match=words):
        LMEval(task="variant", include_path=str(folder), **fields).load()


def test_it_is_a_flag_of_the_command(own, tmp_path):
    facts = people(tmp_path, "ABCD")
    tiny = stored_model(tiny_model(), tmp_path / "tiny")
    flags = ["--editor", "none", "--task", "counterfact", "--task-args", f"data={facts}"]
    flags += ["--model", str(tiny), "-o", str(tmp_path / "results"), "--metrics", "success"]
    flags += ["--control", "lm_eval:own_facts,text", "--control-args"]
    made = CliRunner().invoke(main, [*flags, f"include_path={own},sample=2", "--json", "-q"])
    assert made.exit_code == 0, made.stderr
    found = json.loads(made.stdout)["control"]
    assert found["lm_eval:own_facts"]["acc"]["difference"] == 0
    assert found["text"]["perplexity"]["models"] == 2


def test_a_set_is_its_tasks(monkeypatch):
    monkeypatch.setattr(LMEval, "load", lambda self: None)
    made, _ = make_controls(Plugins.installed(), ["lm_eval:general", "text"], {}, seed=0)
    assert [each.name for each in made] == [*(f"lm_eval:{task}" for task in GENERAL), "text"]
