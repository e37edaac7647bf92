"""The command ``trace`` on the bundled model: where its facts are, and what bad input is told."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.commands import failed, invoked

from edit_harness import DataError, Request, ResourceError, stats
from edit_harness.model.tokens import Continuation
from edit_harness.registry.registry import Plugins
from edit_harness.run import assembly
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.studies.trace import trace as command
from edit_harness_plugins.commands.studies.trace.patching import Fact, Method, Traced
from edit_harness_plugins.commands.studies.trace.trace import ROLES

FIRST, MIDDLE, LAST, NEXT, FURTHER, END = ROLES
FACT = ("--prompt", "{} plays the sport of", "--subject", "Lionel Messi")
HOSTILE = "<script>\x1b[31m"


@pytest.fixture(scope="module")
def pocket():
    """The bundled model, loaded once for all commands here."""
    return assembly.load(Plugins.installed(), "pocket", device="cpu")


@pytest.fixture
def tell(monkeypatch, pocket):
    """Run the command on the model that is there already."""
    monkeypatch.setattr(assembly, "load", lambda *_, **__: pocket)
    return partial(invoked, "trace")


def test_facts_of_pocket_are_recalled_early_at_the_subjects_last_token(tell):
    """What patching another subject's state there showed, seen another way."""
    result = tell("-t", "counterfactplus", "-L", 16, "--noises", 3, "--json")
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


def test_the_same_command_gives_the_same_bytes_and_another_seed_others(tell):
    args = (*FACT, "--noises", 2, "--kinds", "mlp", "--json")
    one, again, seeded = tell(*args).stdout, tell(*args).stdout, tell(*args, "--seed", 1).stdout
    assert one == again
    found, other = json.loads(one), json.loads(seeded)
    assert found["noise"].items() >= {"standard_deviations": 3.0, "samples": 2, "seed": 0}.items()
    assert list(found["indirect_effects"]) == ["mlp"]
    assert found["probability"]["clean"] == other["probability"]["clean"]
    assert found["probability"]["noised"] != other["probability"]["noised"]
    aimed = json.loads(tell(*args, "--target", "basketball").stdout)
    assert aimed["fact"] == "Lionel Messi plays the sport of → basketball"
    assert aimed["probability"]["clean"]["value"] < 0.5 < found["probability"]["clean"]["value"]


def test_pages_and_images_are_written_and_escape_what_was_typed(tell, tmp_path):
    pytest.importorskip("matplotlib")
    page, image = tmp_path / "a.html", tmp_path / "a.png"
    args = ("--prompt", "{} is in", "--subject", f"Rome{HOSTILE}", "--noises", 1)
    result = tell(*args, "--kinds", "hidden", "--html", page, "--png", image)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "\x1b" not in result.stdout + text
    assert "<script" not in text
    assert image.read_bytes().startswith(b"\x89PNG")
    assert f"saved    {page}" in result.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("args", "code", "texts"),
    [
        (("--prompt", "{} lives in"), 2, ("has a prompt and a subject", "or --task NAME")),
        (("--prompt", "Ada lives in", "--subject", "Ada"), 2, ("has not exactly one {}",)),
        ((*FACT, "--kinds", "hidden,heads"), 2, ("'heads'", "known: hidden, mlp, attention")),
        ((*FACT, "--window", "7"), 2, ("a window of 7 is wider than the model's 6 layers",)),
        ((*FACT, "-m", "pocket,gpt2"), 2, ("trace takes one model",)),
        (("-t", "nosuch"), 3, ("nosuch",)),
        ((*FACT, "--noises", "1", "--html", "/dev/null/where.html"), 5, ("cannot be written",)),
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
    facts, _, line = command.known(pocket, asked, None, "mine")
    assert [fact.text for fact in facts] == [request.text for request in true]
    assert line == "2 of the first 3 facts of mine: the model answers their true object first"
    assert command.known(pocket, asked, 1, "mine")[1] == 2
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


LAYERS = 3


def fact(tokens, subject):
    return Fact("text", Continuation(tuple(range(tokens)), (9,)), subject)


def traced(tokens, subject, noises=4, seed=0, clean=0.9):
    """Random probabilities; none is changed before the subject."""
    rng = np.random.default_rng(seed)
    noised = rng.uniform(0, 0.3, noises)
    restored = {}
    for kind in ("hidden", "mlp"):
        restored[kind] = noised[:, None, None] + rng.uniform(0, 0.5, (noises, tokens, LAYERS))
        restored[kind][:, : subject.start] = noised[:, None, None]
    return Traced(fact(tokens, subject), clean, noised, restored)


def test_effects_of_facts_are_means_over_noises_tokens_and_facts():
    traces = [traced(8, range(1, 5), seed=1), traced(3, range(1), seed=2)]
    found = command.of_facts(traces)
    assert (found.over, found.rows) == ("facts", ROLES)
    one, other = (t.restored["mlp"] - t.noised[:, None, None] for t in traces)
    last = found.indirect["mlp"][ROLES.index(LAST)][2]
    assert last.value == pytest.approx((one[:, 4, 2].mean() + other[:, 0, 2].mean()) / 2)
    assert last.n == 2
    middle = found.indirect["mlp"][ROLES.index(MIDDLE)][0]
    assert middle.value == pytest.approx(one[:, 2:4, 0].mean())
    assert middle.n == 1
    assert found.total.value == pytest.approx(0.9 - np.mean([t.noised.mean() for t in traces]))
    without = command.of_facts(traces[1:])
    place = ROLES.index(MIDDLE)
    assert without.indirect["mlp"][place][0].n == 0, "no fact has such a token"
    assert command.heat_maps(without, 1)[1].values[place] == [None] * LAYERS
    # Intervals are those of `stats` over facts.
    traces = [traced(2, range(1), seed=s) for s in range(30)]
    found = command.of_facts(traces)
    values = np.array([(t.restored["mlp"][:, 1, 0] - t.noised).mean() for t in traces])
    alone = stats.estimates({"x": values}, stats.column_means)["x"]
    shown = found.indirect["mlp"][ROLES.index(END)][0]
    assert (shown.value, shown.n) == (pytest.approx(alone.value), 30)
    assert (shown.low, shown.high) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_effects_of_one_fact_are_by_token_and_over_its_noises():
    one = traced(4, range(1, 3), noises=20)
    found = command.of_fact(one, ["The", " Sp", "ace", " is"])
    assert found.rows == ("The", " Sp*", "ace*", " is")
    assert (found.clean.value, found.clean.n, found.total.n) == (0.9, 1, 20)
    assert found.total.low < found.total.value < found.total.high
    assert found.indirect["hidden"][0][0].value == 0
    expected = (one.restored["mlp"][:, 3, 1] - one.noised).mean()
    assert found.indirect["mlp"][3][1].value == pytest.approx(expected)
    hidden, mlp = command.heat_maps(found, 2)
    assert hidden.scale == mlp.scale, "maps share one"
    few = replace(one, noised=np.array([0.01, 0.11]))
    few.restored.update({kind: values[:2] for kind, values in few.restored.items()})
    found = command.of_fact(few, ["The", " Sp", "ace", " is"])
    assert 0 <= found.noised.low < found.total.high <= 1, "what a probability can be"
    # Each token from the subject on is of one kind.
    for tokens, subject, expected in (
        (8, range(1, 5), [FIRST, MIDDLE, MIDDLE, LAST, NEXT, FURTHER, END]),
        (3, range(1), [LAST, NEXT, END]),
        (2, range(1), [LAST, END]),
        (4, range(2, 4), [FIRST, LAST]),
    ):
        assert command.roles(fact(tokens, subject)) == expected
