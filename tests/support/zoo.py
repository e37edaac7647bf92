"""Misbehaving plugins, each in the suites that have to catch it, and a healthy one of each kind.

``caught`` says which checks fail, and words that the message of each has; test_zoo.py runs them all.
An editor with one fault is given the checks of its group only, which saves most of the time.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from support.zoo_tasks import (
    DoubleIds,
    EmptyCandidate,
    ForgetsTheSubject,
    HashedIds,
    ItsOwnNeighbour,
    Listed,
    NaNInATag,
    NothingToChoose,
    SeedsWhenRead,
    SetInATag,
    Shuffled,
    UnknownMetric,
)

from edit_harness import Editor, Judge, Key, Measure, Metric, Reply, UsageError, Verdict
from edit_harness.edits import Dense, Edit
from edit_harness.testing import EditorTests, JudgeTests, MetricTests, TaskTests
from edit_harness.testing.editors import EffectChecks, RecordChecks, StateChecks

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
OTHERS = "test_no_fact_is_its_own_neighbour"
WITHIN = "test_leaves_the_model_as_it_was_when_interrupted"
FLOATS = "test_values_are_finite_floats"
SET = "test_summary_is_of_a_set_of_values"
ELSEWHERE = "test_cases_are_the_same_in_another_process"
READING = "test_reading_leaves_the_process_as_it_was"
SHAPE = "has the shape (32, 128), not (128, 32)"
PURE = "a value depends on the case and its answers alone"
KINDS = {"editor", "task", "metric", "judge"}
REPLIES = tuple(Reply("", text, Key("word", "a")) for text in ("a", "b", "a", "c"))


def in_suites(*suites, caught, among_others=False):
    """Run suites on a plugin: the checks in ``caught`` fail with these words, and others if it says so."""

    def run(plugin):
        made = {"caught": caught, "everything": among_others, "task": Listed(), "replies": REPLIES}
        (kind,) = {base.__name__.lower() for base in plugin.__mro__} & KINDS
        name = f"Test{plugin.__name__}"
        globals()[name] = type(name, suites, {**made, kind: plugin()})
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


@in_suites(
    StateChecks,
    RecordChecks,
    caught={
        ALONE: "attributes of modules (the model._forward_hooks)",
        WITHIN: "attributes of modules (the model._forward_hooks)",
        RUN: "not as before: attributes of modules (the model._forward_hooks)",
    },
)
class LeaksAForwardHook(Steepest):
    def edit(self, model, requests):
        model.module.register_forward_hook(lambda *_: None)
        return super().edit(model, requests)


@in_suites(StateChecks, RecordChecks, caught={WITHIN: "put back in a `finally`"})
class LeavesAHookWhenInterrupted(Steepest):
    def edit(self, model, requests):
        handle = model.module.register_forward_hook(lambda *_: None)
        edit = super().edit(model, requests)
        handle.remove()
        return edit


@in_suites(StateChecks, caught={ALONE: "attributes of modules (lm_head.training)"})
class Trains(Steepest):
    def edit(self, model, requests):
        edit = super().edit(model, requests)
        model.module.lm_head.train()
        return edit


@in_suites(StateChecks, caught={ALONE: "torch's random state"})
class Seeds(Steepest):
    def edit(self, model, requests):
        torch.manual_seed(0)
        return super().edit(model, requests)


@in_suites(
    StateChecks,
    caught={ALONE: f"the working directory (was {os.getcwd()}, is {tempfile.gettempdir()})"},
)
class ChangesTheDirectory(Steepest):
    def edit(self, model, requests):
        os.chdir(tempfile.gettempdir())
        return super().edit(model, requests)


@in_suites(StateChecks, caught={ALONE: "Python's random state"})
class SeedsWhenPreparing(Steepest):
    def prepare(self, model):
        random.seed(0)


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


@in_suites(EffectChecks, caught={FIT: "returned a list: return an Edit"}, among_others=True)
class ReturnsAList(Steepest):
    def edit(self, model, requests):
        return list(super().edit(model, requests).weights.items())


@in_suites(RecordChecks, caught={"test_keeps_no_gradients": "holds the graph: detach() it"})
class KeepsTheGraph(Steepest):
    def edit(self, model, requests):
        return changed(super().edit(model, requests), lambda t: t.clone().requires_grad_() * 1)


@in_suites(
    StateChecks,
    caught={
        ALONE: "Python's random state",
        WITHIN: "Python's random state",
        SAME: "a generator of your own, seeded by a field",
        TRACE: "an editor keeps nothing",
    },
)
class DrawsAtRandom(Steepest):
    def edit(self, model, requests):
        noise = 1 + random.random()
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


class Pooled:
    """Moves the output by the mean of what goes in at the tokens, or over all there is."""

    def __init__(self, all_there_is):
        self.all_there_is = all_there_is

    def __call__(self, inputs, outputs, rows):
        counted = (rows.mask | self.all_there_is)[..., None]
        mean = (inputs * counted).sum(1) / counted.sum(1)
        return outputs + 9 * mean.mean(-1)[:, None, None] * torch.linspace(0, 1, outputs.shape[-1])


@in_suites(EffectChecks, caught={SHARED: "leave out what rows.mask leaves out"})
class PoolsOverPads(Steepest):
    all_there_is = True

    def edit(self, model, requests):
        name = model.architecture.projection(1).name
        weights = super().edit(model, requests).weights
        return Edit(weights, adaptors={name: Pooled(self.all_there_is)})

    def extend(self, model, previous, requests):
        with model.applied(previous):
            return replace(previous, adaptors={}) + self.edit(model, requests)


@in_suites(EffectChecks, caught={})
class PoolsOverTokens(PoolsOverPads):
    all_there_is = False


@in_suites(RecordChecks, caught={FILE: "", RUN: "is plugin_error"})
class Unrecordable(Steepest):
    def edit(self, model, requests):
        return replace(super().edit(model, requests), info={"loss": torch.tensor(1.0)})


@in_suites(RecordChecks, caught={RUN: "so-called"})
class FormatsPrompts(Steepest):
    def edit(self, model, requests):
        assert all(request.prompt.format(request.subject) for request in requests)
        return super().edit(model, requests)


@in_suites(StateChecks, RecordChecks, caught={WITHIN: "DID NOT RAISE"})
class GivesUpWithNaN(Steepest):
    def edit(self, model, requests):
        try:
            return super().edit(model, requests)
        except Exception:
            weight = model.parameter("transformer.h.0.mlp.c_proj.weight")
            return Edit({"transformer.h.0.mlp.c_proj.weight": Dense(weight * float("nan"))})


TASKS = {
    Listed: {},
    DoubleIds: {"test_ids_are_unique_texts": "two cases have the id 'Ada'"},
    HashedIds: {ELSEWHERE: "use no hash(), set order, time or path"},
    Shuffled: {
        "test_order_and_ids_are_fixed": "seed what is drawn",
        ELSEWHERE: "a case is another one there",
        READING: "Python's random state",
    },
    UnknownMetric: {"test_its_metrics_measure_its_cases": "there is no metric 'no-such-metric'"},
    NaNInATag: {
        "test_cases_are_json": "the case '0' is no strict JSON",
        "test_order_and_ids_are_fixed": "another order",
    },
    SetInATag: {
        "test_cases_are_json": "Object of type set is not JSON serializable",
        ELSEWHERE: "Object of type set",
    },
    ForgetsTheSubject: {
        "test_prompts_have_their_subject": "'{} lives in' has none of the subjects ['Ada']"
    },
    EmptyCandidate: {"test_no_text_is_empty": "candidates=('Paris', '')) is empty"},
    NothingToChoose: {
        "test_no_text_is_empty": "0: the candidates ('Paris', 'Paris') are none, or not"
    },
    ItsOwnNeighbour: {OTHERS: "0: 'Ada lives in' is edited, and of the role neighborhood"},
    SeedsWhenRead: {READING: "Python's random state"},
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


@in_suites(
    MetricTests, caught={FLOATS: "post_X is nan: leave out what has no value", "test_is_pure": PURE}
)
class NotANumber(Sure):
    def number(self, value):
        return float("nan")


@in_suites(
    MetricTests,
    caught={
        FLOATS: "post_X is 3.0, and its measure says that it is from 0.0 to 1",
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


@in_suites(MetricTests, caught={"test_is_pure": PURE})
class RunningMean(Sure):
    """The mean so far in the order in which it first saw the values: pure when asked again."""

    def __init__(self):
        self.seen = []

    def number(self, value):
        if value not in self.seen:
            self.seen.append(value)
        return sum(self.seen[: self.seen.index(value) + 1]) / (self.seen.index(value) + 1)


@in_suites(MetricTests, caught={"test_is_pure": PURE})
class DrawsNoise(Sure):
    def number(self, value):
        return value * random.random()


@in_suites(
    MetricTests,
    caught={"test_changes_no_argument": "it changed the answers after the edit that it was given"},
)
class CleansAnswers(Sure):
    def measure(self, case, before, after):
        values = super().measure(case, before, after)
        after.clear()
        return values


@in_suites(
    MetricTests, caught={"test_changes_no_argument": "it changed the case that it was given"}
)
class TagsCases(Sure):
    def measure(self, case, before, after):
        if case.probes:
            case.probes[0].tags["seen"] = True
        return super().measure(case, before, after)


@in_suites(MetricTests, caught={FLOATS: "post_X is a str: return float(...)"}, among_others=True)
class ReturnsTexts(Sure):
    def number(self, value):
        return "1"


@dataclass
class Word(Judge):
    """A text is right if it is the key's."""

    kinds = {"word": "nothing"}

    def judge(self, replies):
        if any(reply.key.kind not in self.kinds for reply in replies):
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
    caught={
        "test_verdicts_do_not_depend_on_the_other_replies": "order matters: a verdict depends on"
    },
)
class ByOrder(Word):
    def judge(self, replies):
        verdicts = super().judge(replies)
        return [Verdict("decided", v.score / (1 + at)) for at, v in enumerate(verdicts)]


@in_suites(JudgeTests, caught={"test_leaves_the_process_as_it_was": "Python's random state"})
class SeedsWhenJudging(Word):
    def say(self, reply):
        random.seed(0)
        return super().say(reply)


class TestWithoutATask(MetricTests):
    metric = Sure()
    caught = {}
