"""Runs in batches and sequences, from the command to what is read back from their folders."""

import json
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from support.builders import people, replace, with_entries
from support.loops import Push
from support.oracles import bent

import edit_harness as eh
from edit_harness import Regime, UsageError
from edit_harness.cli import main
from edit_harness.edits import Dense, Edit
from edit_harness.errors import RunFolderError
from edit_harness.folder.folder import RunFolder
from edit_harness.run import controls
from edit_harness.run.results import Results
from edit_harness.testing import tiny_model
from edit_harness_plugins.commands.run import console
from edit_harness_plugins.commands.run.flags import RegimeFlags
from edit_harness_plugins.controls.collapse import collapsed, perplexities
from edit_harness_plugins.controls.text import TEXT
from edit_harness_plugins.intervals import KINDS

NAMES = ("Ada", "Bob", "Ann", "Danielle", "Paris", "Marie", "Leo")
SEQUENCE = Regime("sequential", immediate=True, checkpoints=(2, 5))

SINGLE, BATCH = Regime(), Regime("batch", 3)


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """Return runs of seven records that tests only read, each made once."""
    folder = tmp_path_factory.mktemp("runs")

    @cache
    def run(regime=SINGLE, editor=""):
        given = {"task_args": {"data": people(folder, NAMES)}, "output": folder / "results"}
        return eh.evaluate(editor or Push(), "counterfact", tiny_model(), regime=regime, **given)

    return run


@pytest.fixture
def evaluate(tmp_path, model):
    """Run an editor on seven records and a tiny model."""
    given = {"task_args": {"data": people(tmp_path, NAMES)}, "output": tmp_path / "results"}

    def evaluate(editor=None, **changes):
        return eh.evaluate(editor or Push(), "counterfact", model, **{**given, **changes})

    return evaluate


def with_values(run, values, **changes):
    """Return a run whose rows have other values of some metrics."""
    rows = [replace(r, values={**r.values, **values(r)}) for r in run.everything]
    return replace(run, everything=rows, **changes)


def mean(records, name):
    return float(np.mean([r.values["success"][name] for r in records]))


def test_a_sequence_has_immediate_final_and_retention_and_a_curve_of_all_cases_so_far(read_only):
    run = read_only(SEQUENCE)
    first = [next(r for r in run.everything if r.visit == (str(i), i + 1)) for i in range(7)]
    last = [next(r for r in run.everything if r.visit == (str(i), 7)) for i in range(7)]
    assert run.immediate_records == first
    assert run.records == last
    for name in ("post_ES", "post_PS", "post_NS"):
        assert run.immediate[name].value == pytest.approx(mean(first, name))
        assert run.estimates[name].value == pytest.approx(mean(last, name))
        moved = mean(last, name) - mean(first, name)
        assert run.retention[name].value == pytest.approx(moved)
    moved = run.estimates["post_S"].value - run.immediate["post_S"].value
    assert run.retention["post_S"].value == pytest.approx(moved)
    assert "Immediate" in run.table()
    again = Results.read(RunFolder(run.folder.path), run.metrics)
    assert again.results() == run.results()
    assert [case.id for case in again.cases] == list("0123456")
    assert again.folder.results().items() >= run.results().items()
    assert [point.state for point in run.curve] == [2, 5, 7]
    for point in run.curve:
        rows = [r for r in run.everything if r.state == point.state and r.case != controls.ID]
        assert len(rows) == point.state
        assert point.estimates["post_ES"].value == pytest.approx(mean(rows, "post_ES"))
    assert run.curve[-1].estimates == run.estimates
    end = read_only(Regime("sequential"))
    assert {r.state for r in end.everything} == {7}
    assert (end.immediate, end.retention) == ({}, {})
    assert [point.state for point in end.curve] == [7]
    assert "After" in end.table()
    # What was kept is of cases that have both values.
    one = run.immediate_records[2]
    rows = [replace(r, status="invalid_case") if r is one else r for r in run.everything]
    kept = replace(run, everything=rows)
    names = [r.case for r in run.records if r.case != one.case]
    then, now = (
        mean([r for r in records if r.case in names], "post_NS")
        for records in (run.immediate_records, run.records)
    )
    assert kept.retention["post_NS"].value == pytest.approx(now - then)
    assert kept.retention["post_NS"].n == 6


def test_a_checkpoint_is_of_the_drawn_cases_alone_whatever_is_measured_beside_them(read_only):
    drawn = replace(SEQUENCE, checkpoints=(4, 6), sample=2)
    run, few = read_only(drawn), read_only(replace(drawn, immediate=False))
    beside = [{r.case for r in one.everything if r.state == 4} for one in (run, few)]
    assert beside[0] - beside[1] == {"3"}, "measured for Immediate"
    assert [p.estimates for p in run.curve] == [p.estimates for p in few.curve]
    assert [p.estimates["post_ES"].n for p in run.curve] == [2, 2, 7]
    assert run.immediate["post_ES"].n == 7


def test_the_interval_of_retention_is_of_paired_differences(read_only):
    """Where no case moves, there is none, however much cases differ; and there is no collapse."""
    run = read_only(SEQUENCE, "none")
    assert run.estimates["post_EM"].low < run.estimates["post_EM"].high
    estimate = run.retention["post_EM"]
    rest = 2 * (1 - 0.005 ** (1 / 7))  # seven cases agree, on what can be from -2 to 2
    assert (estimate.value, estimate.high) == (0, pytest.approx(rest))
    assert collapsed(run) == []
    assert all(old == new for old, new in perplexities(run).values())


def test_a_batch_is_one_edit_to_an_interval(read_only):
    """Whole batches are the units, the seven cases in 3 + 3 + 1; of single edits the cases are."""
    run, single = read_only(BATCH), read_only()
    rows = run.records
    assert [r.state for r in rows] == [1, 1, 1, 2, 2, 2, 3]
    values = np.array([r.values["success"]["post_NS"] for r in rows])
    moves = [3 / 7 * (own - values.mean()).sum() for own in np.split(values, [3, 6])]
    low, high = np.clip(bent(np.array(moves), values.mean()), 0, 1)
    estimate = run["NS"]
    assert (estimate.low, estimate.high) == pytest.approx((low, high))
    assert estimate.n == 7
    assert run.covers == "intervals are over 3 batches, since a batch is one edit"
    assert read_only(Regime("batch", 0)).covers.startswith("intervals are over the cases")
    for name in ("pre_NS", "pre_PS", "pre_S"):  # the unedited model shares no edit
        assert single.estimates[name] == run.estimates[name], name
    assert (single.covers, perplexities(single), collapsed(single)) == ("", {}, [])
    assert {"curve", "perplexity", "interval"}.isdisjoint(single.results())


def test_what_a_run_has_can_be_asked(evaluate, read_only):
    """A stranger's review of issue 18: ``in`` goes by name; metrics are a list."""
    run = read_only()
    assert "ES" in run
    assert "pre_ES" in run
    assert "XX" not in run
    with pytest.raises(UsageError, match="metrics is the text 'success'") as caught:
        evaluate(metrics="success")
    assert caught.value.remedy == "give a list: metrics=['success']"


def test_the_controls_perplexity_is_that_of_the_text(read_only, model):
    """By hand: exp of the mean negative log-probability of all tokens behind the first word."""
    run = read_only(SEQUENCE)
    assert {5, 7} <= perplexities(run).keys()
    first, *words = TEXT.split()
    text = first
    for word in words:  # half of the model's room, and no more
        if 2 * len(model.tokens.encode(f"{text} {word}").ids) > model.tokens.limit:
            break
        text = f"{text} {word}"
    ids = model.tokens.encode(text).ids
    assert 4 * len(ids) > model.tokens.limit
    start = len(model.tokens.encode(first).ids)
    with torch.no_grad():
        log = model.module(torch.tensor([ids])).logits[0].log_softmax(-1)
    nll = [-log[i - 1, ids[i]].item() for i in range(start, len(ids))]
    expected = math.exp(sum(nll) / len(nll))
    assert perplexities(run)[5][0] == pytest.approx(expected, rel=1e-4)
    assert perplexities(run)[7][1] != pytest.approx(expected, rel=1e-3)


@dataclass
class Ruin(Push):
    """Destroys the model at its third edit, by large numbers or by NaN."""

    by: float = 1e4

    def extend(self, model, previous, requests):
        if requests[0].subject != "Ann":
            return super().extend(model, previous, requests)
        gain = "transformer.ln_f.weight"
        return Edit({gain: Dense(torch.full_like(model.parameter(gain), self.by))})


@pytest.mark.parametrize("by", [1e4, float("nan")])
def test_a_collapse_is_reported(evaluate, by):
    run = evaluate(Ruin(by=by), regime=SEQUENCE)
    assert min(collapsed(run)) == 3
    results = run.results()
    assert [p["state"] for p in results["perplexity"]] == list(range(1, 8))
    json.dumps(results, allow_nan=False)


def flags(default=Regime(), mode=None, size=None, at=()):  # noqa: B008
    return RegimeFlags(edit_mode=mode, edit_batch_size=size, eval_at=at).over(default)


def test_flags_override_the_task_s_own_regime():
    seesaw, turns = Regime("batch", 0), Regime(in_turn=True)
    assert flags() == SINGLE
    assert flags(seesaw) == seesaw
    assert flags(seesaw, "single") == SINGLE
    assert flags(seesaw, size="4") == Regime("batch", 4)
    assert flags(mode="batch") == flags(mode="batch", size="all") == Regime("batch", 0)
    assert flags(mode="sequential") == Regime("sequential")
    assert flags(turns, "sequential", "2") == Regime("sequential", 2, in_turn=True)
    assert flags(turns, "batch", "2") == Regime("batch", 2)
    assert flags(turns, "single") == turns
    points = Regime("sequential", immediate=True, checkpoints=(10, 100))
    assert flags(mode="sequential", at=("each", "100", "10", "end")) == points


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "4"}, "single edits are of one case each"),
        ({"mode": "batch", "size": "0"}, "'0' is no whole number from 1 on"),
        ({"mode": "batch", "at": ("10",)}, "--eval-at is for sequential edits, and this is batch"),
        ({"mode": "sequential", "at": ("often",)}, "'often' is no whole number"),
    ],
)
def test_flags_that_do_not_fit(given, message):
    with pytest.raises(UsageError, match=message):
        flags(**given)


@pytest.mark.parametrize(
    "fields",
    [
        ("lifelong",), ("single", 5), ("batch", -1), ("batch", True), ("single", 1, False, True),
        ("batch", 2, False, False, (1,)), ("sequential", 1, False, False, (0,)),
    ],
)  # fmt: skip
def test_a_regime_that_cannot_be_is_refused(fields):
    with pytest.raises(UsageError):
        Regime(*fields)


class Counting(eh.Metric):
    """Sums up its cases in a table."""

    def measure(self, case, before, after):
        return {"post_C": float(case.id)}

    def tables(self, cases, columns):
        return {"sums": [{"n": len(cases), "mean": columns["post_C"].mean()}]}


def test_a_metric_has_tables_of_its_own(read_only, capsys):
    run = read_only()
    metrics = {"counting": Counting()}
    made = with_values(run, lambda r: {"counting": {"post_C": float(r.case)}}, metrics=metrics)
    assert made.tables == {"counting": {"sums": [{"n": 7, "mean": 3.0}]}}
    assert made.results()["tables"] == made.tables
    assert run.tables == {}, "most have none"
    console.finished(made, quiet=True, verbose=False)
    assert "sums" in capsys.readouterr().out


def test_a_column_of_one_batch_is_drawn_over_its_cases(read_only):
    """The metric has other columns with values everywhere; one batch alone is no interval of width 0."""

    def values(r):
        number = float(int(r.case) % 2)
        return {"counting": {"post_C": number, **({"post_R": number} if r.state == 1 else {})}}

    batches = read_only(BATCH)
    run = replace(batches, everything=batches.records)
    both = with_values(run, values, metrics={**run.metrics, "counting": Counting()})
    rare, common = both.estimates["post_R"], both.estimates["post_C"]
    assert (rare.value, rare.n, common.n) == (pytest.approx(1 / 3), 3, 7)
    assert rare.low < rare.value < rare.high
    assert both.estimates["post_ES"] == run.estimates["post_ES"]
    assert both.covers.startswith("intervals are over 3 batches")
    assert both.covers.endswith("; over cases, where one batch alone has values")


def test_where_every_case_failed_there_is_no_number_after_the_edit(evaluate):
    """Item 13 of issue 18: None in results.json, and no zero that looks measured."""
    run = evaluate(Push(fails=NAMES))
    results = run.results()["results"]
    assert len(run.failures) == 7
    for name in ("ES", "NS", "S", "NM"):
        assert results[f"pre_{name},single"] is not None
        assert results.get(f"post_{name},single") is None, name
        assert results.get(f"post_{name}_low,single") is None
    stored = json.loads((run.folder.path / "results.json").read_text())["results"]
    assert stored["post_ES,single"] is None
    some = evaluate(Push(fails=NAMES[:6]))
    assert some["ES"].n == 7, "a failed case counts as a failure where others did not fail"


def test_published_intervals_are_of_prompts_and_no_seed_moves_an_interval(read_only):
    """Item 2 of issue 18: the papers' bootstrap draws cases, and the published one prompts too."""
    run = read_only()
    percentile, published = (
        replace(run, estimated_by=KINDS[interval]).estimates
        for interval in ("percentile", "published")
    )
    rows = run.records.columns("success")["post_NS"]
    rng = np.random.default_rng(0)
    draws = [rows[rng.integers(7, size=7)].mean() for _ in range(1000)]
    found = percentile["post_NS"]
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(draws, [0.5, 99.5])))
    for name, estimate in run.estimates.items():
        assert published[name].value == pytest.approx(estimate.value, nan_ok=True), name
        assert published[name].n == estimate.n
    # The prompts of a case disagree, and are drawn again.
    assert published["post_NS"] != percentile["post_NS"]
    # Item 24 of issue 18: a submitter cannot shop for one, since the rule draws nothing.
    other = replace(run, manifest=with_entries(run.manifest, identity={"seed": 300}))
    for interval in ("student", "percentile", "published"):
        one, two = (replace(each, estimated_by=KINDS[interval]).estimates for each in (run, other))
        assert {n: str(e) for n, e in one.items()} == {n: str(e) for n, e in two.items()}


@pytest.mark.parametrize("cut", ["a row", "half of the last", "a bit of the last", "all"])
def test_a_finished_run_that_lost_rows_is_not_read(evaluate, cut):
    """Item 14 of issue I: no command shows fewer cases than its results; the run makes them again."""
    run = evaluate("none")
    whole = run.folder.samples.read_bytes()
    left = {
        "a row": b"".join(whole.splitlines(keepends=True)[:-1]),
        "half of the last": whole[:-90],
        "a bit of the last": whole[:-90] + bytes([whole[-90] ^ 1]) + whole[-89:],
        "all": b"",
    }[cut]
    run.folder.samples.write_bytes(left)
    name = str(run.folder.path)
    commands = (
        ("report", name), ("compare", name, name), ("score", name), ("compare", "--why", name, name),
        ("case", name, run.planned[0]),
        ("leaderboard", "submit", name, "--contact", "a", "--licence", "b", "--tuned-on", "c"),
    )  # fmt: skip
    for command in commands:
        shown = CliRunner().invoke(main, command)
        assert (shown.exit_code, shown.stdout) == (7, ""), command
        assert "rows that results.json counts are gone" in " ".join(shown.stderr.split())
    listed = CliRunner().invoke(main, ["ls", "runs", "-o", str(run.folder.path.parent)])
    assert "BROKEN" in listed.stdout
    with pytest.raises(RunFolderError, match="are gone"):
        Results.read(RunFolder(run.folder.path), run.metrics)
    assert run.folder.samples.read_bytes() == left, "who reads changes nothing"
    again = evaluate("none")
    assert again.estimates == run.estimates
    assert Results.read(RunFolder(run.folder.path), run.metrics).missing == 0
