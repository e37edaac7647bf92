"""Answers of the unedited model: asked once for all editors, and kept on disk where that is exact."""

import copy
import json

import pytest
import torch
from test_runner import CASES, Push, case, worked
from tokenizers import normalizers

from edit_harness import Case, Choose, Drift, Generate, NextToken, Probe, Request, Text
from edit_harness.edits import UNEDITED, Edit
from edit_harness.interfaces import Regime
from edit_harness.model import generate
from edit_harness.model.model import Model
from edit_harness.model.reuse import start_of_edit
from edit_harness.run import clean
from edit_harness.run.clean import CleanPass
from edit_harness.run.plan import steps
from edit_harness.testing import tiny_model

PAIR = ("Paris", "Rome")


def made(*queries, name="0") -> Case:
    request = Request("{} lives in", "Ada", "Paris", "Rome")
    return Case(name, (request,), tuple(Probe("any", query) for query in queries))


TOLD = [made(Generate("Ada lives in", 6), Generate("Bob lives in", 6), Choose("Ada", PAIR))]
DRIFTING = [made(Choose("Ada lives in", PAIR), Drift("Bob lives in"), Generate("Ann", 4))]


def ask(model, folder, cases=TOLD, edit=UNEDITED):
    return CleanPass(model, folder).ask(cases, [(case, edit) for case in cases])


def test_what_is_on_disk_is_not_written_again(model, tmp_path, monkeypatch):
    continued, plain = [], generate.samples

    def samples(model, prompts):
        continued.append(len(prompts))
        return plain(model, prompts)

    monkeypatch.setattr(generate, "samples", samples)
    first = ask(model, tmp_path)
    before, _ = ask(model, tmp_path)[0]
    assert before == first[0][0]
    assert continued == [4, 2], "the second time only after the edit"
    (path,) = tmp_path.glob(f"{model.digest}/*.json")
    assert len(json.loads(path.read_text())["answers"]) == 2


def test_only_texts_are_kept(model, tmp_path, monkeypatch):
    """The clean pass runs anyway, for edited passes to begin with, and answers the rest."""
    first = ask(model, tmp_path, DRIFTING)
    (path,) = tmp_path.glob("*/*.json")
    assert json.loads(path.read_text())["answers"] == [{"text": first[0][0][2].text}]
    monkeypatch.setattr(clean, "_read", lambda path: [Text(" as kept")])
    ((before, _),) = ask(model, tmp_path, DRIFTING)
    assert before == [*first[0][0][:2], Text(" as kept")]
    ask(model, tmp_path / "none", [made(NextToken("Ada"), Choose("Ada", PAIR))])
    assert not (tmp_path / "none").exists()


def test_a_full_cache_moves_no_bit(model, tmp_path):
    """Edited passes begin with the clean one, whether its texts are known or not."""
    edits = [(case, Push().edit(model, CASES[0].requests)) for case in TOLD]
    one, other = (CleanPass(model, tmp_path).ask(TOLD, edits) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"[1, 2]", b'{"a": 1}', b"\xff", None])
def test_a_damaged_file_is_computed_anew(model, tmp_path, damage):
    first = ask(model, tmp_path)
    (path,) = tmp_path.glob("*/*.json")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"-", b"-1", 1) if damage is None else damage)
    assert ask(model, tmp_path) == first
    assert path.read_bytes() == whole


def test_other_weights_precisions_and_batches_have_files_of_their_own(tmp_path):
    for other in (
        tiny_model(), tiny_model("llama"), tiny_model(dtype=torch.float64),
        tiny_model(batch_rows=1), tiny_model(padding="left"),
    ):  # fmt: skip
        ask(other, tmp_path)
    ask(tiny_model(), tmp_path, [made(Generate("Ada lives in", 6))])
    assert len(list(tmp_path.glob("*/*.json"))) == 6


def test_another_tokenizer_has_files_of_its_own(model, tmp_path):
    """The same weights and texts, and other tokens."""
    ask(model, tmp_path)
    lower = copy.deepcopy(model.tokens.tokenizer)
    lower.backend_tokenizer.normalizer = normalizers.Lowercase()
    ask(Model(model.module, lower), tmp_path)
    assert len(list(tmp_path.glob("*/*.json"))) == 2


def test_weights_changed_in_memory_are_another_model(model, tmp_path):
    first = ask(model, tmp_path)
    with torch.no_grad():
        model.module.get_output_embeddings().weight.mul_(2)
    second = ask(model, tmp_path)
    assert second != first
    assert len(list(tmp_path.iterdir())) == 2


def test_answers_that_are_no_numbers_are_not_kept(model, tmp_path):
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(float("nan"))
    ask(model, tmp_path)
    assert not list(tmp_path.glob("*/*.json"))


def test_a_model_with_a_hook_of_the_users_own_keeps_nothing(model, tmp_path):
    head = model.architecture.head
    handle = head.register_forward_hook(lambda module, args, output: 2 * output)
    doubled = ask(model, tmp_path)
    handle.remove()
    assert not list(tmp_path.iterdir())
    assert ask(model, tmp_path) != doubled


def test_another_configuration_has_files_of_its_own(tmp_path):
    """The same weight files beside another config.json."""
    plain, other = tiny_model(), tiny_model(activation_function="relu")
    for model in (plain, other):
        model.identify("the weights' digest")
        ask(model, tmp_path)
    assert len(list(tmp_path.glob("*/*.json"))) == 2


def test_a_cache_that_cannot_be_written_does_no_harm(model, tmp_path):
    (tmp_path / "file").write_text("")
    assert ask(model, tmp_path / "file") == ask(model, None)


def test_editors_share_one_clean_pass(model, monkeypatch):
    """Counted positions of the first block: those of the second editor are not among them."""
    editors = [Push(), Push(fails=("Bob",))]
    assert all(start_of_edit(model, editors[0].edit(model, c.requests)) for c in CASES)
    run = []
    model.architecture.block(0).register_forward_hook(
        lambda module, args, output: run.append(args[0].shape[:2].numel())
    )
    before, plan = CleanPass(model), list(steps(CASES, Regime()))
    # Which asks its own texts after each chunk.
    monkeypatch.setattr(before.guard, "verify", lambda *_, **__: None)
    streams = [worked(model, e, plan, before, size=3) for e in editors]
    next(streams[0])
    first = sum(run)
    next(streams[1])
    assert sum(run) == first > 0


def test_sharing_changes_no_record(model):
    plan = list(steps([*CASES, case("Fiat", "Ada " * 600)], Regime()))
    editors = [Push(), Push(fails=("Bob",), infinite=("Ann",))]
    alone = [list(worked(model, e, plan, size=2)) for e in editors]
    before = CleanPass(model)
    streams = [worked(model, e, plan, before, size=2) for e in editors]
    together = list(zip(*streams, strict=True))
    for number, (first, second) in enumerate(together):
        for mine, theirs in ((first, alone[0][number]), (second, alone[1][number])):
            assert [timeless(r) for r in mine] == [timeless(r) for r in theirs]


def timeless(record):
    return {**vars(record), "seconds": None, "values": repr(record.values)}


def test_an_edit_that_changes_nothing_costs_nothing(model):
    before = CleanPass(model)
    scored = [made(Choose("Ada lives in", PAIR))]
    edits = [(case, Edit(info={"steps": 0})) for case in scored]
    before.ask(scored, edits)
    ran = []
    model.module.register_forward_pre_hook(lambda *args: ran.append(args))
    (((first, after)),) = before.ask(scored, edits)
    assert first == after
    assert not ran
