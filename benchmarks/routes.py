"""The two routes under one interface: what is asked of each, and in which form it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks import naive
from benchmarks.naive import Asked, Runner, Update
from edit_harness import Choose, Drift, Generate, Query, Request
from edit_harness.edits import UNEDITED, Delta, Edit, LowRank
from edit_harness.model.model import Model
from edit_harness.model.reuse import CleanTexts
from edit_harness_plugins.editors.locate.rome import Rome


@dataclass(frozen=True)
class Numbers:
    """What was found of a case, before or after an edit."""

    nll: Tensor
    """Mean over a target's tokens, prompts by (new, true)."""
    kl: Tensor
    """Of the compared prompts; all zero before an edit."""


class Sequential:
    """The field's way: see `benchmarks.naive`."""

    def __init__(self, runner: Runner, contexts: Sequence[str]) -> None:
        self.runner, self.contexts = runner, contexts
        self._before: list[naive.Answers] = []

    def edit(self, cases: Sequence[Asked]) -> list[Update]:
        """Return an edit for every case."""
        return [self.runner.rome(case, self.contexts) for case in cases]

    def halved(self, edits: Sequence[Update]) -> list[Update]:
        """Return edits of half the size, as if another editor had made them."""
        return [(u, r / 2) for u, r in edits]

    def evaluate(self, cases: Sequence[Asked], edits: Sequence[Update]) -> list[Numbers]:
        """Return a case's numbers before, then those after, for every case."""
        self._before, found = [], []
        for case, edit in zip(cases, edits, strict=True):
            before = self.runner.evaluate(case)
            found += [_numbers(before, before), _numbers(before, self._after(case, edit))]
            self._before.append(before)
        return found

    def evaluate_after(self, cases: Sequence[Asked], edits: Sequence[Update]) -> list[Numbers]:
        """Return the numbers after another editor's edits of the cases evaluated last."""
        return [
            _numbers(before, self._after(case, edit))
            for before, case, edit in zip(self._before, cases, edits, strict=True)
        ]

    def generate(
        self, cases: Sequence[Asked], edits: Sequence[Update], length: int
    ) -> list[list[int]]:
        """Return the tokens of every continued prompt, itself included."""
        found = []
        for case, edit in zip(cases, edits, strict=True):
            with self.runner.written(edit):
                found += self.runner.generate(case.continued, length)
        return found

    def _after(self, case: Asked, edit: Update) -> naive.Answers:
        with self.runner.written(edit):
            return self.runner.evaluate(case)


def _numbers(before: naive.Answers, after: naive.Answers) -> Numbers:
    return Numbers(after.nll, naive.divergence(before, after))


class Together:
    """The harness's way: all cases of a call in shared passes, no weight written."""

    def __init__(self, model: Model, editor: Rome, *, tf32: bool = False) -> None:
        self.model, self.editor, self.tf32 = model, editor, tf32
        self._base = CleanTexts(self.model)

    def edit(self, cases: Sequence[Asked]) -> list[Edit]:
        """Return an edit for every case."""
        requests = [[Request(c.prompt, c.subject, c.new, c.true)] for c in cases]
        with self._precision():
            return self.editor.edit_each(self.model, requests)

    def halved(self, edits: Sequence[Edit]) -> list[Edit]:
        """Return edits of half the size, as if another editor had made them."""
        return [Edit({n: _half(d) for n, d in edit.weights.items()}) for edit in edits]

    def evaluate(self, cases: Sequence[Asked], edits: Sequence[Edit]) -> list[Numbers]:
        """Return a case's numbers before, then those after, for every case."""
        self._base = CleanTexts(self.model)
        asked = [(c, e) for c, edit in zip(cases, edits, strict=True) for e in (UNEDITED, edit)]
        return self._ask(asked)

    def evaluate_after(self, cases: Sequence[Asked], edits: Sequence[Edit]) -> list[Numbers]:
        """Return the numbers after another editor's edits of the cases evaluated last."""
        return self._ask(list(zip(cases, edits, strict=True)))

    def generate(
        self, cases: Sequence[Asked], edits: Sequence[Edit], length: int
    ) -> list[list[int]]:
        """Return the tokens of every continued prompt, itself included."""
        encode = self.model.tokens.encode
        prompts = [(e, p) for c, e in zip(cases, edits, strict=True) for p in c.continued]
        questions = [(e, Generate(p, length - len(encode(p).ids), 1)) for e, p in prompts]
        with self._precision():
            texts = self.model.answer(questions)
        return [
            list(encode(f"{prompt} {text.text}").ids)
            for (_, prompt), text in zip(prompts, texts, strict=True)
        ]

    def _ask(self, asked: Sequence[tuple[Asked, Edit]]) -> list[Numbers]:
        questions = [(edit, query) for case, edit in asked for query in _queries(case)]
        with self._precision():
            answers = iter(self.model.answer(questions, self._base))
        found = []
        for case, _ in asked:
            scores = [next(answers) for _ in case.prompts]
            drifts = [next(answers).forward for _ in case.compared]
            nll = torch.tensor([[score.nll(0), score.nll(1)] for score in scores])
            found.append(Numbers(nll, torch.tensor(drifts)))
        return found

    @contextmanager
    def _precision(self) -> Iterator[None]:
        matmul = torch.backends.cuda.matmul
        before, matmul.allow_tf32 = matmul.allow_tf32, self.tf32
        try:
            yield
        finally:
            matmul.allow_tf32 = before


def _half(delta: Delta) -> LowRank:
    assert isinstance(delta, LowRank)  # as all of ROME's are
    return LowRank(delta.left, delta.right / 2)


def _queries(case: Asked) -> list[Query]:
    pair = (case.new, case.true)
    choices: list[Query] = [Choose(prompt, pair) for prompt in case.prompts]
    return choices + [Drift(case.prompts[i]) for i in case.compared]
