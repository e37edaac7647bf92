"""Misbehaving plugins, each in the suite that has to catch it, and a healthy one of each kind.

``caught`` says which checks fail, and words that the message of each has; `test_zoo` runs them all.
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
    ItsOwnAttribute,
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


class TestHealthyEditor(EditorTests):
    editor = Steepest()
    caught = {}


class EditsInPlace(Steepest):
    def edit(self, model, requests):
        edit = super().edit(model, requests)
        with torch.no_grad():
            for name, delta in edit.weights.items():
                model.parameter(name).add_(delta.dense())
        return edit


class TestEditsInPlace(EditorTests):
    editor = EditsInPlace()
    caught = {
        ALONE: "not put back: weights (transformer.h.0.mlp.c_proj.weight)",
        SAME: "a generator of your own",
        TRACE: "an editor keeps nothing",
        SEVERAL: "",
        EACH: "Not equal to tolerance",
        RUN: "the editor changed the model itself",
    }


class LeaksAForwardHook(Steepest):
    def edit(self, model, requests):
        model.module.register_forward_hook(lambda *_: None)
        return super().edit(model, requests)


class TestLeaksAForwardHook(StateChecks, RecordChecks):
    editor = LeaksAForwardHook()
    caught = {
        ALONE: "attributes of modules (the model._forward_hooks)",
        "test_leaves_the_model_as_it_was_when_interrupted": "attributes of modules (the model._forward_hooks)",
        RUN: "not as before: attributes of modules (the model._forward_hooks)",
    }


class LeaksABackwardHook(Steepest):
    def edit(self, model, requests):
        edit = super().edit(model, requests)
        model.module.lm_head.register_full_backward_hook(lambda *_: None)
        return edit


class TestLeaksABackwardHook(StateChecks):
    editor = LeaksABackwardHook()
    caught = {ALONE: "attributes of modules (lm_head._backward_hooks"}


class LeavesAHookWhenInterrupted(Steepest):
    def edit(self, model, requests):
        handle = model.module.register_forward_hook(lambda *_: None)
        edit = super().edit(model, requests)
        handle.remove()
        return edit


class TestLeavesAHookWhenInterrupted(StateChecks, RecordChecks):
    editor = LeavesAHookWhenInterrupted()
    caught = {
        "test_leaves_the_model_as_it_was_when_interrupted": "put back in a `finally`",
    }


class Trains(Steepest):
    def edit(self, model, requests):
        edit = super().edit(model, requests)
        model.module.lm_head.train()
        return edit


class WantsGradients(Steepest):
    def edit(self, model, requests):
        edit = super().edit(model, requests)
        model.module.requires_grad_(True)
        return edit


class PadsOnTheLeft(Steepest):
    def edit(self, model, requests):
        model.tokens.tokenizer.padding_side = "left"
        return super().edit(model, requests)


class ComputesInDouble(Steepest):
    def edit(self, model, requests):
        edit = super().edit(model, requests)
        torch.set_default_dtype(torch.float64)
        return edit


class Seeds(Steepest):
    def edit(self, model, requests):
        torch.manual_seed(0)
        return super().edit(model, requests)


class ChangesTheDirectory(Steepest):
    def edit(self, model, requests):
        os.chdir(tempfile.gettempdir())
        return super().edit(model, requests)


class ChangesTheEnvironment(Steepest):
    def edit(self, model, requests):
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        return super().edit(model, requests)


class SeedsWhenPreparing(Steepest):
    def prepare(self, model):
        random.seed(0)


class TestTrains(StateChecks):
    editor = Trains()
    caught = {ALONE: "attributes of modules (lm_head.training)"}


class TestWantsGradients(StateChecks):
    editor = WantsGradients()
    caught = {ALONE: "parameters (lm_head.weight"}


class TestPadsOnTheLeft(StateChecks):
    editor = PadsOnTheLeft()
    caught = {ALONE: "the tokenizer (padding_side)"}


class TestComputesInDouble(StateChecks):
    editor = ComputesInDouble()
    caught = {ALONE: "the default dtype (was torch.float32, is torch.float64)"}


class TestSeeds(StateChecks):
    editor = Seeds()
    caught = {ALONE: "torch's random state"}


class TestChangesTheDirectory(StateChecks):
    editor = ChangesTheDirectory()
    caught = {ALONE: f"the working directory (was {os.getcwd()}, is {tempfile.gettempdir()})"}


class TestChangesTheEnvironment(StateChecks):
    editor = ChangesTheEnvironment()
    caught = {ALONE: "the environment (TOKENIZERS_PARALLELISM)"}


class TestSeedsWhenPreparing(StateChecks):
    editor = SeedsWhenPreparing()
    caught = {ALONE: "Python's random state"}


@dataclass
class RemembersRequests(Steepest):
    """Writes what it was asked before once more."""

    seen: list = field(default_factory=list, init=False, compare=False)

    def prepare(self, model):
        self.seen = []

    def edit(self, model, requests):
        self.seen = [*self.seen, *requests]
        return super().edit(model, self.seen)


class TestRemembersRequests(EditorTests):
    editor = RemembersRequests()
    caught = {
        TRACE: "an editor keeps nothing of its requests",
        EACH: "Not equal to tolerance",
    }


class ReturnsNaN(Steepest):
    def edit(self, model, requests):
        return changed(super().edit(model, requests), lambda tensor: tensor * float("nan"))


class TestReturnsNaN(EffectChecks):
    editor = ReturnsNaN()
    caught = {
        FIT: "edit() of one request: transformer.h.0.mlp.c_proj.weight has NaN or infinity",
        LIKELIER: "gained nan nats",
        SEVERAL: "gained nan nats",
        ADDS_UP: "gained nan nats",
    }


class Transposed(Steepest):
    def edit(self, model, requests):
        return changed(super().edit(model, requests), lambda tensor: tensor.T)


SHAPE = "has the shape (32, 128), not (128, 32)"


class TestTransposed(EffectChecks):
    editor = Transposed()
    everything = True
    caught = {FIT: SHAPE}


class ReturnsAList(Steepest):
    def edit(self, model, requests):
        return list(super().edit(model, requests).weights.items())


class TestReturnsAList(EffectChecks):
    editor = ReturnsAList()
    everything = True
    caught = {
        FIT: "returned a list: return an Edit",
    }


class KeepsTheGraph(Steepest):
    def edit(self, model, requests):
        return changed(super().edit(model, requests), lambda t: t.clone().requires_grad_() * 1)


class TestKeepsTheGraph(RecordChecks):
    editor = KeepsTheGraph()
    caught = {"test_keeps_no_gradients": "holds the graph: detach() it"}


class DrawsAtRandom(Steepest):
    def edit(self, model, requests):
        noise = 1 + random.random()
        return changed(super().edit(model, requests), lambda tensor: tensor * noise)


class TestDrawsAtRandom(StateChecks):
    editor = DrawsAtRandom()
    caught = {
        ALONE: "Python's random state",
        "test_leaves_the_model_as_it_was_when_interrupted": "Python's random state",
        SAME: "a generator of your own, seeded by a field",
        TRACE: "an editor keeps nothing",
    }


class TakesTheFirst(Steepest):
    def edit(self, model, requests):
        return super().edit(model, requests[:1])


class TestTakesTheFirst(EffectChecks):
    editor = TakesTheFirst()
    caught = {SEVERAL: "'The firm of Bob is Saab' was left out"}


class Forgets(Steepest):
    def extend(self, model, previous, requests):
        return self.edit(model, requests)


class TestForgets(EffectChecks):
    editor = Forgets()
    caught = {ADDS_UP: ""}


class MixesBatches(Steepest):
    def edit_each(self, model, batches):
        return [self.edit(model, batches[0]) for _ in batches]


class TestMixesBatches(EffectChecks):
    editor = MixesBatches()
    caught = {EACH: "Not equal to tolerance"}


class Pooled:
    """Moves the output by the mean of what goes in at the tokens, or over all there is."""

    def __init__(self, all_there_is):
        self.all_there_is = all_there_is

    def __call__(self, inputs, outputs, rows):
        counted = (rows.mask | self.all_there_is)[..., None]
        mean = (inputs * counted).sum(1) / counted.sum(1)
        return outputs + 9 * mean.mean(-1)[:, None, None] * torch.linspace(0, 1, outputs.shape[-1])


class PoolsOverPads(Steepest):
    all_there_is = True

    def edit(self, model, requests):
        name = model.architecture.projection(1).name
        weights = super().edit(model, requests).weights
        return Edit(weights, adaptors={name: Pooled(self.all_there_is)})

    def extend(self, model, previous, requests):
        with model.applied(previous):
            return replace(previous, adaptors={}) + self.edit(model, requests)


class PoolsOverTokens(PoolsOverPads):
    all_there_is = False


class TestPoolsOverPads(EffectChecks):
    editor = PoolsOverPads()
    caught = {SHARED: "leave out what rows.mask leaves out"}


class TestPoolsOverTokens(EffectChecks):
    editor = PoolsOverTokens()
    caught = {}


class Unrecordable(Steepest):
    def edit(self, model, requests):
        return replace(super().edit(model, requests), info={"loss": torch.tensor(1.0)})


class TestUnrecordable(RecordChecks):
    editor = Unrecordable()
    caught = {
        FILE: "",
        RUN: "is plugin_error",
    }


class FormatsPrompts(Steepest):
    def edit(self, model, requests):
        assert all(request.prompt.format(request.subject) for request in requests)
        return super().edit(model, requests)


class TestFormatsPrompts(RecordChecks):
    editor = FormatsPrompts()
    caught = {RUN: "so-called"}


class GivesUpWithNaN(Steepest):
    def edit(self, model, requests):
        try:
            return super().edit(model, requests)
        except Exception:
            weight = model.parameter("transformer.h.0.mlp.c_proj.weight")
            return Edit({"transformer.h.0.mlp.c_proj.weight": Dense(weight * float("nan"))})


class TestGivesUpWithNaN(StateChecks, RecordChecks):
    editor = GivesUpWithNaN()
    caught = {
        "test_leaves_the_model_as_it_was_when_interrupted": "DID NOT RAISE",
    }


class TestHealthyTask(TaskTests):
    task = Listed()
    caught = {}


class SeenHere(TaskTests):
    """The fault is seen without asking another process, which takes most of the time."""

    test_cases_are_the_same_in_another_process = None


class TestDoubleIds(SeenHere):
    task = DoubleIds()
    caught = {"test_ids_are_unique_texts": "two cases have the id 'Ada'"}


class TestHashedIds(TaskTests):
    task = HashedIds()
    caught = {
        "test_cases_are_the_same_in_another_process": "use no hash(), set order, time or path"
    }


class TestShuffled(TaskTests):
    task = Shuffled()
    caught = {
        "test_order_and_ids_are_fixed": "seed what is drawn",
        "test_cases_are_the_same_in_another_process": "a case is another one there",
        "test_reading_leaves_the_process_as_it_was": "Python's random state",
    }


class TestUnknownMetric(SeenHere):
    task = UnknownMetric()
    caught = {"test_its_metrics_measure_its_cases": "there is no metric 'no-such-metric'"}


class TestNaNInATag(SeenHere):
    task = NaNInATag()
    caught = {
        "test_cases_are_json": "the case '0' is no strict JSON",
        "test_order_and_ids_are_fixed": "another order",
    }


class TestSetInATag(TaskTests):
    task = SetInATag()
    caught = {
        "test_cases_are_json": "Object of type set is not JSON serializable",
        "test_cases_are_the_same_in_another_process": "Object of type set",
    }


class TestForgetsTheSubject(SeenHere):
    task = ForgetsTheSubject()
    caught = {"test_prompts_have_their_subject": "'{} lives in' has none of the subjects ['Ada']"}


class TestEmptyCandidate(SeenHere):
    task = EmptyCandidate()
    caught = {"test_no_text_is_empty": "candidates=('Paris', '')) is empty"}


class TestNothingToChoose(SeenHere):
    task = NothingToChoose()
    caught = {"test_no_text_is_empty": "0: the candidates ('Paris', 'Paris') are none, or not"}


class TestItsOwnNeighbour(SeenHere):
    task = ItsOwnNeighbour()
    caught = {OTHERS: "0: 'Ada lives in' is edited, and of the role neighborhood"}


class TestItsOwnAttribute(SeenHere):
    task = ItsOwnAttribute()
    caught = {OTHERS: "0: 'Ada lives in' is edited, and of the role attribute"}


class TestSeedsWhenRead(SeenHere):
    task = SeedsWhenRead()
    caught = {"test_reading_leaves_the_process_as_it_was": "Python's random state"}


class Sure(Metric):
    """The likelihood of the first object."""

    measures = {"X": Measure("mean of p", probes=("efficacy",))}

    def measure(self, case, before, after):
        if case.probes and case.probes[0].role == "efficacy":
            return {"pre_X": before[0].prob(0), "post_X": self.number(after[0].prob(0))}
        return {}

    def number(self, value):
        return value


class TestHealthyMetric(MetricTests):
    metric = Sure()
    task = Listed()
    caught = {}


class TestHealthyMetricWithoutATask(MetricTests):
    metric = Sure()
    caught = {}


class CountsCalls(Sure):
    calls = 0

    def number(self, value):
        self.calls += 1
        return value / self.calls


class NotANumber(Sure):
    def number(self, value):
        return float("nan")


class Doubles(Sure):
    def number(self, value):
        return 3.0


class LooksAhead(Sure):
    def measure(self, case, before, after):
        values = super().measure(case, before, after)
        return {**values, "pre_X": values["post_X"]} if values else {}


class TakesTheLast(Sure):
    def summarize(self, columns):
        return {name: float(column[np.isfinite(column)][-1]) for name, column in columns.items()}


class RunningMean(Sure):
    """The mean so far in the order in which it first saw the values: pure when asked again."""

    def __init__(self):
        self.seen = []

    def number(self, value):
        if value not in self.seen:
            self.seen.append(value)
        return sum(self.seen[: self.seen.index(value) + 1]) / (self.seen.index(value) + 1)


class DrawsNoise(Sure):
    def number(self, value):
        return value * random.random()


class CleansAnswers(Sure):
    def measure(self, case, before, after):
        values = super().measure(case, before, after)
        after.clear()
        return values


PURE = "a value depends on the case and its answers alone"


class TestCountsCalls(MetricTests):
    metric = CountsCalls()
    task = Listed()
    caught = {"test_is_pure": PURE}


class TestNotANumber(MetricTests):
    metric = NotANumber()
    task = Listed()
    caught = {
        "test_values_are_finite_floats": "post_X is nan: leave out what has no value",
        "test_is_pure": PURE,
    }


class TestDoubles(MetricTests):
    metric = Doubles()
    task = Listed()
    caught = {
        "test_values_are_finite_floats": "post_X is 3.0, and its measure says that it is from 0.0 to 1",
        "test_summary_is_of_a_set_of_values": "its measure says that it is from 0.0 to 1",
    }


class TestLooksAhead(MetricTests):
    metric = LooksAhead()
    task = Listed()
    caught = {
        "test_pre_values_describe_the_model_before_the_edit": "depends on the answers after the edit"
    }


class TestTakesTheLast(MetricTests):
    metric = TakesTheLast()
    task = Listed()
    caught = {
        "test_summary_is_of_a_set_of_values": "depends on the order of the cases",
    }


class TestRunningMean(MetricTests):
    metric = RunningMean()
    task = Listed()
    caught = {"test_is_pure": PURE}


class TestDrawsNoise(MetricTests):
    metric = DrawsNoise()
    task = Listed()
    caught = {
        "test_is_pure": PURE,
    }


class TestCleansAnswers(MetricTests):
    metric = CleansAnswers()
    task = Listed()
    caught = {"test_changes_no_argument": "it changed the answers after the edit that it was given"}


class TagsCases(Sure):
    def measure(self, case, before, after):
        if case.probes:
            case.probes[0].tags["seen"] = True
        return super().measure(case, before, after)


class ReturnsTexts(Sure):
    def number(self, value):
        return "1"


class ReturnsAHugeInteger(Sure):
    def number(self, value):
        return 10**400


FLOATS = "test_values_are_finite_floats"


class TestTagsCases(MetricTests):
    metric = TagsCases()
    task = Listed()
    caught = {"test_changes_no_argument": "it changed the case that it was given"}


class TestReturnsTexts(MetricTests):
    metric = ReturnsTexts()
    task = Listed()
    everything = True
    caught = {FLOATS: "post_X is a str: return float(...)"}


class TestReturnsAHugeInteger(MetricTests):
    metric = ReturnsAHugeInteger()
    task = Listed()
    everything = True
    caught = {FLOATS: "post_X is a int: return float(...)"}


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


class AsksAServer(Word):
    """A judge of a server that does not listen, but for what it could say of the word itself."""

    failed = Verdict("pending", note="no answer")

    def say(self, reply):
        try:
            socket.getaddrinfo("127.0.0.1", 9)
        except OSError:
            return self.failed
        return super().say(reply)


class FailureIsWrong(AsksAServer):
    failed = Verdict("decided", 0.0)


class FailureEndsTheRun(AsksAServer):
    def say(self, reply):
        verdict = super().say(reply)
        if verdict.status == "pending":
            raise UsageError("no server")
        return verdict


class OutOfRange(Word):
    def say(self, reply):
        return Verdict("decided", 100.0 * (reply.text == reply.key.right))


class ByOrder(Word):
    def judge(self, replies):
        verdicts = super().judge(replies)
        return [Verdict("decided", v.score / (1 + at)) for at, v in enumerate(verdicts)]


class SeedsWhenJudging(Word):
    def say(self, reply):
        random.seed(0)
        return super().say(reply)


REPLIES = tuple(Reply("", text, Key("word", "a")) for text in ("a", "b", "a", "c"))


class TestHealthyJudge(JudgeTests):
    judge = AsksAServer()
    replies = REPLIES
    caught = {}


class TestFailureIsWrong(JudgeTests):
    judge = FailureIsWrong()
    replies = REPLIES
    caught = {"test_failures_are_never_scored": "what could not be judged is Verdict('pending')"}


class TestFailureEndsTheRun(JudgeTests):
    judge = FailureEndsTheRun()
    replies = REPLIES
    caught = {"test_failures_are_never_scored": "an error for users ends the run"}


class TestOutOfRange(JudgeTests):
    judge = OutOfRange()
    replies = REPLIES
    caught = {"test_verdicts_are_sound": "a decided one has a score in [0, 1]"}


class TestByOrder(JudgeTests):
    judge = ByOrder()
    replies = REPLIES
    caught = {
        "test_verdicts_do_not_depend_on_the_other_replies": "order matters: a verdict depends on"
    }


class TestSeedsWhenJudging(JudgeTests):
    judge = SeedsWhenJudging()
    replies = REPLIES
    caught = {"test_leaves_the_process_as_it_was": "Python's random state"}
