"""The command ``trace`` on the bundled model: where its facts are, and what bad input is told."""

import json
from random import Random

import pytest
from click.testing import CliRunner

from edit_harness import DataError, Request, ResourceError
from edit_harness.cli import main
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.studies.trace import trace as command
from edit_harness_plugins.commands.studies.trace.effects import LAST, ROLES
from edit_harness_plugins.commands.studies.trace.method import Fact, Method

FACT = ("--prompt", "{} plays the sport of", "--subject", "Lionel Messi")
HOSTILE = "<script>\x1b[31m"


@pytest.fixture(scope="module")
def pocket():
    """The bundled model, loaded once for all commands here."""
    return assembly.load(Plugins.installed(), "pocket", device="cpu")


@pytest.fixture
def tell(monkeypatch, pocket):
    """Run the command on the model that is there already."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(assembly, "load", lambda *_, **__: pocket)
    return lambda *args: CliRunner().invoke(main, ["trace", *map(str, args)])


def failed(result, code, *texts):
    assert result.exit_code == code, result.output
    for text in texts:
        assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_facts_of_pocket_are_recalled_early_at_the_subjects_last_token(tell):
    """What patching another subject's state there showed, seen another way."""
    result = tell("-t", "counterfactplus", "-L", 16, "--samples", 3, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    total = found["probability"]["total_effect"]["value"]
    assert total > 0.3
    values = {
        kind: [[each["value"] for each in line] for line in grid]
        for kind, grid in found["indirect_effects"].items()
    }
    last = ROLES.index(LAST)
    early = values["hidden"][last]
    assert min(early[:3]) > 0.4 * total  # layers 0 to 2 hold it
    assert early[5] < 0.05 * total  # and it is gone in the end
    assert max(map(max, values["hidden"][:last])) < 0.2 * total  # nor is it at other subject tokens
    mlp = values["mlp"][last]
    assert mlp.index(max(mlp)) == 0
    assert mlp[0] > 0.4 * total
    assert max(map(max, values["attention"][: last + 1])) < 0.25 * total
    late = values["attention"][-1]
    assert late.index(max(late)) >= 3  # the attention of the last token fetches it


def test_layers_whose_state_carries_another_subjects_answer_over_are_those_of_the_trace(
    tell, pocket
):
    """Patching a subject's last token by another's, and restoring it, tell the same of each layer."""
    build = pytest.importorskip("edit_harness_plugins.models.pocket.build.acceptance")
    result = tell("-t", "counterfactplus", "-L", 8, "--samples", 2, "--kinds", "hidden", "--json")
    grid = json.loads(result.stdout)["indirect_effects"]["hidden"]
    effects = [grid[ROLES.index(LAST)][layer]["value"] for layer in range(6)]
    subject = build.Subject(build.load_world(), pocket.module, pocket.tokens.tokenizer, Random(7))
    for layer, flips in ((0, True), (2, True), (4, False), (5, False)):
        share = build.flip_share(subject, layer, 12)
        assert share > 0.7 if flips else share < 0.5, (layer, share)
        assert (effects[layer] > 0.5 * max(effects)) == flips


def test_a_fact_is_shown_by_its_tokens_within_80_columns(tell):
    result = tell(*FACT, "--samples", 2)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    assert "fact     Lionel Messi plays the sport of → football" in lines
    heads = [line for line in lines if line.startswith("Indirect effect of")]
    assert heads == [
        "Indirect effect of a hidden state",
        "Indirect effect of MLP outputs",
        "Indirect effect of attention outputs",
    ]
    assert sum(line.startswith("i*") for line in lines) == 3
    assert "layer from left to right; pale 0.00, dark" in result.stdout


def test_the_same_command_gives_the_same_bytes_and_another_seed_others(tell):
    args = (*FACT, "--samples", 2, "--kinds", "mlp", "--json")
    one, again, other = tell(*args).stdout, tell(*args).stdout, tell(*args, "--seed", 1).stdout
    assert one == again
    found = json.loads(one)
    assert found["noise"] | {"of_embeddings": 0} == {
        "standard_deviations": 3.0, "of_embeddings": 0, "samples": 2, "seed": 0
    }  # fmt: skip
    assert found["facts"] == {
        "task": None, "known": 1, "asked": 1, "digest": json.loads(other)["facts"]["digest"]
    }  # fmt: skip
    assert list(found["indirect_effects"]) == ["mlp"]
    assert found["probability"]["clean"] == json.loads(other)["probability"]["clean"]
    assert found["probability"]["noised"] != json.loads(other)["probability"]["noised"]


def test_a_target_may_be_given(tell):
    result = tell(*FACT, "--target", "basketball", "--samples", 1, "--kinds", "hidden", "--json")
    found = json.loads(result.stdout)
    assert found["fact"] == "Lionel Messi plays the sport of → basketball"
    assert found["probability"]["clean"]["value"] < 0.5


def test_one_number_has_no_interval(tell):
    args = (*FACT, "--samples", 1, "--kinds", "mlp")
    found = json.loads(tell(*args, "--json").stdout)
    assert {(e["low"], e["high"]) for e in found["probability"].values()} == {(None, None)}


def test_pages_and_images_are_written_and_escape_what_was_typed(tell, tmp_path):
    pytest.importorskip("matplotlib")
    page, image = tmp_path / "a.html", tmp_path / "a.png"
    args = ("--prompt", "{} is in", "--subject", f"Rome{HOSTILE}", "--samples", 1)
    result = tell(*args, "--kinds", "hidden", "--html", page, "--png", image)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    text = page.read_text()
    assert "<script" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text
    assert image.read_bytes().startswith(b"\x89PNG")
    assert f"saved    {page}" in result.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("args", "code", "texts"),
    [
        ((), 2, ("a fact to trace has a prompt and a subject", "or --task NAME")),
        (("--prompt", "{} lives in"), 2, ("a fact to trace has a prompt and a subject",)),
        (("--prompt", "Ada lives in", "--subject", "Ada"), 2, ("has not exactly one {}",)),
        ((*FACT, "-t", "counterfactplus"), 2, ("a task brings its own facts",)),
        ((*FACT, "--kinds", "hidden,heads"), 2, ("'heads'", "known: hidden, mlp, attention")),
        ((*FACT, "--window", "7"), 2, ("a window of 7 is wider than the model's 6 layers",)),
        ((*FACT, "-m", "pocket,gpt2"), 2, ("trace takes one model",)),
        ((*FACT, "--noise", "0"), 2, ("noise",)),
        (("-t", "nosuch"), 3, ("nosuch",)),
        ((*FACT, "--samples", "1", "--html", "/no/where.html"), 5, ("cannot be written",)),
    ],
)
def test_bad_input_is_told_in_a_line(tell, args, code, texts):
    failed(tell(*args), code, *texts)


def test_only_known_facts_are_traced_each_once_until_there_are_enough(pocket):
    true = [
        Request("{} plays the sport of", "Lionel Messi", "tennis", "football"),
        Request("{} is a country in", "Croatia", "Asia", "Europe"),
    ]
    wrong = Request("{} plays the game of", "Lionel Messi", "tennis", "chess")
    without = Request("{} lives in", "Ada", "Oslo")
    asked = [wrong, without, true[0], true[0], true[1]]
    found = command.known(pocket, asked, None, "mine")
    assert [fact.text for fact in found.facts] == [request.text for request in true]
    assert found.line == (
        "2 of the first 3 facts of mine: the model answers their true object first"
    )
    assert command.known(pocket, asked, 1, "mine").asked == 2
    with pytest.raises(DataError, match="knows none of the 1 fact of mine that have") as error:
        command.known(pocket, [wrong, without], None, "mine")
    assert error.value.code == 4


def test_a_text_that_memory_does_not_hold_is_told(monkeypatch):
    import torch

    model = tiny_model()
    fact = Fact.of(model, Request("{} lives in", "Ada", "Paris"))

    def full(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(type(model), "logits", full)
    with pytest.raises(ResourceError, match="the states of a fact do not fit the memory of cpu"):
        command.traced(model, [fact], Method(samples=1))
