"""Baselines: what they hold, how runs are compared with them, and that pocket's can be made again."""

import json
import math
from pathlib import Path

import pytest
from support.builders import IDENTITY, with_entries
from support.bundles import plugins
from support.commands import invoked

import edit_harness as eh
from edit_harness import DataError, Divergence, Scores, Text
from edit_harness.data import Case, Choose, Generate, Probe
from edit_harness.interfaces import ModelSource
from edit_harness.registry.settings import source_of
from edit_harness.run.assembly import make_benchmark
from edit_harness_plugins.commands.leaderboard import baseline
from edit_harness_plugins.commands.leaderboard.baseline import Baseline, disagreement, line
from edit_harness_plugins.commands.leaderboard.submit import of_run

CASE = Case(
    "1", (), (Probe("efficacy", Choose("Rome is in", ("Italy", "Gaul"))), Probe("t", Generate("x")))
)
SCORES = Scores(((1, 2), (3,)), ((-0.5, -0.25), (-2.0,)), ((1, 2), (9,)))
ANSWERS = [SCORES, Text("so it goes")]
HEADER = baseline.Header(
    model="m", config="c", tokenizer="t", dtype="float32", task="x", version="1", data="d"
)
OF_RUN = with_entries(
    IDENTITY,
    model={"digest": "m", "dtype": "float32"},
    task={"name": "x", "version": "1", "data": "d"},
)


def compared(answers, others=0):
    """Say what disagrees in one case, beside so many others that are as published."""
    lines = {"1": line(CASE, ANSWERS)}
    return disagreement(Baseline(HEADER, lines), [(CASE, answers), *[(CASE, ANSWERS)] * others])


def moved(by):
    return [Scores(SCORES.tokens, ((-0.5 + by, -0.25), (-2.0,)), SCORES.argmax), ANSWERS[1]]


def test_values_are_compared_within_the_tolerance():
    assert compared(ANSWERS) == ""
    assert compared(moved(1e-5)) == ""
    for by in (2e-4, -2e-4):
        assert compared(moved(by)).startswith("1 of 4 values")
    drift = compared(moved(9e-5))
    assert drift.startswith("0 of 4 values before the edits are not those"), "of all values, too"
    assert compared(moved(2e-4), others=250) == "", "one value in a thousand may be beyond"
    assert compared(moved(2e-4), others=200).startswith("1 of 804 values")
    # NaN is beyond any.
    nan = Scores(SCORES.tokens, ((math.nan, 0.0), (-2.0,)), SCORES.argmax)
    with pytest.raises(ValueError, match="NaN"):
        compared([nan, ANSWERS[1]])


@pytest.mark.parametrize(
    "answers",
    [
        [SCORES, Text("so it does")],
        [Scores(SCORES.tokens, SCORES.logprobs, ((1, 2), (3,))), ANSWERS[1]],
        [Scores(((1, 2),), ((-0.5, -0.25),), ((1, 2),)), ANSWERS[1]],
        [SCORES],
        [Text("Italy"), ANSWERS[1]],
    ],
)
def test_other_texts_tokens_and_kinds_do_not_agree(answers):
    assert "(worst inf nats, case '1'" in compared(answers)


def test_a_file_comes_back(tmp_path):
    path = tmp_path / "b.jsonl"
    lines = [line(CASE, ANSWERS), line(Case("2", (), (), problem="no"), [])]
    baseline.write(path, HEADER, lines)
    found = baseline.read(path)
    assert found.header == HEADER
    assert list(found.lines.values()) == lines
    assert baseline.find([path], HEADER.place) == found
    assert baseline.find([path], ("m", "float16", "x", "1", "d")) is None
    # A line has the content of its case, and no divergences.
    other = Case("1", (), CASE.probes, tags={"relation": "P17"})
    assert len({line(case, ()).hash for case in (CASE, other)}) == 2
    assert line(CASE, [Divergence(0.0, 0.0, 9), Text("")]).answers[0] is None


def test_a_file_that_is_none_or_damaged(tmp_path):
    path = tmp_path / "b.jsonl"
    for text in ("", "no", '{"baseline": 7}'):
        path.write_text(text + "\n")
        with pytest.raises(DataError, match="is no baseline"):
            baseline.header_of(path)
    baseline.write(path, HEADER, [])
    path.write_text(path.read_text() + '{"id": "1"}\n')
    with pytest.raises(DataError, match="is damaged"):
        baseline.read(path)


def test_a_mismatch_is_told_in_a_line(tmp_path):
    baseline.write(tmp_path / "x.jsonl", HEADER, [line(CASE, ANSWERS)])
    source = ModelSource("m", baselines=str(tmp_path))
    assert baseline.mismatch(source, OF_RUN, [(CASE, ANSWERS)]) == ""
    told = "1 of 4 values before the edits are not those of the baseline (worst 0.5"
    assert baseline.mismatch(source, OF_RUN, [(CASE, moved(0.5))]).startswith(told)
    assert baseline.mismatch(ModelSource("m"), OF_RUN, [(CASE, moved(0.5))]) == ""


@pytest.fixture(scope="module")
def pocket():
    return eh.load_model("pocket")


@pytest.mark.parametrize("task", ["counterfactplus", "zsre"])
def test_pockets_baselines_can_be_made_again(task, pocket, tmp_path):
    source = source_of(plugins(), "pocket")
    benchmark = make_benchmark(plugins(), task, {}, source)
    run = eh.evaluate("none", task, pocket, limit=5, output=tmp_path)
    header, lines = of_run(run)
    found = baseline.find(baseline.shipped(source), header.place)
    assert found.header == header
    assert list(found.lines) == [case.id for case in benchmark.cases]
    assert [each.hash for each in found.lines.values()] == [
        *(line(case, ()).hash for case in benchmark.cases)
    ]
    for new, known in zip(lines, found.lines.values(), strict=False):
        assert (new.id, new.tokens, new.likeliest) == (known.id, known.tokens, known.likeliest)
        for one, two in zip(new.answers, known.answers, strict=True):
            assert one == pytest.approx(two, abs=2) if isinstance(one, list) else one == two


def test_the_command_writes_what_a_run_answers_before_its_edits(tmp_path):
    """A task's sample of its own, and one case of it that cannot be asked."""
    facts = json.loads(Path(source_of(plugins(), "pocket").data["counterfact"]).read_text())[:3]
    facts[1]["requested_rewrite"]["prompt"] += " x" * 3000
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    args = ("-t", "counterfact", "--task-args", f"data={tmp_path / 'facts.json'}")
    done = invoked("leaderboard", "baseline", *args, "--output", tmp_path / "b.jsonl")
    assert done.exit_code == 0, done.output
    found = baseline.read(tmp_path / "b.jsonl")
    assert found.header.name == "pocket"
    assert [bool(each.answers) for each in found.lines.values()] == [True, False, True]
