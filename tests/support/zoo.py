"""Misbehaving plugins, each in the suites that have to catch it, and a healthy one of each kind.

``caught`` says which checks fail, and words that the message of each has; test_suites.py runs them all.
An editor with one fault is given the checks of its group only, which saves most of the time.
"""

from __future__ import annotations

import random
import socket
import tempfile
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from support import zoo_tasks

from edit_harness import DataError, Editor, Judge, Key, Measure, Metric, Reply, UsageError, Verdict
from edit_harness.edits import Dense, Edit
from edit_harness.testing import EditorTests, JudgeTests, MetricTests, TaskTests
from edit_harness.testing.editors import EffectChecks, RecordChecks, StateChecks
from edit_harness_plugins.commands.authoring import Builder, Material
from edit_harness_plugins.commands.authoring.builder_suite import BuilderTests

ALONE = "test_leaves_the_model_and_the_process_as_they_were"
LIKELIER = "test_makes_the_target_likelier"
SEVERAL = "test_takes_several_requests_at_once"
ADDS_UP = "test_accumulates"
EACH = "test_edits_each_as_if_one_by_one"
SHARED = "test_many_edits_share_a_batch"
RUN = "test_every_case_of_a_run_is_ok"
FIT = "test_edits_fit_the_model"
TRACE = "test_earlier_edits_leave_no_trace_in_the_editor"
SAME = "test_is_deterministic"
FILE = "test_is_saved_and_loaded"
WITHIN = "test_leaves_the_model_as_it_was_when_interrupted"
SET = "test_summary_is_of_a_set_of_values"
ELSEWHERE = "test_cases_are_the_same_in_another_process"
READING = "test_reading_leaves_the_process_as_it_was"
MEASURED = "test_its_metrics_measure_its_cases"
UNTOUCHED = "test_leaves_the_process_as_it_was"
UNKNOWN = "test_asks_a_model_if_there_is_one"
RANDOM = "Python's random state"
SHAPE = "has the shape (32, 128), not (128, 32)"
FOLDER = tempfile.TemporaryDirectory()
FACTS = Path(FOLDER.name) / "facts.txt"
FACTS.write_text("a b")
GIVEN = {
    "editor": {},
    "task": {},
    "metric": {"task": zoo_tasks.Listed(9)},
    "judge": {"replies": tuple(Reply("", text, Key("word", "a")) for text in ("a", "b", "a", "c"))},
    "builder": {"material": Material(FACTS)},
}
"""What a suite of each kind is given besides the plugin."""


def in_suites(*suites, caught, among_others=False):
    """Run suites on a plugin: the checks in ``caught`` fail with these words, and others if it says so."""

    def run(plugin):
        (kind,) = {base.__name__.lower() for base in plugin.__mro__} & GIVEN.keys()
        parts = {"caught": caught, "everything": among_others, kind: plugin(), **GIVEN[kind]}
        name = f"Test{plugin.__name__}"
        globals()[name] = type(name, suites, parts)
        return plugin

    return run


@in_suites(EditorTests, caught={})
@dataclass
class Steepest(Editor):
    """A step along the gradient of one projection."""

    layer: int = 0
    length: float = 1.0

    def edit(self, model, requests):
        name = f"{model.architecture.projection(self.layer).name}.weight"
        weight = model.parameter(name).detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model.nll(requests, {name: weight}).sum(), weight)
        return Edit({name: Dense(-self.length * gradient / gradient.norm())})


def changed(edit, change):
    """Return an edit with another tensor in the place of each."""
    return Edit({name: Dense(change(delta.dense())) for name, delta in edit.weights.items()})


@in_suites(
    EditorTests,
    caught={
        ALONE: "not put back: weights (transformer.h.0.mlp.c_proj.weight)",
        SAME: "a generator of your own",
        TRACE: "an editor keeps nothing",
        SEVERAL: "",
        EACH: "Not equal to tolerance",
        RUN: "the editor changed the model itself",
    },
)
class EditsInPlace(Steepest):
    def edit(self, model, requests):
        edit = super().edit(model, requests)
        with torch.no_grad():
            for name, delta in edit.weights.items():
                model.parameter(name).add_(delta.dense())
        return edit


@in_suites(StateChecks, RecordChecks, caught={WITHIN: "put back in a `finally`"})
class LeavesAHookWhenInterrupted(Steepest):
    def edit(self, model, requests):
        handle = model.module.register_forward_hook(lambda *_: None)
        edit = super().edit(model, requests)
        handle.remove()
        return edit


@in_suites(
    EditorTests,
    caught={TRACE: "an editor keeps nothing of its requests", EACH: "Not equal to tolerance"},
)
@dataclass
class RemembersRequests(Steepest):
    """Writes what it was asked before once more."""

    seen: list = field(default_factory=list, init=False, compare=False)

    def prepare(self, model):
        self.seen = []

    def edit(self, model, requests):
        self.seen = [*self.seen, *requests]
        return super().edit(model, self.seen)


@in_suites(
    EffectChecks,
    caught={
        FIT: "edit() of one request: transformer.h.0.mlp.c_proj.weight has NaN or infinity",
        LIKELIER: "gained nan nats",
        SEVERAL: "gained nan nats",
        ADDS_UP: "gained nan nats",
    },
)
class ReturnsNaN(Steepest):
    def edit(self, model, requests):
        return changed(super().edit(model, requests), lambda tensor: tensor * float("nan"))


@in_suites(EffectChecks, caught={FIT: SHAPE}, among_others=True)
class Transposed(Steepest):
    def edit(self, model, requests):
        return changed(super().edit(model, requests), lambda tensor: tensor.T)


@in_suites(RecordChecks, caught={"test_keeps_no_gradients": "holds the graph: detach() it"})
class KeepsTheGraph(Steepest):
    def edit(self, model, requests):
        return changed(super().edit(model, requests), lambda t: t.clone().requires_grad_() * 1)


@in_suites(
    StateChecks,
    caught={
        ALONE: RANDOM,
        WITHIN: RANDOM,
        SAME: "a generator of your own, seeded by a field",
        TRACE: "an editor keeps nothing",
    },
)
class DrawsAtRandom(Steepest):
    noises = cycle((1.0, 1.5, 2.0))
    """Two draws of chance alone may be all but equal, and then no check can tell."""

    def edit(self, model, requests):
        noise = next(self.noises) + random.random() / 4
        return changed(super().edit(model, requests), lambda tensor: tensor * noise)


@in_suites(EffectChecks, caught={SEVERAL: "'The firm of Bob is Saab' was left out"})
class TakesTheFirst(Steepest):
    def edit(self, model, requests):
        return super().edit(model, requests[:1])


@in_suites(EffectChecks, caught={ADDS_UP: ""})
class Forgets(Steepest):
    def extend(self, model, previous, requests):
        return self.edit(model, requests)


@in_suites(EffectChecks, caught={EACH: "Not equal to tolerance"})
class MixesBatches(Steepest):
    def edit_each(self, model, batches):
        return [self.edit(model, batches[0]) for _ in batches]


def pooled(inputs, outputs, rows):
    """Move the output by the mean of what goes in, over padding too."""
    mean = inputs.mean((1, 2))[:, None, None]
    return outputs + 9 * mean * torch.linspace(0, 1, outputs.shape[-1])


@in_suites(EffectChecks, caught={SHARED: "leave out what rows.mask leaves out"})
class PoolsOverPads(Steepest):
    def edit(self, model, requests):
        name = model.architecture.projection(1).name
        return Edit(super().edit(model, requests).weights, adaptors={name: pooled})

    def extend(self, model, previous, requests):
        with model.applied(previous):
            return replace(previous, adaptors={}) + self.edit(model, requests)


@in_suites(RecordChecks, caught={FILE: "", RUN: "is plugin_error"})
class Unrecordable(Steepest):
    def edit(self, model, requests):
        return replace(super().edit(model, requests), info={"loss": torch.tensor(1.0)})


TASKS = {
    zoo_tasks.Listed: {},
    zoo_tasks.NoCases: {
        "test_has_cases_with_requests_and_probes": "it has no case that can be used",
        MEASURED: "success says nothing of any case",
    },
    zoo_tasks.AskedInVain: {
        "test_has_cases_with_requests_and_probes": "1: a case has requests and probes"
    },
    zoo_tasks.DoubleIds: {"test_ids_are_unique_texts": "two cases have the id 'Ada'"},
    zoo_tasks.HashedIds: {ELSEWHERE: "use no hash(), set order, time or path"},
    zoo_tasks.Shuffled: {
        "test_order_and_ids_are_fixed": "seed what is drawn",
        ELSEWHERE: "a case is another one there",
        READING: RANDOM,
    },
    zoo_tasks.UnknownMetric: {MEASURED: "there is no metric 'no-such-metric'"},
    zoo_tasks.SetInATag: {
        "test_cases_are_json": "Object of type set is not JSON serializable",
        ELSEWHERE: "Object of type set",
    },
    zoo_tasks.ForgetsTheSubject: {
        "test_prompts_have_their_subject": "'{} lives in' has none of the subjects ['Ada']"
    },
    zoo_tasks.EmptyCandidate: {"test_no_text_is_empty": "candidates=('Paris', '')) is empty"},
    zoo_tasks.ItsOwnNeighbour: {
        "test_no_fact_is_its_own_neighbour": "0: 'Ada lives in' is edited, and of the role"
    },
    zoo_tasks.SeedsWhenRead: {READING: RANDOM},
}


class SeenHere(TaskTests):
    """The fault is seen without asking another process, which takes most of the time."""

    test_cases_are_the_same_in_another_process = None


for task, words in TASKS.items():
    in_suites(TaskTests if not words or ELSEWHERE in words else SeenHere, caught=words)(task)


@in_suites(MetricTests, caught={})
class Sure(Metric):
    """The likelihood of the first object."""

    measures = {"X": Measure("mean of p", probes=("efficacy",))}

    def measure(self, case, before, after):
        if case.probes and case.probes[0].role == "efficacy":
            return {"pre_X": before[0].prob(0), "post_X": self.number(after[0].prob(0))}
        return {}

    def number(self, value):
        return value


@in_suites(MetricTests, caught={})
class ComparesTokens(Sure):
    """Item 19 of issue I: a model scores the same tokens before and after, so a metric may pair them."""

    def measure(self, case, before, after):
        if not super().measure(case, before, after):
            return {}
        assert before[0].tokens == after[0].tokens
        same = [a == b for a, b in zip(before[0].argmax[0], after[0].argmax[0], strict=True)]
        return {"post_X": sum(same) / len(same)}


@in_suites(
    MetricTests,
    caught={"test_ignores_cases_without_its_probes": "return {} for a case"},
    among_others=True,
)
class MeasuresAll(Sure):
    def measure(self, case, before, after):
        return {"post_X": 1.0}


@in_suites(MetricTests, caught={"test_every_number_is_documented": "X is not in measures"})
class Undocumented(Sure):
    measures = {"Y": Measure("something else", probes=("efficacy",))}


@in_suites(
    MetricTests,
    caught={
        "test_values_are_finite_floats": "post_X is 3.0, and its measure says that it is from 0.0",
        SET: "its measure says that it is from 0.0 to 1",
    },
)
class Doubles(Sure):
    def number(self, value):
        return 3.0


@in_suites(
    MetricTests,
    caught={
        "test_pre_values_describe_the_model_before_the_edit": "depends on the answers after the edit"
    },
)
class LooksAhead(Sure):
    def measure(self, case, before, after):
        values = super().measure(case, before, after)
        return {**values, "pre_X": values["post_X"]} if values else {}


@in_suites(MetricTests, caught={SET: "depends on the order of the cases"})
class TakesTheLast(Sure):
    def summarize(self, columns):
        return {name: float(column[np.isfinite(column)][-1]) for name, column in columns.items()}


@in_suites(MetricTests, caught={"test_is_pure": "depends on the case and its answers alone"})
class RunningMean(Sure):
    """The mean so far in the order in which it first saw the values: pure when asked again."""

    def __init__(self):
        self.seen = []

    def number(self, value):
        if value not in self.seen:
            self.seen.append(value)
        return sum(self.seen[: self.seen.index(value) + 1]) / (self.seen.index(value) + 1)


@in_suites(
    MetricTests,
    caught={"test_changes_no_argument": "it changed the answers after the edit that it was given"},
)
class CleansAnswers(Sure):
    def measure(self, case, before, after):
        values = super().measure(case, before, after)
        after.clear()
        return values


@dataclass
class Word(Judge):
    """A text is right if it is the key's."""

    kinds = {"word": "nothing"}

    def judge(self, replies):
        if any(reply.key.kind != "word" for reply in replies):
            raise UsageError("a key of another kind")
        return [self.say(reply) for reply in replies]

    def say(self, reply):
        return Verdict("decided", float(reply.text == reply.key.right))


@in_suites(JudgeTests, caught={})
class AsksAServer(Word):
    """A judge of a server that does not listen, but for what it could say of the word itself."""

    failed = Verdict("pending", note="no answer")

    def say(self, reply):
        try:
            socket.getaddrinfo("127.0.0.1", 9)
        except OSError:
            return self.failed
        return super().say(reply)


@in_suites(
    JudgeTests,
    caught={"test_failures_are_never_scored": "what could not be judged is Verdict('pending')"},
)
class FailureIsWrong(AsksAServer):
    failed = Verdict("decided", 0.0)


@in_suites(JudgeTests, caught={"test_failures_are_never_scored": "an error for users ends the run"})
class FailureEndsTheRun(AsksAServer):
    def say(self, reply):
        verdict = super().say(reply)
        if verdict.status == "pending":
            raise UsageError("no server")
        return verdict


@in_suites(JudgeTests, caught={"test_verdicts_are_sound": "a decided one has a score in [0, 1]"})
class OutOfRange(Word):
    def say(self, reply):
        return Verdict("decided", 100.0 * (reply.text == reply.key.right))


@in_suites(
    JudgeTests,
    caught={"test_verdicts_do_not_depend_on_the_other_replies": "order matters: a verdict depends"},
)
class ByOrder(Word):
    def judge(self, replies):
        verdicts = super().judge(replies)
        return [Verdict("decided", v.score / (1 + at)) for at, v in enumerate(verdicts)]


@in_suites(JudgeTests, caught={UNTOUCHED: RANDOM, "test_is_deterministic": ""}, among_others=True)
class Tosses(Word):
    def say(self, reply):
        return Verdict("decided", random.random())


@in_suites(
    JudgeTests,
    caught={"test_refuses_a_kind_that_it_does_not_know": "raise a UsageError"},
)
class TakesAnyKind(Word):
    def judge(self, replies):
        return [self.say(reply) for reply in replies]


@in_suites(JudgeTests, caught={"test_says_what_it_is": "say in `kinds` by which keys"})
class Unsaid(Word):
    kinds = {}


@in_suites(BuilderTests, caught={})
@dataclass(frozen=True)
class Copies(Builder):
    """The facts that are known, one in each line."""

    def build(self, material, out, report):
        try:
            facts = material.triples.read_bytes().decode().split()
        except UnicodeDecodeError as error:
            raise DataError(str(error)) from None
        verdicts = material.knows([(fact, fact) for fact in facts]) if material.knows else facts
        if not any(verdicts):
            raise DataError("nothing is known")
        self.write(out, facts)

    def write(self, out, facts):
        out.write_text("\n".join(facts))


@in_suites(BuilderTests, caught={"test_makes_what_it_says": "`makes` says file or folder"})
class MakesAFolder(Copies):
    def write(self, out, facts):
        out.mkdir()
        (out / "facts").write_text("\n".join(facts))
        (out / "more").mkdir()


@in_suites(BuilderTests, caught={"test_makes_the_same_bytes_again": "", UNTOUCHED: RANDOM})
class Shuffles(Copies):
    def write(self, out, facts):
        super().write(out, [str(random.random()), *facts])


@in_suites(
    BuilderTests,
    caught={"test_refuses_what_is_no_file_of_facts": "UnicodeDecodeError", UNKNOWN: "made data"},
)
class Breaks(Copies):
    def build(self, material, out, report):
        self.write(out, material.triples.read_text().split())


@in_suites(BuilderTests, caught={"test_is_built_from_its_fields": ""})
class ForgetsItsFields(Copies):
    def __eq__(self, other):
        return False

    __hash__ = None


class TestWithoutATask(MetricTests):
    metric = Sure()
    caught = {}
