"""Controls of a run: when they are put to edited models, what of it is kept, and who is refused."""

import json
import math
from dataclasses import dataclass, field

import pytest
import torch
from support.builders import people
from support.loops import Push

import edit_harness as eh
from edit_harness import Control, Graded, Marks, Regime
from edit_harness.run.plan import sample
from edit_harness_plugins.commands.report import formats
from edit_harness_plugins.commands.report.facts import remarks, sound
from edit_harness_plugins.commands.report.layouts import besides
from edit_harness_plugins.commands.report.page import explore
from edit_harness_plugins.controls.collapse import perplexities
from edit_harness_plugins.controls.effects import side_effects
from edit_harness_plugins.reading import reread

NAMES = ("Ada", "Bob", "Ann", "Danielle", "Paris", "Marie", "Leo")
SEQUENCE = Regime("sequential", immediate=True, checkpoints=(2,))
TEXTS = ((5, 9, 2, 7), (3, 3, 8), (11, 4, 6, 1, 2))
MARK = "control:likelihood"


@dataclass
class Likelihood(Control):
    """What the module itself makes of three rows of tokens."""

    seen: list = field(default_factory=list, init=False)
    module: torch.nn.Module | None = field(default=None, init=False)

    def prepare(self, model):
        self.module = model.module

    @torch.no_grad()
    def examine(self):
        torch.manual_seed(0)  # as strangers' code does
        values = tuple(-float(self.module(torch.tensor([t]), labels=torch.tensor([t])).loss)
                       for t in TEXTS)  # fmt: skip
        self.seen.append(values)
        return Graded("three", {"loglikelihood": Marks(values)})


@pytest.fixture
def evaluate(tmp_path, model):
    """Run an editor on seven records and a tiny model."""
    facts = people(tmp_path, NAMES)

    def evaluate(editor=None, control=None, output="results", **changes):
        given = {"controls": [control]} if control else {}
        task = {"task_args": {"data": facts}, "metrics": ["success"], "output": tmp_path / output}
        return eh.evaluate(editor or Push(), "counterfact", model, **{**task, **given, **changes})

    return evaluate


def lines(run, *drop):
    rows = (json.loads(line) for line in run.folder.samples.read_text().splitlines())
    varies = ("seconds", "crc", "fp", *drop)
    return [{k: v for k, v in row.items() if k not in varies} for row in rows]


def of_control(run):
    return [r for r in run.everything if r.case == MARK]


def test_a_sample_of_single_edits_is_examined_behind_the_cases(evaluate, model):
    control = Likelihood()
    run = evaluate(control=control, control_args={"sample": 3})
    chosen = sample(7, 3, seed=0)
    assert [r.visit for r in of_control(run)] == [(MARK, number) for number in chosen]
    assert lines(run)[:7] == lines(evaluate(output="without"))
    assert len(control.seen) == 4, "the unedited model is examined once"
    for row in of_control(run):
        edit = Push().edit(model, [eh.Request("{} is", NAMES[row.state - 1], "x")])
        with model.applied(edit):
            assert row.after[0]["marks"]["loglikelihood"]["values"] == list(
                control.examine().marks["loglikelihood"].values
            )
    (effect,) = side_effects(run).effects
    assert (effect.models, effect.documents, effect.over) == (3, 3, "models")


def test_controls_make_another_run_whose_numbers_are_read_from_the_folder_alone(evaluate):
    run = evaluate(control=Likelihood())
    found = run.results()["control"]["likelihood"]["loglikelihood"]
    assert found["models"] == 7
    assert found["difference"] == pytest.approx(found["after"] - found["before"])
    read = reread(eh.registry.registry.Plugins.installed(), str(run.folder.path))
    assert read.results() == run.results()
    other = evaluate(control=Likelihood(), control_args={"sample": 2})
    assert len({run.folder.path for run in (run, other, evaluate())}) == 3


@pytest.mark.parametrize(
    ("regime", "states"), [(Regime("batch", 3), [1, 2, 3]), (SEQUENCE, range(1, 8))]
)
def test_edits_that_share_a_model_are_examined_where_cases_are(evaluate, regime, states):
    control = Likelihood()
    run = evaluate(control=control, regime=regime)
    assert [r.state for r in of_control(run)] == list(states)
    assert len(control.seen) == 1 + len(states)
    plain = [row for row in lines(run, "seq") if row["case"] != MARK]
    assert plain == lines(evaluate(output="without", regime=regime), "seq")
    (effect,) = side_effects(run).effects
    assert list(effect.states) == list(states)
    assert effect.over == ("models" if regime.mode == "batch" else "documents")


def test_a_run_goes_on_where_it_was_cut_off(evaluate):
    whole = evaluate(control=Likelihood(), control_args={"sample": 4})
    samples = whole.folder.samples
    expected, rows = lines(whole), samples.read_bytes().splitlines(keepends=True)
    for kept in (9, 3):
        samples.write_bytes(b"".join(rows[:kept]))
        control = Likelihood()
        again = evaluate(control=control, control_args={"sample": 4})
        assert lines(again) == expected
        assert again.results() == whole.results()
        assert len(control.seen) == 1 + min(11 - kept, 4)


def test_a_failed_edit_leaves_its_control_out(evaluate):
    run = evaluate(Push(fails=("Bob",)), Likelihood())
    assert [r.status for r in of_control(run)] == ["ok", "edit_failed"] + ["ok"] * 5
    assert side_effects(run).effects[0].models == 6
    assert not sound(run)


@dataclass
class Broken(Control):
    answer: object = None

    def examine(self):
        if self.answer is None:
            raise ValueError("no such thing")
        return self.answer


@pytest.mark.parametrize(("answer", "status"), [(None, "error"), ("words", "plugin_error")])
def test_a_control_that_fails_is_a_failure_of_its_own(evaluate, answer, status):
    run = evaluate(control=Broken(answer=answer))
    assert [r.status for r in run.everything if r.case == "control:broken"] == [status] * 7
    assert not run.failures
    assert not sound(run)
    (said,) = told(run)
    assert said.startswith("no answer of 7 edited models to broken")
    assert f"the first: {status}" in said
    assert side_effects(run).effects == []


def test_any_edit_is_asked_for_the_text(evaluate):
    """Also one by what only rows of a batch have."""
    run = evaluate("prompt", "text", control_args={"sample": 2})
    (effect,) = side_effects(run).effects
    assert (effect.control, effect.name, effect.models) == ("text", "perplexity", 2)
    assert effect.after != effect.before


def told(run):
    return [text for label, text in remarks(run) if label == "control"]


def test_an_edit_that_no_control_sees_is_said(evaluate):
    run = evaluate("prompt", Likelihood(), control_args={"sample": 2})
    assert not sound(run)
    (said,) = told(run)
    assert said.startswith("no answer of 2 edited models to likelihood")
    assert "the edit is one by a text before the prompt, which is not in the module" in said


def test_what_watches_anyway_is_a_row_of_the_table_when_it_is_asked_for(evaluate):
    plain, asked = (evaluate(control=c, regime=SEQUENCE) for c in (None, "text"))
    assert [r.visit for r in asked.everything] == [r.visit for r in plain.everything]
    assert side_effects(plain).effects == []
    (effect,) = side_effects(asked).effects
    assert effect.states[max(effect.states)] == pytest.approx(perplexities(asked)[7])
    found = asked.results()["control"]["text"]["perplexity"]
    assert found["documents"] == 1
    assert found["difference_low"] is None, "of one text there is no interval"


@pytest.mark.parametrize("form", ["json", "txt"])
def test_the_texts_of_a_file_are_documents_of_one_perplexity(evaluate, model, tmp_path, form):
    texts = ["Ada lives in Paris", "Bob", "Rome is Danielle in Paris"]
    file = tmp_path / f"texts.{form}"
    file.write_text(
        json.dumps([{"Text": t} for t in texts]) if form == "json" else "\n".join(texts)
    )
    args = {"data": str(file), "limit": 2}
    run = evaluate(control="text", control_args=args, regime=Regime("sequential", checkpoints=(3,)))
    totals, count = 0.0, 0
    for text in (texts[0], texts[2]):  # one word alone has nothing to predict
        first, rest = (model.tokens.encode(t).ids for t in (text.split()[0], text))
        logits = model.module(torch.tensor([rest])).logits[0].log_softmax(-1)
        scored = range(len(first), len(rest))
        totals += sum(float(logits[i - 1, rest[i]].detach()) for i in scored)
        count += len(scored)
    (before,) = {old for old, _ in perplexities(run).values()}
    assert before == pytest.approx(math.exp(-totals / count))
    (effect,) = side_effects(run).effects
    assert (effect.control, effect.documents, sorted(effect.states)) == ("text", 2, [3, 7])
    assert effect.before == pytest.approx(before)
    (asked,) = run.manifest.identity.controls
    assert asked.fields == {"limit": 2}
    file.write_text("Ada\n")
    with pytest.raises(eh.DataError, match="no text"):
        evaluate(control="text", control_args=args)


@dataclass
class Writing(Likelihood):
    """Changes the model that it measures."""

    def examine(self):
        found = super().examine()
        with torch.no_grad():
            next(self.module.parameters())[0] += 1.0
        return found


def test_a_control_that_changes_the_weights_is_named(evaluate):
    with pytest.raises(eh.errors.LeakError) as raised:
        evaluate(control=Writing(), control_args={"sample": 1})
    assert raised.value.cause.startswith("control writing changed the model itself; not as before:")
    assert "editor" not in raised.value.cause


def test_a_control_without_any_number_is_told(evaluate):
    control = Broken(answer=Graded("none", {}, {"f1": "it is no mean"}))
    run = evaluate(control=control, control_args={"sample": 2})
    assert not sound(run)
    why = "it is no mean, of the unedited model (2 of 2 edited models)"
    assert told(run) == [f"left out: f1 of broken: {why}", "no number at all of broken"]
    assert run.results()["control_left_out"] == {"broken": {"f1": why}}


def test_reports_and_pages_have_the_table_of_controls(evaluate):
    run = evaluate(control=Likelihood(), control_args={"sample": 2})
    plain = evaluate(output="plain")
    (grid,) = besides([run])
    ((names, cells),) = grid.rows
    assert names == ["likelihood loglikelihood ↑"]
    assert cells[-1].text == "3 × 2"
    assert "| likelihood loglikelihood ↑ |" in formats.markdown([grid])
    assert len(formats.comma([grid]).splitlines()) == 4, "before, after and change"
    (both,) = besides([run, plain])
    assert (grid.heads, both.heads) == (["Control"], ["Editor", "Control"])
    assert list(besides([plain])) == []
    assert "<bdi>likelihood loglikelihood</bdi>" in explore([run], "runs")
