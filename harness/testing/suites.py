"""The suites; see `edit_harness.testing` for how to use them."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass, replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch

from edit_harness import discovery
from edit_harness.cases import (
    Answer,
    Case,
    Choose,
    Distribution,
    Divergence,
    Drift,
    Generate,
    Key,
    NextToken,
    Probe,
    Query,
    Reply,
    Request,
    Scores,
    Text,
    Verdict,
)
from edit_harness.edits import Adaptor, Edit
from edit_harness.encoding import finite
from edit_harness.errors import HarnessError, PluginError
from edit_harness.fields import build, defaults, settings
from edit_harness.interfaces import Builder, Editor, Judge, Material, Metric, ModelSource, Task
from edit_harness.judging import sound
from edit_harness.model import Model
from edit_harness.plugins import Component, Plugins
from edit_harness.presets import configure, shape_of
from edit_harness.testing.tiny import tiny_model

FACTS = (
    Request("{} lives in", "Ann", "Rome", "Oslo"),
    Request("The firm of {} is", "Bob", "Saab", "Fiat"),
)
"""What editors are asked to write."""
HEAVY = ("torch", "transformers", "numpy", "scipy")
"""What a plugin must not import before one of its components is used."""


def state_of(model: Model) -> dict[str, Any]:
    """Return everything that an editor could leave behind, comparable by ``==``."""
    modules = dict(model.module.named_modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    parameters = dict(model.module.named_parameters())
    return {
        "weights": {n: bits(t) for n, t in model.module.state_dict().items()},
        "hooks": {(n, h): list(getattr(m, h)) for n, m in modules.items() for h in hooks},
        "modules": {n: id(m) for n, m in modules.items()},
        "training mode": {n: m.training for n, m in modules.items()},
        "requires_grad": {n: p.requires_grad for n, p in parameters.items()},
        "gradients": [n for n, p in parameters.items() if p.grad is not None],
        "torch's random state": bits(torch.random.get_rng_state()),
        "numpy's random state": str(np.random.get_state()),
        "Python's random state": random.getstate(),
        "default dtype": torch.get_default_dtype(),
        "gradient mode": torch.is_grad_enabled(),
    }


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bits of a tensor."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


@contextmanager
def left_alone(model: Model) -> Iterator[None]:
    """Fail if something about the model or the process is not as it was."""
    before = state_of(model)
    yield
    after = state_of(model)
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"changed and not restored: {', '.join(changed)}"


def forward_counter(
    model: Model, monkeypatch: pytest.MonkeyPatch, fail_at: int = 0
) -> Callable[[], int]:
    """Count the forward passes from now on; raise `Interrupted` instead of number ``fail_at``."""
    forward, count = model.module.forward, 0

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == fail_at:
            raise Interrupted
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.module, "forward", counting)
    return lambda: count


class Interrupted(Exception):
    """What a forward pass raises when a test interrupts an editor."""


class EditorTests:
    """What every editor must do."""

    editor: Editor
    family: ClassVar[str] = "gpt2"
    """The family of the tiny model: "gpt2" or "llama"."""
    trains: ClassVar[bool] = True
    """Set to False if a random model cannot show the edit's effect, as with prompting."""

    @pytest.fixture
    def model(self) -> Model:
        """Return a fresh tiny model; override it to use another."""
        torch.set_num_threads(1)
        return tiny_model(self.family)

    def ready(self, model: Model) -> Editor:
        """Return a copy of the editor that is configured for the model, checked and prepared."""
        shape = shape_of(model.module.config, model.source.family)
        editor = configure(copy.copy(self.editor), shape, type(self.editor).__name__).editor
        editor.check(model)
        editor.prepare(model)
        return editor

    def test_leaves_the_model_and_the_process_as_they_were(self, model: Model) -> None:
        """An edit is data: weights, hooks, modes and global random states stay."""
        editor = self.ready(model)
        with left_alone(model):
            first = editor.edit(model, FACTS[:1])
        with left_alone(model):
            editor.extend(model, first, FACTS[1:])

    def test_preparing_leaves_the_model_and_the_process_as_they_were(self, model: Model) -> None:
        """Nor does it do any harm to prepare."""
        assert model.architecture.blocks
        with left_alone(model):
            self.ready(model)

    def test_leaves_the_model_as_it_was_when_interrupted(
        self, model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An exception at any forward pass leaves nothing behind."""
        self.ready(model).edit(model, FACTS)
        editor = self.ready(model)
        with monkeypatch.context() as patch:
            passes = forward_counter(model, patch)
            editor.edit(model, FACTS)
        total = passes()
        if not total:
            pytest.skip("this editor runs no forward pass")
        for fail_at in sorted({1, (total + 1) // 2, total}):
            editor = self.ready(model)
            with left_alone(model), monkeypatch.context() as patch:
                forward_counter(model, patch, fail_at)
                with pytest.raises(Interrupted):
                    editor.edit(model, FACTS)

    def test_is_deterministic(self, model: Model) -> None:
        """The same requests give the same edit, whatever the global random state."""
        edits = []
        for seed in (1, 2):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                edits.append(self.ready(model).edit(model, FACTS))
        first, second = edits
        assert same_weights(first, second)
        assert first.prefix == second.prefix
        queries = [Choose(fact.text, (fact.target_new,)) for fact in FACTS]
        assert model.answer([(first, q) for q in queries]) == model.answer(
            [(second, q) for q in queries]
        )

    def test_makes_the_target_likelier(self, model: Model) -> None:
        """An edit does what was asked."""
        self.skip_unless_trains()
        editor = self.ready(model)
        for fact in FACTS:
            assert gain(model, editor.edit(model, [fact]), fact) > 0

    def test_takes_several_requests_at_once(self, model: Model) -> None:
        """One edit writes every request."""
        edit = self.ready(model).edit(model, FACTS)
        self.skip_unless_trains()
        assert all(gain(model, edit, fact) > 0 for fact in FACTS)

    def test_accumulates(self, model: Model) -> None:
        """What was written before stays when more is written."""
        editor = self.ready(model)
        edit = editor.extend(model, editor.edit(model, FACTS[:1]), FACTS[1:])
        self.skip_unless_trains()
        assert all(gain(model, edit, fact) > 0 for fact in FACTS)
        last_alone = editor.edit(model, FACTS[1:])
        assert gain(model, edit, FACTS[0]) != gain(model, last_alone, FACTS[0]), "it was forgotten"

    def test_edits_each_as_if_one_by_one(self, model: Model) -> None:
        """Finding many edits together gives what finding them one by one gives."""
        editor = self.ready(model)
        batches = [[fact] for fact in FACTS] + [list(FACTS)]
        together = editor.edit_each(model, batches)
        assert len(together) == len(batches)
        assert editor.edit_each(model, []) == []
        for batch, edit in zip(batches, together, strict=True):
            alone = editor.edit(model, batch)
            assert alone.prefix == edit.prefix
            assert_same_answers(model, alone, edit, rtol=1e-3, atol=1e-3)

    def test_many_edits_share_a_batch(self, model: Model) -> None:
        """A row's answer depends neither on the other rows nor on how its edit is applied."""
        editor = self.ready(model)
        edits = [Edit(), *(editor.edit(model, [fact]) for fact in FACTS), editor.edit(model, FACTS)]
        asked = [(edit, query) for query in questions() for edit in edits]
        for (edit, query), answer in zip(asked, model.answer(asked), strict=True):
            with model.applied(edit):
                (alone,) = model.answer([(edit.without_weights(), query)])
            assert_close(answer, alone, rtol=1e-4, atol=2e-5)

    def test_keeps_no_gradients(self, model: Model) -> None:
        """An edit holds numbers, not the graph that led to them, nor the model's own tensors."""
        edit = self.ready(model).edit(model, FACTS[:1])
        own = {t.data_ptr() for t in model.module.state_dict().values()}
        for name, tensor in tensors_of(edit):
            assert not tensor.requires_grad, name
            assert torch.isfinite(tensor).all(), name
            assert tensor.data_ptr() not in own, name

    def test_is_saved_and_loaded(self, model: Model, tmp_path: Path) -> None:
        """An edit survives being stored, with its adaptors; only a patch, which is code, cannot."""
        edit = self.ready(model).edit(model, FACTS)
        path = tmp_path / "edit.safetensors"
        if edit.patch:
            with pytest.raises(PluginError):
                edit.save(path)
            return
        edit.save(path, model.digest)
        loaded = Edit.load(path, model.digest)
        assert same_weights(edit, loaded)
        assert loaded.prefix == edit.prefix
        assert loaded.info == json.loads(json.dumps(dict(edit.info)))
        assert_same_answers(model, edit, loaded, rtol=1e-4, atol=2e-5)

    def test_extends_what_was_loaded(self, model: Model, tmp_path: Path) -> None:
        """A stored edit has all that is needed to accumulate further ones."""
        editor = self.ready(model)
        first = editor.edit(model, FACTS[:1])
        if first.patch:
            pytest.skip("a patch is code, which cannot be stored")
        first.save(tmp_path / "edit.safetensors")
        loaded = Edit.load(tmp_path / "edit.safetensors")
        edits = [editor.extend(model, each, FACTS[1:]) for each in (first, loaded)]
        assert_same_answers(model, *edits, rtol=1e-3, atol=1e-3)

    def test_hyperparameters_and_diagnostics_are_recordable(self, model: Model) -> None:
        """Fields, provenance and info go into the record of a run, which is strict JSON."""
        editor = self.ready(model)
        for data in (settings(editor), dict(editor.provenance), editor.variant):
            json.dumps(data, allow_nan=False)
        json.dumps(dict(editor.edit(model, FACTS[:1]).info), allow_nan=False)

    def test_is_built_from_its_fields(self) -> None:
        """The record of a run is enough to make the editor again."""
        assert build(type(self.editor), settings(self.editor), "editor") == self.editor

    def skip_unless_trains(self) -> None:
        """Skip what a random model cannot show."""
        if not self.trains:
            pytest.skip("a random model cannot show it")


def questions() -> list[Query]:
    """Return queries on the facts, with candidates of more than one token."""
    chosen = [Choose(f.text, (f.target_new, f.target_true)) for f in FACTS]
    return [*chosen, *(NextToken(f.text) for f in FACTS)]


def gain(model: Model, edit: Edit, fact: Request) -> float:
    """Return by how many nats an edit makes the target likelier."""
    query = Choose(fact.text, (fact.target_new,))
    before, after = model.answer([(Edit(), query), (edit, query)])
    assert isinstance(before, Scores)
    assert isinstance(after, Scores)
    return before.nll(0) - after.nll(0)


def same_weights(one: Edit, two: Edit) -> bool:
    """Tell whether two edits change the same weights by the same bits."""
    return one.weights.keys() == two.weights.keys() and all(
        type(delta) is type(two.weights[name])
        and all(
            bits(t) == bits(getattr(two.weights[name], part)) for part, t in vars(delta).items()
        )
        for name, delta in one.weights.items()
    )


def tensors_of(edit: Edit) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors of an edit, each with the name of what it belongs to."""
    for name, part in (*edit.weights.items(), *edit.adaptors.items()):
        held = vars(part).values() if hasattr(part, "__dict__") else ()
        yield from ((name, each) for each in held if isinstance(each, torch.Tensor))
    yield from edit.state.items()


def assert_same_answers(model: Model, one: Edit, two: Edit, *, rtol: float, atol: float) -> None:
    """Fail if a model answers questions on the facts differently under two edits."""
    for query in questions():
        assert_close(*model.answer([(one, query), (two, query)]), rtol=rtol, atol=atol)


def assert_close(one: Answer, two: Answer, *, rtol: float, atol: float) -> None:
    """Fail if two answers of the same kind are not nearly equal."""
    left, right = (
        np.concatenate([*map(np.asarray, a.logprobs)])
        if isinstance(a, Scores)
        else np.asarray(a.logprobs)
        for a in (one, two)
        if isinstance(a, Scores | Distribution)
    )
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)


class TaskTests:
    """What every task must do."""

    task: Task
    sample: ClassVar[int] = 50
    """How many cases are looked at."""

    @pytest.fixture
    def cases(self) -> list[Case]:
        """Return the first cases."""
        return list(islice(self.task.cases(), self.sample))

    def test_has_cases_with_requests_and_probes(self, cases: list[Case]) -> None:
        """No case is empty, unless it says why it cannot be used, and some can be."""
        assert any(not case.problem for case in cases)
        for case in cases:
            usable = not case.problem
            assert bool(case.requests) == usable, case.id
            assert bool(case.probes) == usable, case.id

    def test_ids_are_unique_texts(self, cases: list[Case]) -> None:
        """Results are found again by case id, in one file and between two runs."""
        assert all(isinstance(case.id, str) and case.id for case in cases)
        assert len({case.id for case in cases}) == len(cases)

    def test_order_and_ids_are_fixed(self, cases: list[Case]) -> None:
        """A limited run is a prefix of the whole, whatever the global random state."""
        state = random.getstate()
        try:
            random.seed(len(cases))
            assert list(islice(copy.copy(self.task).cases(), self.sample)) == cases
        finally:
            random.setstate(state)

    def test_cases_are_json(self, cases: list[Case]) -> None:
        """Cases go into digests and submissions: JSON keeps all that they hold."""
        for case in cases:
            data = asdict(case)
            assert json.loads(json.dumps(data, allow_nan=False)) == finite(data), case.id

    def test_its_metrics_are_installed(self) -> None:
        """A task says how it is measured, by names that exist."""
        assert self.task.metrics
        plugins = Plugins.installed()
        for name in self.task.metrics:
            assert issubclass(plugins.find("metric", name).load(), Metric)

    def test_its_metrics_measure_its_cases(self, cases: list[Case]) -> None:
        """Each metric that it names has something to say about it."""
        plugins = Plugins.installed()
        for name in self.task.metrics:
            metric = plugins.find("metric", name).load()()
            assert any(metric.measure(c, invented(c, 1), invented(c, 2)) for c in cases), name

    def test_says_what_it_is(self) -> None:
        """The record of a run names version and origin, its card where the data are from."""
        assert isinstance(self.task.version, str)
        assert isinstance(self.task.origin, str)
        assert all(isinstance(said, str) for said in self.task.dataset().values())

    def test_its_data_can_be_counted(self) -> None:
        """What the data are made of comes as tables, whose cells are texts and numbers or None."""
        tables = self.task.composition()
        assert any(tables.values())
        cells = [cell for rows in tables.values() for row in rows for cell in row.values()]
        assert all(cell is None or isinstance(cell, str | int | float) for cell in cells)
        json.dumps(cells, allow_nan=False)


class MetricTests:
    """What every metric must do. The answers are made up, so no model is needed."""

    metric: Metric
    task: Task
    """A task with cases that concern the metric."""
    sample: ClassVar[int] = 20

    @pytest.fixture
    def cases(self) -> list[Case]:
        """Return the first cases of the task that can be used."""
        usable = (case for case in self.task.cases() if not case.problem)
        return list(islice(usable, self.sample))

    def values(self, case: Case) -> Mapping[str, float]:
        """Measure a case with answers that depend on its id alone."""
        seed = sum(case.id.encode())
        return self.metric.measure(case, invented(case, seed), invented(case, seed + 1))

    def columns(self, cases: Sequence[Case]) -> dict[str, np.ndarray]:
        """Measure cases, and return the values as columns, NaN where a case has none."""
        rows = [self.values(case) for case in cases]
        names = dict.fromkeys(name for row in rows for name in row)
        return {n: np.array([row.get(n, np.nan) for row in rows]) for n in names}

    def test_values_are_finite_floats(self, cases: list[Case]) -> None:
        """Values go into JSON Lines, which has no NaN."""
        assert any(self.values(case) for case in cases)
        for case in cases:
            assert_floats(self.values(case))

    def test_is_pure(self, cases: list[Case]) -> None:
        """The same answers give the same values, whatever was measured in between."""
        first = [dict(self.values(case)) for case in cases]
        assert [dict(self.values(case)) for case in reversed(cases)] == first[::-1]
        fresh = copy.deepcopy(self.metric)
        for case, values in zip(cases, first, strict=True):
            before, after = (invented(case, sum(case.id.encode()) + i) for i in (0, 1))
            kept = list(before), list(after)
            assert dict(fresh.measure(case, before, after)) == values
            assert (before, after) == kept

    def test_pre_values_describe_the_model_before_the_edit(self, cases: list[Case]) -> None:
        """What is called ``pre_`` does not depend on the answers after the edit."""
        for case in cases:
            one, two = (
                self.metric.measure(case, invented(case, 1), invented(case, seed))
                for seed in (2, 3)
            )
            pre = {n: v for n, v in one.items() if n.startswith("pre_")}
            assert pre == {n: v for n, v in two.items() if n.startswith("pre_")}

    def test_ignores_cases_without_its_probes(self) -> None:
        """A metric has nothing to say about a case that is not meant for it."""
        queries: list[Query] = [
            Choose("a", ("b", "c")), Drift("a"), NextToken("a"), Generate("a"),
        ]  # fmt: skip
        for probes in ([], [Probe("unheard-of", query) for query in queries]):
            case = Case("x", FACTS[:1], tuple(probes))
            answers = invented(case, 0)
            assert self.metric.measure(case, answers, answers) == {}
            assert self.metric.failed(case, answers) == {}

    def test_values_of_a_failed_edit_are_floats(self, cases: list[Case]) -> None:
        """A case whose edit failed counts by what `failed` says, or not at all."""
        for case in cases:
            before = invented(case, 1)
            values = self.metric.failed(case, before)
            assert_floats(values)
            assert values.keys() <= self.metric.measure(case, before, invented(case, 2)).keys()

    def test_summary_ignores_the_order_of_cases(self, cases: list[Case]) -> None:
        """A summary is a function of the set of cases."""
        columns = self.columns(cases)
        order = np.random.default_rng(0).permutation(len(cases))
        first = self.metric.summarize(columns)
        second = self.metric.summarize({k: v[order] for k, v in columns.items()})
        assert first
        assert first.keys() == second.keys()
        np.testing.assert_allclose([*first.values()], [*second.values()], rtol=1e-12)

    def test_summary_bears_missing_values(self, cases: list[Case]) -> None:
        """Cases without a value are left out; a column without any gives NaN, not an error."""
        columns = self.columns(cases)
        gaps = {k: np.append(v, np.nan) for k, v in columns.items()}
        whole, gapped = self.metric.summarize(columns), self.metric.summarize(gaps)
        np.testing.assert_allclose([*gapped.values()], [*whole.values()], rtol=1e-12)
        empty = self.metric.summarize({k: np.full(3, np.nan) for k in columns})
        assert all(isinstance(value, float) for value in empty.values())
        assert self.metric.summarize({}) == {}

    def test_tables_are_of_texts_and_numbers(self, cases: list[Case]) -> None:
        """Tables are shown and stored as they are, and bear cases without a value."""
        columns = self.columns(cases)
        gaps = {name: np.full(len(cases), np.nan) for name in columns}
        for tables in (
            self.metric.tables(cases, columns),
            self.metric.tables(cases, gaps),
            self.metric.tables([], {}),
        ):
            json.dumps(finite(tables), allow_nan=False)
            cells = (cell for rows in tables.values() for row in rows for cell in row.values())
            assert all(cell is None or isinstance(cell, str | int | float) for cell in cells)

    def test_values_are_in_range(self, cases: list[Case]) -> None:
        """What a measure says of its range holds for each case and for the summary."""
        for case in cases:
            assert_in_range(self.metric, self.values(case))
            assert_in_range(self.metric, self.metric.failed(case, invented(case, 1)))
        assert_in_range(self.metric, self.metric.summarize(self.columns(cases)))

    def test_every_number_is_documented(self, cases: list[Case]) -> None:
        """Tables find the meaning of each number in `measures`."""
        numbers = set(self.metric.summarize(self.columns(cases)))
        failed = [self.metric.failed(case, invented(case, 1)) for case in cases]
        columns = {name: np.array([row[name]]) for row in failed for name in row}
        numbers |= set(self.metric.summarize(columns))
        for number in numbers:
            when, _, name = number.partition("_")
            assert when in ("pre", "post"), f"{number} begins with neither pre_ nor post_"
            assert name in self.metric.measures, f"{name} is not in measures"
        for name, measure in self.metric.measures.items():
            assert measure.formula.strip(), f"{name} has no formula"
            assert measure.better in ("higher", "lower", "")


def assert_floats(values: Mapping[str, float]) -> None:
    """Fail unless all values are finite floats."""
    for name, value in values.items():
        assert isinstance(value, float), name
        assert math.isfinite(value), name


ROUNDING = 1e-9
"""How far sums of a case's values, in double precision, may lead out of a range."""


def assert_in_range(metric: Metric, values: Mapping[str, float]) -> None:
    """Fail if a value is outside of what its measure says; NaN, which is none, is not."""
    for number, value in values.items():
        if measure := metric.measures.get(number.partition("_")[2]):
            low, high = measure.limits
            within = low - ROUNDING <= value <= high + ROUNDING
            assert within or math.isnan(value), f"{number} is {value}"


def invented(case: Case, seed: int) -> list[Answer]:
    """Return made-up answers to the probes of a case, judged where a probe has a key."""
    rng = random.Random(seed)
    return [_judged(_invent(probe.query, rng), probe, rng) for probe in case.probes]


def _judged(answer: Answer, probe: Probe, rng: random.Random) -> Answer:
    if probe.key is None or not isinstance(answer, Text):
        return answer
    status: Literal["decided", "undecided"] = rng.choice(["decided", "decided", "undecided"])
    score = float(status == "decided" and rng.random() < 0.5)
    verdict = Verdict(
        status,
        score,
        reverted=not score and rng.random() < 0.5,
        ratings={name: rng.choice([-1.0, 0.0, 1.0]) for name in probe.key.about.get("aspects", ())},
        served="a model",
        swapped=rng.choice([None, False, True]),
        usage={"tokens": rng.randint(1, 999), "usd": rng.random()},
    )
    return Text(answer.text, verdict)


def _invent(query: Query, rng: random.Random) -> Answer:
    if isinstance(query, Choose):
        lengths = [rng.randint(1, 3) for _ in query.candidates]
        tokens = tuple(tuple(rng.randrange(100) for _ in range(n)) for n in lengths)
        return Scores(
            tokens=tokens,
            logprobs=tuple(tuple(-rng.expovariate(0.5) for _ in part) for part in tokens),
            argmax=tuple(tuple(rng.choice([t, t + 1]) for t in part) for part in tokens),
        )
    if isinstance(query, Drift):
        return Divergence(rng.expovariate(1), rng.expovariate(1), 1000)
    if isinstance(query, NextToken):
        logits = np.array([rng.gauss(0, 1) for _ in range(50)])
        log_partition = float(np.log(np.exp(logits).sum()))
        return Distribution((logits - log_partition).astype(np.float32), log_partition)
    return Text(" ".join(rng.choice(["the", "city", "of", "Ann", "is", "."]) for _ in range(20)))


class JudgeTests:
    """What every judge must do."""

    judge: Judge
    replies: Sequence[Reply]
    """Replies that it can judge, to which it gives different scores."""

    def test_verdicts_are_sound(self) -> None:
        """There is one for each reply, with a score in [0, 1] unless it is pending."""
        verdicts = self.judge.judge(self.replies)
        assert len(verdicts) == len(self.replies)
        for verdict in verdicts:
            assert sound(verdict), verdict
        assert self.judge.judge([]) == []

    def test_tells_replies_apart(self) -> None:
        """Not everything is right, and not everything is wrong."""
        verdicts = self.judge.judge(self.replies)
        assert len({verdict.score for verdict in verdicts if verdict.status == "decided"}) > 1

    def test_verdicts_do_not_depend_on_the_other_replies(self) -> None:
        """A verdict is filled in later for single replies, in any order."""
        together = self.judge.judge(self.replies)
        assert self.judge.judge(self.replies[::-1]) == together[::-1]
        assert [self.judge.judge([reply])[0] for reply in self.replies] == together

    def test_is_deterministic(self) -> None:
        """A fresh judge says the same, whatever the global random state, which it leaves alone."""
        first = self.judge.judge(self.replies)
        state = random.getstate()
        try:
            random.seed(1)
            seeded = random.getstate()
            assert copy.deepcopy(self.judge).judge(self.replies) == first
            assert random.getstate() == seeded
        finally:
            random.setstate(state)

    def test_bears_any_text(self) -> None:
        """A model may write anything; that is a verdict, not an error."""
        keys = {reply.key.kind: reply.key for reply in self.replies}.values()
        hostile = [Reply("", text, key) for key in keys for text in HOSTILE]
        for verdict in self.judge.judge(hostile):
            assert sound(verdict), verdict

    def test_verdicts_are_json(self) -> None:
        """Verdicts are stored with the answers, in strict JSON."""
        for verdict in self.judge.judge(self.replies):
            assert Verdict(**json.loads(json.dumps(asdict(verdict), allow_nan=False))) == verdict

    def test_refuses_a_kind_that_it_does_not_know(self) -> None:
        """That is the task's mistake, so it must not look like a model's."""
        with pytest.raises(HarnessError):
            self.judge.judge([Reply("", "", Key("no-such-kind"))])

    def test_says_what_it_is(self) -> None:
        """The record of a run identifies the judge; tasks find the kinds that it knows."""
        assert self.judge.kinds
        assert {reply.key.kind for reply in self.replies} <= self.judge.kinds.keys()
        assert isinstance(self.judge.version, str)
        fields = {name: getattr(self.judge, name) for name in defaults(type(self.judge))}
        json.dumps([fields, dict(self.judge.provenance)], allow_nan=False)
        assert build(type(self.judge), fields, "judge") == self.judge


HOSTILE = (
    "", " \n\t ", "\0", "\ud800", "é" * 5_000, "(" * 5_000, "9**9**9**9", "1/0", "{" * 500, "\\frac{",
    "\\" * 500, "x^" * 500, "import os", "__import__('os')", "'\"`$" * 100, "nan", "-inf", "1e999",
)  # fmt: skip


class BuilderTests:
    """What every builder must do."""

    builder: Builder
    material: Material
    """Files that it can make something of."""

    def built(self, material: Material, folder: Path) -> dict[str, bytes]:
        """Return what it makes: the content of each file by its path."""
        folder.mkdir()
        self.builder.build(material, folder / "made", lambda line: None)
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}

    def test_makes_what_it_says(self, tmp_path: Path) -> None:
        """A file or a folder, where it was told to, and nothing beside it."""
        made = self.built(self.material, tmp_path / "out")
        assert made
        inside = "made" if self.builder.makes == "file" else "made/"
        assert all(name.startswith(inside) for name in made)
        assert (tmp_path / "out" / "made").is_dir() == (self.builder.makes == "folder")

    def test_makes_the_same_bytes_again(self, tmp_path: Path) -> None:
        """Whatever the global random state, which it leaves alone."""
        first = self.built(self.material, tmp_path / "first")
        state = random.getstate()
        try:
            random.seed(1)
            seeded = random.getstate()
            assert self.built(self.material, tmp_path / "second") == first
            assert random.getstate() == seeded
        finally:
            random.setstate(state)

    def test_asks_a_model_if_there_is_one(self, tmp_path: Path) -> None:
        """Nothing can be made of facts that a model does not know, and that is an error for users."""
        with pytest.raises(HarnessError):
            self.built(
                replace(self.material, knows=lambda asked: [False] * len(asked)), tmp_path / "a"
            )

    def test_refuses_what_is_no_file_of_facts(self, tmp_path: Path) -> None:
        """The error is one for users, and nothing is left."""
        bad = tmp_path / f"bad{self.material.triples.suffix}"
        bad.write_bytes(b"\xff\xfe{")
        with pytest.raises(HarnessError):
            self.built(replace(self.material, triples=bad), tmp_path / "out")
        assert not list((tmp_path / "out").iterdir())

    def test_is_built_from_its_fields(self) -> None:
        """The command sets fields by name."""
        fields = settings(self.builder)
        json.dumps(fields, allow_nan=False)
        assert build(type(self.builder), fields, "builder") == self.builder


KINDS: dict[str, Any] = {
    "editor": Editor,
    "task": Task,
    "metric": Metric,
    "judge": Judge,
    "builder": Builder,
    "model": ModelSource,
    "adaptor": Adaptor,
    "suite": (BuilderTests, EditorTests, JudgeTests, MetricTests, TaskTests),
}
"""What components of each kind are subclasses of."""


class PluginTests:
    """What every plugin module must do."""

    plugin: ModuleType

    @pytest.fixture
    def components(self) -> list[Component]:
        """Return what the plugin registers; a bad name or an unknown hook raises."""
        plugins = Plugins()
        plugins.add(self.plugin, "under-test")
        return plugins.components

    def test_registers_components_and_says_what_they_are(self, components: list[Component]) -> None:
        """Lists show a summary of each component."""
        assert components
        for component in components:
            assert component.summary.strip(), component.name

    def test_is_advertised(self) -> None:
        """An installed distribution names the module in its entry points."""
        assert self.plugin.__name__ in {
            entry.value for package in discovery.found() for entry in package.entries
        }

    def test_registers_without_heavy_modules(self) -> None:
        """Every start of the command imports every plugin, so that must be cheap."""
        code = (
            "import importlib, sys; from edit_harness.plugins import Plugins; "
            f"Plugins().add(importlib.import_module({self.plugin.__name__!r}), 'under-test'); "
            f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [], "name the factory as text: 'package.module:Class'"

    def test_components_are_of_their_kind(self, components: list[Component]) -> None:
        """Lazy factories can be imported, and are subclasses of what they were registered as."""
        for component in components:
            assert issubclass(component.load(), KINDS[component.kind]), component.name

    def test_components_are_made_without_arguments(self, components: list[Component]) -> None:
        """Every field has a default, but for those of adaptors, which editors make."""
        for component in components:
            if component.kind not in ("adaptor", "suite"):
                build(component.load(), {}, component.name)

    def test_adaptors_can_be_stored(self, components: list[Component]) -> None:
        """The fields of an adaptor are known."""
        for component in components:
            assert component.kind != "adaptor" or is_dataclass(component.load()), component.name


__all__ = ["BuilderTests", "EditorTests", "JudgeTests", "MetricTests", "PluginTests", "TaskTests"]
